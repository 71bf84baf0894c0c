//! The protocol's schema is the committed one. `UPDATE=1 cargo test -p chainline-trial` rewrites that.
#![allow(clippy::unwrap_used)]

use chainline_trial::{Order, Reply};
use serde_json::json;
use std::path::Path;

#[test]
fn the_protocols_schema_is_the_committed_one() {
    let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    let (order, reply) = (generator.subschema_for::<Order>(), generator.subschema_for::<Reply>());
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "chainline run --steer",
        "description": "A line of standard input is an Order, a line of standard output is a Reply.",
        "anyOf": [order, reply],
        "$defs": generator.take_definitions(true),
    });
    let found = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/steer-protocol.schema.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == found, "{} is out of date: UPDATE=1 cargo test -p chainline-trial", path.display());
}
