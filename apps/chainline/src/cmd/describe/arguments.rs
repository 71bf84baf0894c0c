//! Arguments from a JSON Schema, as a list.

use serde_json::{Map, Value};

/// An argument; those within an object have its name before theirs: `timeouts.udp_s`.
#[derive(Debug, serde::Serialize)]
pub struct Argument {
    pub name: String,
    pub form: String,
    pub required: bool,
    pub default: Option<Value>,
    pub about: String,
}

/// How deep objects are looked into: further down is `chainline schema`'s.
const DEPTH: usize = 2;

/// The arguments that a schema allows, in its order.
pub fn of(schema: &Value) -> Vec<Argument> {
    let mut all = Vec::new();
    walk(schema, schema, "", DEPTH, &mut all);
    all
}

fn walk(root: &Value, object: &Value, before: &str, depth: usize, all: &mut Vec<Argument>) {
    let Some(properties) = object["properties"].as_object() else { return };
    let required = |name: &str| object["required"].as_array().is_some_and(|r| r.iter().any(|v| v == name));
    for (name, property) in properties {
        let form = resolve(root, property);
        let full = format!("{before}{name}");
        let about = text(property).or_else(|| text(form)).unwrap_or_default();
        all.push(Argument {
            form: describe(root, form),
            required: required(name),
            // An object's default is its parts'.
            default: property.get("default").filter(|d| !d.is_null() && !d.is_object()).cloned(),
            about: about.lines().next().unwrap_or_default().to_owned(),
            name: full.clone(),
        });
        if depth > 1 {
            walk(root, form, &format!("{full}."), depth - 1, all);
        }
    }
}

fn text(schema: &Value) -> Option<&str> {
    schema["description"].as_str()
}

/// Follows references, and what may be absent to what it is when it is there.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(found) = schema["$ref"].as_str().and_then(|r| root.pointer(r.trim_start_matches('#'))) {
        return resolve(root, found);
    }
    let options = schema["anyOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    match options {
        [one, null] if null["type"] == "null" => resolve(root, one),
        _ => schema,
    }
}

/// A word or two for what a value may be.
fn describe(root: &Value, schema: &Value) -> String {
    let or = |words: Vec<String>| words.join(" | ");
    if let Some(words) = schema["enum"].as_array() {
        return or(words.iter().filter(|w| !w.is_null()).map(plain).collect());
    }
    if let Some(word) = schema.get("const") {
        return plain(word);
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(options) = schema[key].as_array() {
            return or(options.iter().map(|o| describe(root, resolve(root, o))).collect());
        }
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter(|k| **k != "null").map(plain).collect::<Vec<_>>().join(" | "),
        Value::String(kind) => kind.clone(),
        _ => "any".into(),
    };
    match kind.as_str() {
        "array" => format!("list of {}", describe(root, resolve(root, &schema["items"]))),
        // One of several forms, told by their key.
        "object" if single(schema).is_some() => format!("{{{}: …}}", single(schema).unwrap_or_default()),
        _ => kind,
    }
}

fn single(schema: &Value) -> Option<&str> {
    let required: Option<&Map<_, _>> = schema["properties"].as_object();
    required.filter(|p| p.len() == 1 && schema["required"].is_array())?.keys().next().map(String::as_str)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn references_options_and_parts_are_followed() {
        let schema = json!({
            "properties": {
                "n": {"type": "integer", "default": 3, "description": "A number.\nMore of it."},
                "how": {"$ref": "#/$defs/How", "default": "slow"},
                "more": {"anyOf": [{"$ref": "#/$defs/More"}, {"type": "null"}]},
                "list": {"type": ["array", "null"], "items": {"type": "string"}},
            },
            "required": ["n"],
            "$defs": {
                "How": {"oneOf": [{"const": "slow"}, {"type": "object", "properties": {"at": {}}, "required": ["at"]}]},
                "More": {"type": "object", "properties": {"deep": {"type": "boolean"}}},
            },
        });
        let found = super::of(&schema);
        let lines: Vec<_> =
            found.iter().map(|a| format!("{} {} {:?} {}", a.name, a.form, a.default, a.required)).collect();
        assert_eq!(
            lines,
            [
                "n integer Some(Number(3)) true",
                "how slow | {at: …} Some(String(\"slow\")) false",
                "more object None false",
                "more.deep boolean None false",
                "list list of string None false",
            ]
        );
        assert_eq!(found[0].about, "A number.");
    }
}
