//! `bench-nfs` from options to files, with a script in place of the program: what is measured is not looked at.
#![allow(clippy::unwrap_used)]

use chainline_trial::{Latency, NfOutcome, Outcome, Ready, Reply};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("bench-nfs-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// A program that answers each order so.
fn program(dir: &Path, outcome: &Outcome) -> PathBuf {
    let environment = serde_json::json!({"optimised": true, "pages": ["huge"]});
    let ready = Ready { environment, generator_max_pps: 3e7, floor_ns: Latency::default(), mean_frame_bytes: 64.0 };
    let line = |reply| serde_json::to_string(&reply).unwrap();
    let (ready, outcome) = (line(Reply::Ready(ready)), line(Reply::Outcome(Box::new(outcome.clone()))));
    let path = dir.join("program");
    std::fs::write(&path, format!("#!/bin/sh\necho '{ready}'\nwhile read order; do echo '{outcome}'; done\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn outcome() -> Outcome {
    let nf = NfOutcome { cost_ns: Some(12), ..NfOutcome::default() };
    let nfs = BTreeMap::from([("forward".into(), nf)]);
    Outcome { seconds: 0.1, sent: 3_000_000, received: 3_000_000, balanced: true, nfs, ..Outcome::default() }
}

fn bench(dir: &Path, program: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-nfs"));
    command.args(["--quick", "--only", "forward", "--program"]).arg(program).arg("--out").arg(dir);
    command.output().unwrap()
}

#[test]
fn files_and_table_are_there() {
    let dir = Dir::new("whole");
    let out = bench(&dir.0, &program(&dir.0, &outcome()));
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let table = String::from_utf8(out.stdout).unwrap();
    assert!(table.contains("forward.plain.10.worst.mpps") && table.contains("30.0"), "{table}");
    let results: Value = serde_json::from_slice(&std::fs::read(dir.0.join("nfs.json")).unwrap()).unwrap();
    let figure = &results["forward.plain.1000000.random.mpps"];
    assert_eq!((&figure["rounds"], &figure["bounded_by"]), (&1.into(), &"nf".into()));
    assert_eq!((&figure["median"], &figure["min"], &figure["nf_cost_ns"]), (&30.0.into(), &30.0.into(), &12.0.into()));
    let page = std::fs::read_to_string(dir.0.join("nfs.html")).unwrap();
    assert!(page.contains("forward.plain"));
}

#[test]
fn packets_that_do_not_go_on_make_no_figure() {
    let dir = Dir::new("drops");
    let drops = BTreeMap::from([("firewall/denied".into(), 3)]);
    let out = bench(&dir.0, &program(&dir.0, &Outcome { drops, ..outcome() }));
    let words = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && words.contains("firewall/denied"), "{words}");
    assert!(!dir.0.join("nfs.json").exists());
}
