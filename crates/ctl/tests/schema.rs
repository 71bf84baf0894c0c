//! The protocol's schema is the committed one, and knows what the parser takes.
//! `UPDATE=1 cargo test -p chainline-ctl` rewrites it.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::path::Path;

#[test]
fn the_protocols_schema_is_the_committed_one() {
    let found = serde_json::to_string_pretty(&chainline_ctl::schema()).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/control-protocol.schema.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == found, "{} is out of date: UPDATE=1 cargo test -p chainline-ctl", path.display());
}

/// Every example of the documentation that stands in a JSON block is a request or a reply.
#[test]
fn the_examples_of_the_documentation_fit_the_schema() {
    let doc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/control-protocol.md");
    let text = std::fs::read_to_string(doc).unwrap();
    let mut schema = chainline_ctl::schema();
    let of = |schema: &mut Value, name: &str| {
        schema["anyOf"] = json!([{"$ref": format!("#/$defs/{name}")}]);
        jsonschema::draft202012::new(schema).unwrap()
    };
    let (request, reply) = (of(&mut schema, "Request"), of(&mut schema, "Reply"));
    let (mut requests, mut replies) = (Vec::new(), 0);
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```json";
        } else if inside {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            if value.get("method").is_some() {
                assert!(request.is_valid(&value), "{line}");
                requests.push(value["method"].as_str().unwrap().to_owned());
                chainline_ctl::parse(line.as_bytes()).unwrap();
            } else {
                assert!(reply.is_valid(&value), "{line}");
                replies += 1;
            }
        }
    }
    for method in chainline_ctl::METHODS {
        assert!(requests.iter().any(|m| m == method), "no example of {method}");
    }
    assert!(replies > 2, "{replies}");
}
