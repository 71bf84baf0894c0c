//! Rules about files.
#![allow(clippy::unwrap_used)]

use chainline_style::{Crate, crates, files, root, rust_files, shown, unsafe_lines};
use std::path::{Path, PathBuf};

/// The only crates whose sources may have unsafe code.
const UNSAFE: &[&str] = &["chainline-dpdk", "chainline-nf-c", "chainline-shm", "chainline-storage"];
/// Unsafe too, but all of it is made by bindgen, which documents nothing: its own sources have none.
const GENERATED: &str = "chainline-dpdk-sys";
/// A file longer than the first is listed, one longer than the second is refused: it has two reasons to change.
const LONG: usize = 500;
const TOO_LONG: usize = 700;

fn fail_on(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", shown(path)))
}

#[test]
fn unsafe_code_has_few_homes() {
    let mut wrong = Vec::new();
    for c in crates().unwrap().iter().filter(|c| !UNSAFE.contains(&c.name.as_str())) {
        for file in rust_files(&c.dir) {
            match unsafe_lines(&read(&file)) {
                Ok(lines) => wrong.extend(lines.iter().map(|line| format!("{}:{line}: unsafe", shown(&file)))),
                Err(e) => wrong.push(format!("{}: not Rust: {e}", shown(&file))),
            }
        }
    }
    fail_on(&wrong);
}

/// Crates with unsafe code cannot inherit the workspace's lints whole, since those deny it; they must still document
/// each use.
#[test]
fn every_crate_takes_the_workspace_s_lints() {
    let manifest = |dir: &Path| read(&dir.join("Cargo.toml")).parse::<toml::Table>().unwrap();
    let takes = |c: &Crate| {
        let Some(lints) = manifest(&c.dir).remove("lints") else { return false };
        let inherits = lints.get("workspace").and_then(toml::Value::as_bool) == Some(true);
        let documents = lints.get("clippy").and_then(|l| l.get("undocumented_unsafe_blocks")?.as_str()) == Some("deny");
        inherits || (UNSAFE.contains(&c.name.as_str()) && documents)
    };
    let crates = crates().unwrap();
    let without = crates.iter().filter(|c| c.name != GENERATED && !takes(c));
    fail_on(&without.map(|c| format!("{}: no [lints] workspace = true", c.name)).collect::<Vec<_>>());

    let workspace = manifest(&root());
    let lints = &workspace["workspace"]["lints"];
    assert_eq!(lints["rust"]["unsafe_code"].as_str(), Some("deny"));
    assert_eq!(lints["clippy"]["undocumented_unsafe_blocks"].as_str(), Some("deny"));
}

#[test]
fn every_crate_says_what_it_is_for() {
    let mut wrong = Vec::new();
    for c in crates().unwrap() {
        for file in ["src/lib.rs", "src/main.rs"].map(|f| c.dir.join(f)).into_iter().filter(|f| f.exists()) {
            if !read(&file).starts_with("//! ") {
                wrong.push(format!("{}: expected a line `//! …` first", shown(&file)));
            }
        }
    }
    fail_on(&wrong);
}

#[test]
fn files_are_short() {
    let mut wrong = Vec::new();
    for file in rust_files(&root()) {
        let lines = read(&file).lines().count();
        if lines > TOO_LONG {
            wrong.push(format!("{}: {lines} lines, expected at most {TOO_LONG}", shown(&file)));
        } else if lines > LONG {
            println!("long: {} has {lines} lines", shown(&file));
        }
    }
    fail_on(&wrong);
}

#[test]
fn every_nf_is_complete() {
    let mut wrong = Vec::new();
    for c in crates().unwrap().iter().filter(|c| c.is_in("nfs")) {
        let some_in = |dir: &str| c.dir.join(dir).read_dir().is_ok_and(|mut d| d.next().is_some());
        let lacks = [
            (c.dir.join("README.md").exists(), "README.md"),
            (some_in("tests/golden"), "tests/golden/"),
            (some_in("benches"), "benches/"),
        ];
        wrong.extend(lacks.iter().filter(|(there, _)| !there).map(|(_, what)| format!("{}: no {what}", shown(&c.dir))));
    }
    fail_on(&wrong);
}

/// Text files as (path, text); captures and other bytes are left out.
fn texts() -> Vec<(PathBuf, String)> {
    files().into_iter().filter_map(|f| Some((f.clone(), String::from_utf8(std::fs::read(f).ok()?).ok()?))).collect()
}

/// A path into somebody's home or checkout works on that machine alone.
#[test]
fn no_file_names_a_place_on_somebody_s_machine() {
    let mut places: Vec<String> =
        ["home", "root", "Users", "work", "workspace", "builds"].map(|dir| format!("/{dir}/")).to_vec();
    places.push(root().display().to_string());
    let begins_a_path = |before: Option<char>| !before.is_some_and(|c| c.is_alphanumeric() || "._-/}*".contains(c));
    let mut wrong = Vec::new();
    for (file, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            for place in &places {
                if line.match_indices(place).any(|(at, _)| begins_a_path(line[..at].chars().next_back())) {
                    wrong.push(format!("{}:{}: {place}", shown(&file), number + 1));
                }
            }
        }
    }
    fail_on(&wrong);
}

#[test]
fn nothing_is_left_for_later() {
    let marks = ["TO", "FIX", "XX"].map(|m| {
        format!(
            "{m}{}",
            if m == "TO" {
                "DO"
            } else if m == "FIX" {
                "ME"
            } else {
                "X"
            }
        )
    });
    let mut wrong = Vec::new();
    for (file, text) in
        texts().iter().filter(|(f, _)| f.extension().is_some_and(|e| e == "rs" || e == "c" || e == "h" || e == "sh"))
    {
        for (number, line) in text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphanumeric());
            wrong.extend(
                words.filter(|w| marks.iter().any(|m| m == w)).map(|w| format!("{}:{}: {w}", shown(file), number + 1)),
            );
        }
    }
    fail_on(&wrong);
}
