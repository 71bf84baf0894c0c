//! Replays what fuzzing starts from and what it ever found.
#![allow(clippy::unwrap_used)]

use chainline_regressions::{TARGETS, answer, setup};
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

/// Setups of another version are all refused at the first look: fuzzing would begin with nothing, and regressions replay
/// nothing.
#[test]
fn setups_are_of_this_version() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let folders = [("seeds/setup", setup::seeds::all()), ("regressions/setup", setup::seeds::regressions())];
    for (folder, made) in folders {
        let dir = fuzz.join(folder);
        for seed in &made {
            let path = dir.join(seed.name);
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&path, &seed.bytes).unwrap();
            }
            let committed = std::fs::read(&path).unwrap_or_default();
            let name = seed.name;
            assert!(committed == seed.bytes, "{name} is out of date: UPDATE=1 cargo test -p chainline-regressions");
            assert_eq!(setup::play(&seed.bytes), seed.received, "packets that the NFs of {name} were handed");
        }
        let known: BTreeSet<String> = made.iter().map(|s| s.name.to_owned()).collect();
        let strangers: Vec<_> = entries(&dir).iter().map(|f| name(f)).filter(|n| !known.contains(n)).collect();
        assert!(folder.starts_with("regressions") || strangers.is_empty(), "{folder}: {strangers:?} are of no version");
    }
}

/// The same for what instances answer: all seeds but those that are wrong on purpose.
#[test]
fn seeds_of_answers_are_understood() {
    const WRONG: [&str; 2] = ["garbage", "many-descriptors"];
    for file in entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/answer")) {
        let understood = answer::play(&std::fs::read(&file).unwrap());
        let wrong = WRONG.contains(&name(&file).as_str());
        assert_eq!(understood.is_none(), wrong, "{}: {understood:?}", name(&file));
    }
}
