//! The benchmark file as types. Its JSON Schema is made from them.

use crate::results::{Obtained, Series, View};
use crate::run::Protocol;
use chainline_chain::model::{API_VERSION, Metadata};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;

/// A whole benchmark file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(title = "Chainline benchmark")]
pub struct File {
    /// Version of this format: `chainline/v1alpha1`.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    /// What the file describes: `Benchmark`.
    #[schemars(extend("const" = "Benchmark"))]
    pub kind: String,
    /// What it is called.
    pub metadata: Metadata,
    /// What is varied, measured and shown.
    pub spec: Spec,
}

/// What is varied, measured and shown.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = asks_for_measures)]
pub struct Spec {
    /// A line for people; default: the file's name.
    #[schemars(default)]
    pub title: String,
    /// What everything is varied from.
    pub base: Base,
    /// Values by factor. All combinations are measured. Names: those of the reference, or the path of a field of the
    /// chain file that begins with `spec.`.
    #[schemars(default)]
    pub factors: IndexMap<String, Vec<Value>>,
    /// What the ideal is, such as `{isolation: fused}`: for each combination, the one with these values in place of its own
    /// is measured too, before the others of its round, and the others are held against it.
    #[schemars(default)]
    pub ideal: IndexMap<String, Value>,
    /// Further combinations, each a map from factors to values.
    #[schemars(default)]
    pub include: Vec<IndexMap<String, Value>>,
    /// Combinations that are left out: those that have all these values.
    #[schemars(default)]
    pub exclude: Vec<IndexMap<String, Value>>,
    /// Rounds; each measures every combination once.
    #[schemars(default)]
    pub rounds: u32,
    /// What is measured, and how. Its fields stand directly under `spec`.
    #[serde(flatten)]
    pub protocol: Protocol,
    /// What is shown; default: a section for each measure.
    #[schemars(default)]
    pub sections: Vec<Shown>,
    /// What is different with `--quick`.
    #[schemars(default)]
    pub quick: Quick,
}

/// The protocol has a usual value for all of its fields; in a file it must say what is measured.
fn asks_for_measures(schema: &mut schemars::Schema) {
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.push("measures".into());
    }
    if let Some(measures) = schema.pointer_mut("/properties/measures").and_then(Value::as_object_mut) {
        measures.insert("minItems".into(), 1.into());
        measures.remove("default");
    }
}

/// What everything is varied from: a chain file with a generator, its `spec`, or NFs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Base {
    /// A chain file, relative to the benchmark file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The `spec` of a chain file with generators.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub spec: serde_json::Map<String, Value>,
    /// NFs of one path from a generator to a sink, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nfs: Vec<Value>,
    /// Fields of the generator, as in a chain file.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub generator: serde_json::Map<String, Value>,
    /// Fields of the chain file's `defaults`, besides those that it has.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub defaults: serde_json::Map<String, Value>,
}

/// One section of the report.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// A word for links.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What is shown and how it was obtained; default: the measure's definition.
    #[schemars(default)]
    pub definition: String,
    /// Paper, section, figure; RFC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What is shown: a measure, or `latency p99 at 50 % of PDR`.
    pub y: String,
    /// The factor that lies to the right; `part`: the NF or chain that a figure is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// Only combinations with these values.
    #[schemars(default)]
    pub only: IndexMap<String, Value>,
    /// How it is drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
    /// Others' figures, to stand beside: series by name, each a list of [x, y].
    #[schemars(default, with = "IndexMap<String, Vec<(Value, f64)>>")]
    pub quoted: Vec<Series>,
}

impl Shown {
    /// A quoted series has this way of being obtained.
    pub const QUOTED: Obtained = Obtained::Quoted;
}

/// What is different with `--quick`. Searches are hasty and trials short then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Quick {
    /// Other values of factors.
    pub factors: IndexMap<String, Vec<Value>>,
    /// What is measured instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<crate::run::Measure>,
    /// Another length of trials in milliseconds; default: at most 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_ms: Option<u64>,
    /// Another warm-up in milliseconds; default: at most 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup_ms: Option<u64>,
}
