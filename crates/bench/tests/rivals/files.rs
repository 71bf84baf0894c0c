//! Adapter files that are wrong.

use chainline_bench::rivals::words::PLACEHOLDERS;
use chainline_bench::rivals::{builtin, load, schema};
use std::path::Path;

fn said(spec: &str) -> String {
    let text = format!("apiVersion: chainline/v1alpha1\nkind: Dataplane\nmetadata: {{name: x}}\nspec:\n{spec}");
    load(text.as_bytes(), "x.yaml".as_ref()).map_or_else(|e| e.to_string(), |_| "read".into())
}

#[test]
fn everything_wrong_is_said_at_its_place() {
    let spec = "  title: {inn}
  ports: [vet, veth, veth]
  wrker: kernel
  needs: {debian: [-oDir=/x]}
  start:
    - {say: hello}
    - {run: []}
    - {run: [true], serve: [x]}
    - {serve: ['{dirr}'], until: '(', within_ms: 0}
  counters: {run: [a], say: b, received: '[0-9]+', transmitted: '([0-9]+)'}
  stop: [{serve: [x]}]
  files: {../x: y}
";
    let expected = include_str!("wrong.expected");
    let said = said(spec);
    if said != expected.trim_end() {
        println!("{said}");
    }
    assert_eq!(said, expected.trim_end());
}

#[test]
fn hostile_files_are_refused_and_harm_nobody() {
    for spec in [
        "",
        "  []",
        "  title: t\n  ports: []\n  start: []",
        "  {title: t, ports: veth, start: [{run: [\"a\\0\"]}]}",
        "  {title: t, ports: memif, worker: kernel, start: [{run: [a]}]}",
        "  {title: t, ports: veth, start: [{run: [a]}], counters: {say: x, received: (a), transmitted: (b)}}",
        "  {title: t, ports: veth, start: [{wait_for: x, until: y}]}",
        "  {title: t, ports: veth, start: [{serve: [x], until: '(a{1000}){1000}'}]}",
    ] {
        assert_ne!(said(spec), "read", "{spec}");
    }
    assert_eq!(said("  {title: t, ports: veth, start: [{run: [a, 1, '{core}']}]}"), "read");
}

#[test]
fn the_schema_takes_the_built_in_files_and_refuses_others() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (name, text) in builtin::FILES {
        let file: serde_json::Value = chainline_bench::rivals::json(text.as_bytes(), name.as_ref()).unwrap();
        let errors: Vec<_> = validator.iter_errors(&file).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        for broken in ["ports", "start", "title"] {
            let mut file = file.clone();
            file["spec"].as_object_mut().unwrap().remove(broken);
            assert!(!validator.is_valid(&file), "{name} without {broken}");
        }
        let mut file = file.clone();
        file["spec"]["start"][0]["rum"] = 1.into();
        assert!(!validator.is_valid(&file), "{name} with an unknown field");
    }
}

/// `UPDATE=1 cargo test -p chainline-bench --test rivals` rewrites it.
#[test]
fn the_schema_is_the_committed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/dataplane-file.schema.json");
    let found = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == found, "{} is out of date: UPDATE=1 cargo test -p chainline-bench", path.display());
}

/// Nobody ran them here; at least they read.
#[test]
fn the_examples_read() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/dataplanes");
    let mut files = 0;
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        if entry.path().extension().is_some_and(|e| e == "yaml") {
            let text = std::fs::read(entry.path()).unwrap();
            let read = load(&text, &entry.path()).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(entry.path().file_stem().unwrap().to_str(), Some(read.name.as_str()));
            files += 1;
        }
    }
    assert!(files >= 3);
}

/// Every placeholder, field and step that there is stands in the manual.
#[test]
fn the_manual_names_everything() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/dataplane-file.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    for (name, _) in PLACEHOLDERS {
        assert!(manual.contains(&format!("`{{{name}}}`")), "{{{name}}}");
    }
    for field in schema()["$defs"]["Spec"]["properties"].as_object().unwrap().keys() {
        assert!(manual.contains(&format!("`{field}`")), "{field}");
    }
    for (name, _) in builtin::FILES {
        assert!(manual.contains(&format!("`{name}`")), "{name}");
    }
}
