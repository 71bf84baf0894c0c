//! What the tests share.

use chainline_bench::process;
use chainline_bench::rivals::adapter::{PortKind, Spec};
use chainline_bench::rivals::lab::Lab;
use chainline_bench::rivals::load;
use std::process::Command;

/// A lab; `None`, with a word, where there can be none.
pub fn lab(kind: PortKind) -> Option<Lab> {
    match Lab::new(kind) {
        Ok(lab) => Some(lab),
        Err(e) => {
            let root = rustix::process::geteuid().is_root();
            let tools = ["ip", "ethtool", "setpriv", "taskset"].iter().all(|p| process::find(p).is_some());
            assert!(!root || !tools, "{e}");
            println!("skipped: {e}");
            None
        }
    }
}

/// An adapter from what is under `spec`.
pub fn adapter(spec: &str) -> Spec {
    let text = format!("apiVersion: chainline/v1alpha1\nkind: Dataplane\nmetadata: {{name: fake}}\nspec:\n{spec}");
    load(text.as_bytes(), "fake.yaml".as_ref()).unwrap_or_else(|e| panic!("{e}")).spec
}

/// What a command prints.
pub fn printed(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Whether a process runs; one that has ended and waits for its parent does not.
pub fn runs(pid: u32) -> bool {
    procfs::process::Process::new(pid as i32).and_then(|p| p.stat()).is_ok_and(|s| s.state != 'Z')
}
