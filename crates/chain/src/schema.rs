//! The JSON Schema of the chain file, and of other files of ours, from the types of their models.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// The JSON Schema (draft 2020-12) of the chain file. Editors use it through a first line such as
/// `# yaml-language-server: $schema=chain-file.schema.json`.
#[must_use]
pub fn schema() -> Value {
    let mut schema = of::<crate::model::File>();
    // Names of ports and NFs, which schemars sees as any text.
    let names = json!({"pattern": crate::model::NAME_PATTERN});
    for map in ["ports", "nfs"] {
        if let Some(map) = schema.pointer_mut(&format!("/$defs/Spec/properties/{map}")).and_then(Value::as_object_mut) {
            map.insert("propertyNames".into(), names.clone());
        }
    }
    schema.to_value()
}

/// The JSON Schema (draft 2020-12) of a file whose model is `T`.
#[must_use]
pub fn of<T: JsonSchema>() -> Schema {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    Extensions.transform(&mut schema);
    schema
}

/// Allows keys that begin with `x-` wherever unknown fields are refused, and no `null` for what may be absent.
struct Extensions;

impl Transform for Extensions {
    fn transform(&mut self, schema: &mut Schema) {
        if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            // Beside the pattern of a map whose keys are numbers.
            let mut patterns = schema.get("patternProperties").cloned().unwrap_or_else(|| json!({}));
            if let Some(patterns) = patterns.as_object_mut() {
                patterns.insert("^x-".into(), true.into());
            }
            schema.insert("patternProperties".into(), patterns);
        }
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|t| t != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                schema.insert("type".into(), only);
            }
        }
        if let Some(Value::Array(options)) = schema.get_mut("anyOf") {
            options.retain(|o| *o != json!({"type": "null"}));
        }
        transform_subschemas(self, schema);
    }
}
