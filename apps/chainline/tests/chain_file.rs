//! The commands that read a chain file, run as a user runs them.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn chainline(args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_chainline"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads no input may have closed it.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

const GOOD: &str = "\
apiVersion: chainline/v1alpha1
kind: ServiceChain
metadata: {name: quick}
spec:
  ports: {in: {generator: {}}, out: {sink: {}}}
  nfs:
    fwd: {kind: forward}
  chains:
    - {name: all, path: [in, fwd, out]}
";

#[test]
fn a_good_file_is_valid_and_says_so_in_words() {
    let output = chainline(&["validate", "-"], GOOD);
    assert_eq!((output.status.code(), out(&output)), (Some(0), ""));
    assert_eq!(err(&output), "-: valid: 1 chain, 1 NF, 2 ports\n");
}

#[test]
fn every_error_of_a_bad_file_is_shown_with_its_line() {
    let bad = GOOD.replace("kind: forward", "kind: forwrad").replace("fwd, out", "fwd, outt");
    let output = chainline(&["validate", "-"], &bad);
    assert_eq!((output.status.code(), out(&output)), (Some(2), ""));
    let expected = "\
error: found the kind `forwrad`, expected a built-in one or a path such as ./libmine.so
 --> -:7:17
  |
7 |     fwd: {kind: forwrad}
  |                 ^^^^^^^
  |
  = help: did you mean `forward`?

error: found `outt` as egress port, expected the name of a port
 --> -:9:35
  |
9 |     - {name: all, path: [in, fwd, outt]}
  |                                   ^^^^
  |
  = help: did you mean `out`?

error: - has 2 errors
";
    assert_eq!(err(&output), expected);
}

#[test]
fn arguments_are_checked_against_the_schema_of_their_kind() {
    let bad = GOOD.replace("kind: forward", "kind: firewall, args: {ruels: x}");
    let output = chainline(&["validate", "-o", "json", "-"], &bad);
    assert_eq!(output.status.code(), Some(2));
    let found: Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!(found[0]["valid"], false);
    let diagnostic = &found[0]["diagnostics"][0];
    assert!(diagnostic["message"].as_str().unwrap().contains("ruels"), "{diagnostic}");
    assert_eq!(diagnostic["span"]["line"], 7);
}

#[test]
fn cores_can_be_those_of_another_host() {
    let pinned = GOOD.replace("kind: forward", "kind: forward, cores: [60, 61]");
    assert_eq!(chainline(&["validate", "--cores", "0-63", "-"], &pinned).status.code(), Some(0));
    let output = chainline(&["validate", "--cores", "0-60", "-"], &pinned);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("found core 61, expected one that this host has: 0-60"), "{}", err(&output));
}

#[test]
fn the_plan_is_a_table_json_or_yaml() {
    let table = chainline(&["plan", "--cores", "0-1", "-"], GOOD);
    assert!(out(&table).starts_with("quick: manager on core 0"), "{}", out(&table));
    let json: Value =
        serde_json::from_str(out(&chainline(&["plan", "--cores", "0-1", "-o", "json", "-"], GOOD))).unwrap();
    let yaml = chainline(&["plan", "--cores", "0-1", "-o", "yaml", "-"], GOOD);
    assert_eq!(json, serde_saphyr::from_str::<Value>(out(&yaml)).unwrap());
    assert_eq!(json["instances"][0]["cores"], serde_json::json!([1]));
}

#[test]
fn the_graph_is_mermaid_or_dot() {
    assert!(out(&chainline(&["graph", "-"], GOOD)).starts_with("flowchart LR\n"));
    assert!(out(&chainline(&["graph", "-o", "dot", "-"], GOOD)).starts_with("digraph \"quick\" {\n"));
}

#[test]
fn the_schema_is_the_committed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/chain-file.schema.json");
    assert_eq!(out(&chainline(&["schema"], "")), std::fs::read_to_string(path).unwrap());
}

#[test]
fn every_kind_has_a_schema() {
    let output = chainline(&["schema", "nothing"], "");
    assert_eq!(output.status.code(), Some(2));
    let (_, kinds) = err(&output).trim().split_once("expected one of ").unwrap();
    for kind in kinds.split(", ") {
        let schema: Value = serde_json::from_str(out(&chainline(&["schema", kind], ""))).unwrap();
        assert_eq!(schema["type"], "object", "{kind}");
    }
}

#[test]
fn wrong_usage_and_missing_files_end_with_2() {
    for args in [&["validat"][..], &["plan"], &["plan", "/nowhere/x.yaml"], &["plan", "--cores", "3-1", "-"]] {
        let output = chainline(args, "");
        assert_eq!((output.status.code(), out(&output)), (Some(2), ""), "{args:?}");
        assert!(!err(&output).is_empty());
    }
}

#[test]
fn completions_and_manual_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(out(&chainline(&["generate", "completions", shell], "")).contains("validate"), "{shell}");
    }
    let dir = std::env::temp_dir().join(format!("chainline-man-{}", std::process::id()));
    let output = chainline(&["generate", "man", dir.to_str().unwrap()], "");
    let page = std::fs::read_to_string(dir.join("chainline-plan.1"));
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(page.unwrap().contains("chainline"));
}
