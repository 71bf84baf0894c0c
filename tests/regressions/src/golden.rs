//! Golden files: refused, or played; what `UPDATE=1` writes is written again as it is.

use crate::file::MemFile;
use crate::scripted;
use chainline_nf::golden::{GoldenError, Subject, check};
use chainline_nf::{Env, Error, NfObject};

struct Any;

impl Subject for Any {
    fn build(&self, _: serde_json::Value, env: &mut Env<'_>) -> Result<Box<dyn NfObject>, Error> {
        scripted::build(env)
    }
}

/// The target.
pub fn run(data: &[u8]) {
    let file = MemFile::new(data);
    if let Err(GoldenError::File { source, .. }) = check(&Any, &file.path(), false) {
        assert_eq!(source.kind(), std::io::ErrorKind::InvalidData, "{source}");
        return;
    }
    if check(&Any, &file.path(), true).is_ok() {
        let first = std::fs::read(file.path()).unwrap();
        let again = check(&Any, &file.path(), true).unwrap_or_else(|e| panic!("what was written is refused: {e}"));
        assert!(!again.updated, "{}\n--- then\n{}", text(&first), text(&std::fs::read(file.path()).unwrap()));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
