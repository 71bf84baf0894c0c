//! What a packet costs, from a file.

use super::MEASURED;
use crate::exit::WrongInput;
use serde_json::{Map, Value};
use std::path::Path;

/// The numbers of a kind; `None` where there is no file or nothing about the kind in it. A file that was named must be
/// there.
pub fn of(kind: &str, file: Option<&Path>) -> anyhow::Result<Option<Map<String, Value>>> {
    let path = file.unwrap_or(Path::new(MEASURED));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if file.is_none() && e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(WrongInput(format!("{}: {e}", path.display())).into()),
    };
    let value = serde_json::from_str(&text).map_err(|e| WrongInput(format!("{}: {e}", path.display())))?;
    Ok(find(kind, &value))
}

fn find(kind: &str, value: &Value) -> Option<Map<String, Value>> {
    let root = value.as_object()?;
    let kinds = root.get("nfs").and_then(Value::as_object).unwrap_or(root);
    let numbers = |found: &Map<String, Value>| -> Map<String, Value> {
        found.iter().filter(|(_, v)| v.is_number()).map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    // An object of numbers for the kind, or for each number an object of kinds.
    let found = match kinds.get(kind).and_then(Value::as_object) {
        Some(found) => numbers(found),
        None => root.iter().filter_map(|(name, all)| Some((name.clone(), all.get(kind)?.clone()))).collect(),
    };
    let found = numbers(&found);
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::find;
    use serde_json::json;

    #[test]
    fn both_forms_are_read() {
        let first = json!({"nfs": {"lb": {"ns_per_packet": 20.5, "note": "x"}}});
        assert_eq!(find("lb", &first).map(Into::into), Some(json!({"ns_per_packet": 20.5})));
        assert_eq!(find("lb", &first["nfs"]).map(Into::into), Some(json!({"ns_per_packet": 20.5})));
        let second = json!({"counted_with": "rustc", "instructions_per_packet": {"lb": 530.6}});
        assert_eq!(find("lb", &second).map(Into::into), Some(json!({"instructions_per_packet": 530.6})));
        assert_eq!(find("nat", &first).or(find("nat", &second)), None);
    }
}
