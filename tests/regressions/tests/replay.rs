//! Replays what fuzzing starts from and what it ever found.
#![allow(clippy::unwrap_used)]

use chainline_regressions::TARGETS;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = dir.read_dir().into_iter().flatten().map(|e| e.unwrap().path()).collect();
    found.sort();
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn seeds_and_regressions_keep_every_promise() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for (target, run) in TARGETS {
        let seeds = entries(&fuzz.join("seeds").join(target));
        assert!(!seeds.is_empty(), "{target} has no seeds");
        for file in seeds.iter().chain(&entries(&fuzz.join("regressions").join(target))) {
            // Shown when the run breaks.
            println!("{target}: {}", name(file));
            run(&std::fs::read(file).unwrap());
        }
    }
}

/// A target that nobody fuzzes, or a folder that nobody replays, would look like coverage and be none.
#[test]
fn every_target_is_fuzzed_and_every_folder_replayed() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let known: BTreeSet<String> = TARGETS.iter().map(|(target, _)| (*target).to_owned()).collect();
    let fuzzed: BTreeSet<String> =
        entries(&fuzz.join("fuzz_targets")).iter().map(|f| name(&f.with_extension(""))).collect();
    assert_eq!(fuzzed, known);
    for folder in ["seeds", "regressions"] {
        let strangers: Vec<_> =
            entries(&fuzz.join(folder)).iter().map(|d| name(d)).filter(|d| !known.contains(d)).collect();
        assert!(strangers.is_empty(), "fuzz/{folder}: {strangers:?} belong to no target");
    }
}
