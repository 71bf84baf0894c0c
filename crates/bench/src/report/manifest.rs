//! The environment manifest, flat.

use serde_json::Value;

/// Leaves of a JSON value as (path with dots, words), in its order. Lists of plain values are one leaf; objects with
/// nothing in them are none.
pub(crate) fn flat(value: &Value) -> Vec<(String, String)> {
    let mut out = Vec::new();
    walk(value, String::new(), &mut out);
    out
}

fn walk(value: &Value, path: String, out: &mut Vec<(String, String)>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(key, value)| walk(value, below(key), out));
        }
        Value::Array(items) if items.iter().any(|i| i.is_object() || i.is_array()) => {
            items.iter().enumerate().for_each(|(i, value)| walk(value, below(&i.to_string()), out));
        }
        Value::Object(_) => {}
        _ => out.push((path, words(value))),
    }
}

/// A leaf as people read it.
pub(crate) fn words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(s) => s.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join("; "),
        Value::Object(_) => String::new(),
        other => other.to_string(),
    }
}
