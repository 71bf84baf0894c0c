//! `chainline new-nf`: what it makes builds, passes its own test and runs. The Rust one is built by
//! `docs/write-an-nf.sh`, beside the guide's.

use crate::command::{Dir, chainline, outcome, run};
use std::process::Command;

#[test]
fn a_project_in_c_builds_passes_and_runs() {
    let dir = Dir::new();
    let said = outcome(chainline().args(["new-nf", "my-nf", "--lang", "c"]).current_dir(dir.path(".")));
    assert_eq!(said.status.code(), Some(0), "{}", said.stderr);
    assert!(said.stdout.starts_with("my-nf/my_nf.c\nmy-nf/Makefile\n"), "{}", said.stdout);
    let mut make = Command::new("make");
    make.args(["test", concat!("COMMAND=", env!("CARGO_BIN_EXE_chainline"))]).env("CFLAGS", "-O1 -Werror");
    match make.current_dir(dir.path("my-nf")).output() {
        Err(_) => return println!("skipped: a_project_in_c_builds_passes_and_runs: no make"),
        Ok(out) => {
            let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success() && said.contains("3 cases, 4 packets"), "{said}");
        }
    }
    let report = run(&dir.path("my-nf/chain.yaml"), &[]);
    assert_eq!(report["ledger"]["transmitted"], 1_000_000);
}

#[test]
fn a_project_in_rust_has_no_word_of_the_template_left() {
    let dir = Dir::new();
    let said = outcome(chainline().args(["new-nf", "ttl-guard", "--lang", "rust"]).current_dir(dir.path(".")));
    assert_eq!(said.status.code(), Some(0), "{}", said.stderr);
    for file in said.stdout.lines() {
        let text = std::fs::read_to_string(dir.path(file)).unwrap();
        assert!(!file.contains("NEW") && !text.contains("NEW_"), "{file}");
    }
    let source = std::fs::read_to_string(dir.path("ttl-guard/src/lib.rs")).unwrap();
    assert!(source.contains("impl Nf for TtlGuard") && source.contains("\"ttl_guard\""), "{source}");
}

#[test]
fn wrong_names_and_places_are_told() {
    let dir = Dir::new();
    for (args, why) in [
        (&["My-Nf", "--lang", "c"][..], "found the name \"My-Nf\", expected up to 40 lower-case letters"),
        (&["../x", "--lang", "c"], "expected up to 40 lower-case letters"),
        (&["x", "--lang", "rust", "--sdk", "/"], "/ is no checkout of Chainline"),
        (&["there", "--lang", "c"], "there is there already, expected a new name"),
        (&["x", "--lang", "go"], "possible values: rust, c"),
    ] {
        dir.write("there", "");
        let said = outcome(chainline().arg("new-nf").args(args).current_dir(dir.path(".")));
        assert!(said.status.code() == Some(2) && said.stderr.contains(why), "{args:?}: {}", said.stderr);
    }
}
