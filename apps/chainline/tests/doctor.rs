//! `chainline doctor`, run as a user runs it.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::process::{Command, Output};

fn doctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chainline")).arg("doctor").args(args).output().unwrap()
}

#[test]
fn the_exit_code_says_whether_a_check_fails() {
    let output = doctor(&["--sample-ms", "0", "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.iter().all(|c| c["name"].is_string() && c["finding"].is_string()), "{report}");
    let fails = checks.iter().any(|c| c["status"] == "fail");
    assert_eq!(output.status.code(), Some(i32::from(fails)), "{report}");
}

#[test]
fn the_table_ends_with_the_sums() {
    let output = doctor(&["--sample-ms", "0"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.trim_end().ends_with(" fail") && text.contains("  dpdk  "), "{text}");
}

#[test]
fn a_sample_of_hours_is_refused() {
    assert_eq!(doctor(&["--sample-ms", "3600000"]).status.code(), Some(2));
}
