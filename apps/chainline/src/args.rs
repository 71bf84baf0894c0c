//! The arguments of NFs against the schemas of their kinds, with places in the chain file.

use crate::kinds;
use anyhow::Context;
use chainline_chain::Diagnostics;
use chainline_chain::model::File;
use serde_json::Value;

/// Checks the arguments of every NF of a built-in kind. Those of shared objects are checked when they are loaded.
pub fn check(file: &File) -> anyhow::Result<()> {
    let registry = kinds::registry();
    let mut wrong: Option<Diagnostics> = None;
    for (name, nf) in &file.spec.nfs {
        let Some(kind) = registry.get(&nf.kind) else { continue };
        let schema = (kind.args_schema)();
        let validator = jsonschema::validator_for(&schema).with_context(|| format!("schema of kind {}", kind.name))?;
        let empty = Value::Object(serde_json::Map::new());
        let args = if nf.args.is_null() { &empty } else { &nf.args };
        for error in validator.iter_errors(args) {
            let path = place(&format!("spec.nfs.{name}.args"), error.instance_path().as_str());
            let message = format!("{}: {error}", path.trim_start_matches("spec."));
            let found = file.source.error(&path, message);
            wrong = Some(match wrong {
                Some(all) => all.merge(found),
                None => found,
            });
        }
    }
    wrong.map_or(Ok(()), |all| Err(all.into()))
}

/// A JSON pointer (RFC 6901) as a path of [`chainline_chain::Source`].
fn place(base: &str, pointer: &str) -> String {
    let mut path = base.to_owned();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let index = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        path += &if index { format!("[{part}]") } else { format!(".{part}") };
    }
    path
}

#[cfg(test)]
mod tests {
    #[test]
    fn pointers_become_paths() {
        assert_eq!(super::place("a", ""), "a");
        assert_eq!(super::place("a", "/rules/3/x~1y"), "a.rules[3].x/y");
    }
}
