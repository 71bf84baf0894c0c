//! Chain files and what is expected of each: `bad/*.yaml` with its messages, `good/*.yaml` with its plan.
//!
//! `UPDATE=1 cargo test -p chainline-chain` rewrites what is expected.

#![allow(clippy::unwrap_used)]

use chainline_chain::plan::Plan;
use chainline_chain::{Host, Source, dot, load_bytes, load_for, mermaid, schema, table};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const CORES: &[usize] = &[0, 1, 2, 3];
const HOST: Host<'static> =
    Host { cores: Some(CORES), kinds: Some(&["firewall", "forward", "l3fwd", "monitor", "synthetic"]) };

fn files(dir: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(dir);
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Compares with the file `path`, or rewrites it. True when it was the same.
fn same(path: &Path, found: &str) -> bool {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, found).unwrap();
        return true;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    if expected != found {
        eprintln!("--- {} should be\n{expected}\n--- and is\n{found}", path.display());
    }
    expected == found
}

#[test]
fn bad_files_are_refused_with_every_message() {
    let mut wrong = Vec::new();
    for file in files("bad") {
        let name = file.file_name().unwrap();
        let bytes = fs::read(&file).unwrap();
        let refused = load_bytes(&bytes, Path::new(name), &HOST).expect_err(&file.display().to_string());
        for d in refused.items() {
            assert!(refused.text().get(d.span.range()).is_some(), "{d:?} is no place in the text");
            assert!(d.span.line >= 1 && d.span.column >= 1, "{d:?}");
        }
        if !same(&file.with_extension("expected"), &format!("{refused}\n")) {
            wrong.push(file);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn good_files_have_their_plan() {
    let mut wrong = Vec::new();
    for file in files("good") {
        let text = fs::read_to_string(&file).unwrap();
        let loaded = load_for(&text, Path::new(file.file_name().unwrap()), &HOST).unwrap();
        let plan = Plan::build(&loaded, CORES).unwrap();
        let mut shown: String = loaded.warnings.iter().map(|w| format!("{}: {}\n", w.span.line, w.message)).collect();
        shown += &format!("{}\n{}\n{}", table(&plan), mermaid(&plan), dot(&plan));
        if !same(&file.with_extension("plan"), &shown) {
            wrong.push(file);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_loaded_file_written_as_json_loads_as_the_same() {
    for file in files("good") {
        let first = load_for(&fs::read_to_string(&file).unwrap(), &file, &HOST).unwrap();
        let json = serde_json::to_string(&first).unwrap();
        let mut second = load_for(&json, &file, &HOST).unwrap();
        // The text differs, so do the places.
        second.source = Source::default();
        second.warnings.clear();
        let first = chainline_chain::model::File { source: Source::default(), warnings: Vec::new(), ..first };
        assert_eq!(first, second, "{}", file.display());
    }
}

#[test]
fn the_committed_schema_is_the_current_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/chain-file.schema.json");
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    assert!(same(&path, &text), "UPDATE=1 cargo test -p chainline-chain");
}

/// YAML as JSON, by the library rather than by the code under test.
fn as_json(file: &Path) -> Option<Value> {
    serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).map_err(|e| eprintln!("{e}")).ok()
}

#[test]
fn the_schema_takes_the_good_files() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    for file in files("good") {
        let errors: Vec<_> =
            validator.iter_errors(&as_json(&file).unwrap()).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", file.display());
    }
}

#[test]
fn the_schema_refuses_what_one_value_makes_bad() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    for name in ["frame", "kinds", "not-a-map", "replicas-values", "sched", "sizes", "types"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad").join(name).with_extension("yaml");
        assert!(!validator.is_valid(&as_json(&file).unwrap()), "{name}");
    }
}

/// Names of all properties in a schema.
fn properties(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                names.extend(properties.keys().cloned());
            }
            map.values().for_each(|v| properties(v, names));
        }
        Value::Array(items) => items.iter().for_each(|v| properties(v, names)),
        _ => {}
    }
}

/// Copies of `value` that each have one more key, in another of its maps.
fn with_key_everywhere(value: &Value, key: &str) -> Vec<Value> {
    let mut copies = Vec::new();
    match value {
        Value::Object(map) => {
            let mut copy = map.clone();
            copy.insert(key.into(), Value::Null);
            copies.push(Value::Object(copy));
            for (name, inner) in map.iter().filter(|(name, _)| *name != "args" && !name.starts_with("x-")) {
                for changed in with_key_everywhere(inner, key) {
                    let mut copy = map.clone();
                    copy.insert(name.clone(), changed);
                    copies.push(Value::Object(copy));
                }
            }
        }
        Value::Array(items) => {
            for (i, inner) in items.iter().enumerate() {
                for changed in with_key_everywhere(inner, key) {
                    let mut copy = items.clone();
                    copy[i] = changed;
                    copies.push(Value::Array(copy));
                }
            }
        }
        _ => {}
    }
    copies
}

/// The model's types make the schema and hand-written code reads the fields: both must know the same ones.
#[test]
fn schema_and_reader_know_the_same_fields() {
    let mut in_schema = BTreeSet::new();
    properties(&schema(), &mut in_schema);
    let mut read = BTreeSet::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good/every-field.yaml");
    for copy in with_key_everywhere(&as_json(&file).unwrap(), "zzzzzzzzzzzz") {
        let Err(refused) = load_for(&copy.to_string(), &file, &HOST) else {
            panic!("an unknown field was taken: {copy}");
        };
        for d in refused.items().iter().filter(|d| d.message.contains("unknown")) {
            let (_, expected) = d.message.split_once("expected").unwrap();
            read.extend(expected.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    assert_eq!(in_schema, read);
}

#[test]
fn user_fields_are_taken_everywhere() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good/every-field.yaml");
    for copy in with_key_everywhere(&as_json(&file).unwrap(), "x-mine") {
        // In a map from names to things it would be a thing of that name.
        let named = ["ports", "nfs"].iter().any(|map| copy["spec"][map].get("x-mine").is_some());
        assert_eq!(load_for(&copy.to_string(), &file, &HOST).is_err(), named, "{copy}");
    }
}

#[test]
fn bytes_that_are_not_text_have_a_place() {
    let refused = load_bytes(b"a: 1\nb: \xc3\xa9\xff", Path::new("x.yaml"), &HOST).unwrap_err();
    assert_eq!(refused.to_string(), "x.yaml:2:5: error: found the byte 0xff, expected UTF-8 text");
}

#[test]
fn errors_of_arguments_can_be_placed_by_others() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good/edge.yaml");
    let loaded = load_for(&fs::read_to_string(&file).unwrap(), Path::new("edge.yaml"), &HOST).unwrap();
    let error = loaded.source.error("spec.nfs.fw.args.rules", "no such file");
    assert_eq!(error.to_string(), "edge.yaml:10:91: error: no such file");
    let error = loaded.source.error("spec.nfs.fw.args.depth.of.nothing", "missing");
    assert_eq!(error.to_string(), "edge.yaml:10:83: error: missing");
}
