//! `chainline bench diff` and `chainline bench report`, as a user runs them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_bench::report::{save_json, synthetic};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("chainline-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bench(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chainline")).arg("bench").args(args).current_dir(dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn two_results_are_compared() {
    let dir = Dir::new("diff");
    save_json(&dir.0.join("a"), &synthetic::results(1, 6, 1.0)).unwrap();
    save_json(&dir.0.join("same"), &synthetic::results(2, 6, 1.0)).unwrap();
    save_json(&dir.0.join("slow"), &synthetic::results(3, 6, 0.8)).unwrap();

    let same = bench(&dir.0, &["diff", "a", "same/results.json", "--fail-on-worse"]);
    assert_eq!(same.status.code(), Some(0), "{}{}", text(&same.stdout), text(&same.stderr));
    assert!(text(&same.stdout).contains("no difference\n"), "{}", text(&same.stdout));
    assert!(
        text(&same.stderr).contains("commit: \"synthetic-1\" in A, \"synthetic-2\" in B"),
        "{}",
        text(&same.stderr)
    );

    let slow = bench(&dir.0, &["diff", "a", "slow", "--fail-on-worse", "-o", "json"]);
    assert_eq!(slow.status.code(), Some(3), "{}", text(&slow.stderr));
    let slow: Value = serde_json::from_slice(&slow.stdout).unwrap();
    let verdict = |section: &str, series: &str| -> Vec<String> {
        let points = slow["points"].as_array().unwrap().iter();
        let mine = points.filter(|p| p["section"] == section && p["series"] == series);
        mine.map(|p| p["verdict"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(verdict("chain-length", "fused"), ["worse"; 10]);
    assert_eq!(verdict("throughput-by-size", "another dataplane"), ["no_difference"; 7], "only ours got slower");
    assert!(verdict("throughput-by-size", "a paper").is_empty(), "quoted figures are not compared");
    assert!(verdict("loss-curve", "64 B").contains(&"worse".to_owned()), "from no loss to some");
    let fused = slow["points"].as_array().unwrap().iter().find(|p| p["series"] == "fused").unwrap();
    let change = &fused["change"];
    let (low, high) = (change["low"].as_f64().unwrap(), change["high"].as_f64().unwrap());
    assert!(low < 0.8 && 0.8 < high && high < 0.85, "{change}");

    // The other way round it is better, and the exit code says nothing of worse.
    let better = bench(&dir.0, &["diff", "slow", "a", "--fail-on-worse"]);
    assert_eq!(better.status.code(), Some(0), "{}", text(&better.stdout));
    assert!(text(&better.stdout).contains(" better\n"), "{}", text(&better.stdout));
    // Twice the same words.
    assert_eq!(bench(&dir.0, &["diff", "a", "slow"]).stdout, bench(&dir.0, &["diff", "a", "slow"]).stdout);
}

#[test]
fn two_series_of_one_run_are_compared() {
    let dir = Dir::new("between");
    save_json(&dir.0, &synthetic::results(1, 6, 1.0)).unwrap();
    let found = bench(&dir.0, &["diff", ".", "--between", "processes, one core", "fused", "--fail-on-worse"]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    assert!(text(&found.stdout).contains("10 better\n"), "{}", text(&found.stdout));
    let found = bench(&dir.0, &["diff", ".", "--between", "ours", "theirs"]);
    assert_eq!(found.status.code(), Some(2));
    assert!(text(&found.stderr).contains("found no series \"theirs\", expected one of [\"1 flows\""));
}

#[test]
fn what_is_no_results_is_refused() {
    let dir = Dir::new("refused");
    save_json(&dir.0, &synthetic::results(1, 3, 1.0)).unwrap();
    let whole = std::fs::read_to_string(dir.0.join("results.json")).unwrap();
    std::fs::write(dir.0.join("cut.json"), &whole[..whole.len() / 3]).unwrap();
    std::fs::write(dir.0.join("old.json"), r#"{"format": "chainline.bench/v0"}"#).unwrap();
    for (args, want) in [
        (vec!["diff", "results.json", "cut.json"], "the file ends too early"),
        (vec!["diff", "old.json", "results.json"], "found the format \"chainline.bench/v0\""),
        (vec!["diff", "results.json", "nowhere"], "cannot read nowhere"),
        (vec!["diff", "results.json"], "required"),
        (vec!["diff", ".", ".", "--margin", "-1"], "expected"),
        (vec!["diff", ".", ".", "--confidence", "nan"], "expected a number from 50 to 99.9"),
        (vec!["report", "cut.json"], "the file ends too early"),
    ] {
        let found = bench(&dir.0, &args);
        assert_eq!(found.status.code(), Some(2), "{args:?}: {}", text(&found.stderr));
        assert!(text(&found.stderr).contains(want), "{args:?}: {}", text(&found.stderr));
        assert!(found.stdout.is_empty(), "{args:?}");
    }
    // Three rounds of one point can tell; two cannot, and that is said.
    save_json(&dir.0.join("two"), &synthetic::results(1, 2, 1.0)).unwrap();
    let found = bench(&dir.0, &["diff", "two", "two"]);
    assert_eq!(found.status.code(), Some(0));
    assert!(text(&found.stdout).contains("cannot compare: 2 and 2 rounds cannot tell"), "{}", text(&found.stdout));
}

#[test]
fn a_report_is_made_again() {
    let dir = Dir::new("report");
    save_json(&dir.0, &synthetic::results(1, 3, 1.0)).unwrap();
    let found = bench(&dir.0, &["report", "results.json", "-o", "page.html"]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    let page = std::fs::read_to_string(dir.0.join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.len() < 2_000_000, "{}", page.len());
    assert_eq!(bench(&dir.0, &["report", ".", "-o", "-"]).stdout, page.as_bytes());
    assert_eq!(bench(&dir.0, &["report", "results.json"]).status.code(), Some(0));
    for file in ["report.html", "trials.csv", "figures.csv"] {
        assert!(dir.0.join(file).exists(), "{file}");
    }
}
