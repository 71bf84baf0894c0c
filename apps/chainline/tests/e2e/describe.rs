//! `chainline describe nf`, against the committed reference. `UPDATE=1 cargo test -p chainline --test e2e describe` rewrites
//! that.

use crate::command::{Dir, chainline, outcome, repository};
use serde_json::Value;
use std::process::Command;

/// What the command prints, in an empty directory: nothing is measured there.
fn describe(dir: &Dir, args: &[&str]) -> String {
    let said = outcome(chainline().args(["describe", "nf"]).args(args).current_dir(dir.path(".")));
    assert_eq!(said.status.code(), Some(0), "{args:?}: {}", said.stderr);
    said.stdout
}

fn kinds(dir: &Dir) -> Vec<String> {
    let list: Value = serde_json::from_str(&describe(dir, &["-o", "json"])).unwrap();
    list.as_array().unwrap().iter().map(|k| k["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_reference_of_kinds_is_the_committed_one() {
    let (dir, path) = (Dir::new(), repository().join("docs/reference/nfs.md"));
    let mut text = "# Kinds of NF\n\nWhat `chainline describe nf KIND` prints. Generated: `UPDATE=1 cargo test -p chainline --test e2e describe`.\n".to_owned();
    for kind in kinds(&dir) {
        text += &format!("\n## {kind}\n\n```text\n{}```\n", describe(&dir, &[&kind]));
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "{} is out of date: UPDATE=1 cargo test -p chainline --test e2e describe",
        path.display()
    );
}

#[test]
fn each_built_in_kind_says_what_it_does() {
    let dir = Dir::new();
    for kind in kinds(&dir) {
        let d: Value = serde_json::from_str(&describe(&dir, &[&kind, "-o", "json"])).unwrap();
        assert_eq!(d["kind"], *kind);
        for key in ["about", "footprint", "arguments", "declared"] {
            assert!(!d[key].is_null(), "{kind} has no {key}: Nf::FOOTPRINT and Nf::SAMPLE are its");
        }
        assert!(d["measured"].is_null());
        // No word of an argument goes without an explanation.
        for argument in d["arguments"].as_array().unwrap() {
            assert!(!argument["about"].as_str().unwrap().is_empty(), "{kind}: {argument}");
        }
        for state in d["footprint"]["state"].as_array().unwrap() {
            assert!(state["scope"].is_string() && state["entry_bytes"].is_number(), "{kind}: {state}");
        }
    }
}

#[test]
fn costs_come_from_a_file() {
    let dir = Dir::new();
    dir.write("costs.json", br#"{"nfs": {"lb": {"ns_per_packet": 21.5}}}"#);
    let told = describe(&dir, &["lb", "--measured", "costs.json"]);
    assert!(told.ends_with("MEASURED COST\n  21.5 ns per packet\n"), "{told}");
    assert!(describe(&dir, &["nat", "--measured", "costs.json"]).contains("  not measured here"));
    // Where it is looked for.
    std::fs::create_dir_all(dir.path("target/bench")).unwrap();
    std::fs::rename(dir.path("costs.json"), dir.path("target/bench/nfs.json")).unwrap();
    assert!(describe(&dir, &["lb"]).contains("  21.5 ns per packet\n"));
    let counted = repository().join("docs/reference/instructions.json");
    let told = describe(&dir, &["firewall", "--measured", counted.to_str().unwrap()]);
    assert!(told.contains(" instructions per packet\n"), "{told}");
    for (file, why) in [("nothing.json", "No such file"), (".", "Is a directory")] {
        let said = outcome(chainline().args(["describe", "nf", "lb", "--measured", file]).current_dir(dir.path(".")));
        assert!(said.status.code() == Some(2) && said.stderr.contains(why), "{}", said.stderr);
    }
}

#[test]
fn a_kind_that_is_not_there_is_told() {
    let said = outcome(chainline().args(["describe", "nf", "fire"]));
    assert_eq!(said.status.code(), Some(2));
    assert!(said.stderr.contains("no kind \"fire\"; expected one of firewall, forward"), "{}", said.stderr);
}

#[test]
fn a_shared_object_in_c_is_unknown_in_part() {
    let dir = Dir::new();
    let text = std::fs::read_to_string(repository().join("examples/c-nf/reflect.c")).unwrap();
    let include = repository().join("crates/nf-abi/include");
    let describe = |name: &str, text: &str| {
        let source = dir.write(&format!("{name}.c"), text);
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-fPIC", "-shared", "-I"]).arg(&include).arg("-o").arg(dir.path(name)).arg(source);
        cc.status().is_ok_and(|s| s.success()).then(|| describe(&dir, &[&format!("./{name}")]))
    };
    let Some(told) = describe("libreflect.so", &text) else {
        return println!("skipped: a_shared_object_in_c_is_unknown_in_part: no C compiler");
    };
    for part in [
        "reflect: sends every frame back\n",
        "  min_len  integer  optional",
        "READS\n  ethernet source, ethernet destination, frame length\n",
        "WRITES\n  ethernet source, ethernet destination\n",
        "STATE\n  none\n",
        "COUNTERS, DROP REASONS\n  known once it is built with arguments\n",
    ] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    // One that does not say, and one with state.
    let silent = describe("libsilent.so", &text.replace("&footprint}", "NULL}")).unwrap();
    assert!(silent.contains("READS, WRITES, STATE\n  unknown: the kind does not say\n"), "{silent}");
    let states = "static const struct chainline_state states[] = {{\"hosts\", NULL, CHAINLINE_SCOPE_SOURCE_HOST, 88},\
        {\"shares\", \"min_len\", CHAINLINE_SCOPE_INSTANCE, 0}};\n";
    let with_state = text
        .replace("struct reflect {", &format!("{states}struct reflect {{"))
        .replace("FOOTPRINT_STATELESS", "FOOTPRINT_HEAD(states)")
        .replace("DESTINATION, NULL}", "DESTINATION, states}");
    let told = describe("libstates.so", &with_state).unwrap();
    for part in ["  hosts   by source host  88 bytes\n", "  shares  by instance               with `min_len`\n"] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
}
