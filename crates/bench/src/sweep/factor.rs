//! What can be varied.

use chainline_chain::document::{Decoder, Node, Value as Yaml};
use chainline_chain::model::{BATCH, FRAME_BYTES, Policy};
use serde_json::Value;

/// Something that can be varied.
#[derive(Clone, Copy, Debug)]
pub struct Factor {
    /// Its name in the file.
    pub name: &'static str,
    /// What its values are.
    pub about: &'static str,
    /// Reads one.
    pub read: fn(&mut Decoder, &Node) -> Option<Value>,
}

/// The build that is measured, and this one among its values.
pub const PROGRAM: &str = "program";
/// See [`PROGRAM`].
pub const THIS: &str = "this";
/// How the NFs of a path lie.
pub(super) const PLACEMENTS: &[(&str, &str)] =
    &[("same-core", "same-core"), ("other-core", "other-core"), ("other-socket", "other-socket")];
const ISOLATIONS: &[(&str, &str)] = &[("process", "process"), ("thread", "thread"), ("fused", "fused")];
/// Most NFs, instances and workers that a factor makes.
const MOST: u32 = 64;

macro_rules! factors {
    ($($name:literal, $about:literal, $read:expr;)*) => {
        /// All of them. Besides these, a factor may be the path of any field of the chain file: `spec.defaults.queue`.
        pub const FACTORS: &[Factor] = &[$(Factor { name: $name, about: $about, read: $read }),*];
    };
}

factors! {
    "frame_bytes", "bytes of a frame with FCS",
        |d, n| d.int(n, FRAME_BYTES).map(Value::from);
    "mix", "a mix of frame sizes, as the generator takes it", as_it_is;
    "flows", "number of flows",
        |d, n| d.int(n, 1..=100_000_000_u32).map(Value::from);
    "locality", "temporal locality, as the generator takes it", as_it_is;
    "working_set", "spatial locality, as the generator takes it", as_it_is;
    "nf", "a kind of NF, or a map with `kind` and `args`, in place of every NF of the base", nf;
    "nfs", "a list of such: the NFs of the path, in order",
        |d, n| d.list(n, "a list of NFs", nf).filter(|l| !l.is_empty()).map(Value::from);
    "chain_length", "so many NFs on the path: the base's, from the first on again if need be",
        |d, n| d.int(n, 1..=MOST).map(Value::from);
    "placement", "where the NFs of a path run: `same-core`, `other-core`, `other-socket`, or on so many cores in turn",
        placement;
    "colocated", "so many copies of everything beside one another",
        |d, n| d.int(n, 1..=MOST).map(Value::from);
    "workers", "so many copies of the NFs, each with a queue of its own and its share of the flows",
        |d, n| d.int(n, 1..=MOST).map(Value::from);
    "replicas", "so many replicas of each NF; `placement: other-core` gives each a core of its own",
        |d, n| d.int(n, 1..=MOST).map(Value::from);
    "batch", "most packets that an NF gets at once",
        |d, n| d.int(n, BATCH).map(Value::from);
    "policy", "policy of sched(7)",
        |d, n| d.word(n, Policy::WORDS).map(|p| p.word().into());
    "sched", "scheduling of all NFs, as the chain file's defaults take it", as_it_is;
    "activation", "how NFs wait for packets, as the chain file's defaults take it", as_it_is;
    "variant", "a map with `name` and `spec`: fields that replace those of the base, maps field by field", variant;
    "mechanisms", "scheduling mechanisms, as the chain file's defaults take them", as_it_is;
    "isolation", "how NFs are kept apart: `process`, `thread`, `fused`",
        |d, n| word(d, n, ISOLATIONS);
    "port", "what lies between generator and chain: `none`, `af_packet`, `af_xdp`, `memif`",
        |d, n| word(d, n, super::port::WORDS);
    "program", "the build: `this`, or the path of another `chainline`",
        |d, n| d.filled(n, "`this`, or the path of another `chainline`").map(Value::from);
    "cpu_frequency", "frequency of the cores in MHz, or `as-it-is`", frequency;
}

fn word(d: &mut Decoder, node: &Node, words: &[(&str, &'static str)]) -> Option<Value> {
    d.word(node, words).map(Value::from)
}

/// Most cores that a placement names.
const MOST_CORES: u32 = 1024;

fn placement(d: &mut Decoder, node: &Node) -> Option<Value> {
    match &node.value {
        Yaml::Int(_) => d.int(node, 1..=MOST_CORES).map(Value::from),
        _ => word(d, node, PLACEMENTS),
    }
}

/// `{name: uneven, spec: {…}}`.
fn variant(d: &mut Decoder, node: &Node) -> Option<Value> {
    let value = node.to_json();
    let named = value["name"].is_string() || value["name"].is_number();
    if named && value["spec"].is_object() && value.as_object().is_some_and(|m| m.len() == 2) {
        return Some(value);
    }
    d.expected(node, "a map with `name` and `spec`, and nothing else")
}

/// Whatever it is, the chain file's own checks judge it.
fn as_it_is(d: &mut Decoder, node: &Node) -> Option<Value> {
    match node.value {
        Yaml::Null => d.expected(node, "a value"),
        _ => Some(node.to_json()),
    }
}

/// `l3fwd`, or `{kind: l3fwd, args: …}`; in the latter `name` is what it is called in the chain file.
pub(super) fn nf(d: &mut Decoder, node: &Node) -> Option<Value> {
    const WHAT: &str = "a kind of NF such as `l3fwd`, or a map with `kind` and `args`";
    match &node.value {
        Yaml::Text(kind) if !kind.is_empty() => Some(serde_json::json!({"kind": kind})),
        Yaml::Map(entries) if entries.iter().any(|e| e.key == "kind") => Some(node.to_json()),
        _ => d.expected(node, WHAT),
    }
}

fn frequency(d: &mut Decoder, node: &Node) -> Option<Value> {
    match &node.value {
        Yaml::Text(text) if text == "as-it-is" => Some("as-it-is".into()),
        Yaml::Int(mhz) if (100..=10_000).contains(mhz) => u32::try_from(*mhz).ok().map(Value::from),
        _ => d.expected(node, "a frequency in MHz from 100 to 10000, or `as-it-is`"),
    }
}
