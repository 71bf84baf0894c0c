//! What a generator sends, beyond its addresses: sizes, order, lengths, arrivals.
//!
//! What each knob means precisely, and who defined it, is in `docs/workload.md`; the crate `workload` makes it.

use super::net::Prefix;
use super::port::Rate;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::path::PathBuf;

/// Several frame sizes. "IMIX" alone has no single meaning (RFC 6985), so each has its own name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Mix {
    /// One that has a name.
    Named(MixName),
    /// As the file lists it.
    Parts(#[schemars(length(min = 1, max = 256))] Vec<MixPart>),
    /// In exact order.
    Genome(Genome),
    /// A measured distribution: lines of `SIZE,WEIGHT`.
    File(MixFile),
    /// The frame sizes of a capture, drawn as often as they occur in it.
    Capture(MixCapture),
}

/// The name of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixName(pub(crate) &'static chainline_workload::NamedMix);

impl MixName {
    /// All names with what they mean.
    pub(crate) fn words() -> Vec<(&'static str, Self)> {
        chainline_workload::NAMED.iter().map(|named| (named.name, Self(named))).collect()
    }

    /// What it is: sizes and weights.
    #[must_use]
    pub fn definition(self) -> &'static chainline_workload::NamedMix {
        self.0
    }
}

impl Serialize for MixName {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.0.name)
    }
}

impl JsonSchema for MixName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MixName".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<_> = chainline_workload::NAMED.iter().map(|m| m.name).collect();
        let all: Vec<_> = chainline_workload::NAMED.iter().map(|m| format!("{}: {}", m.name, m.definition)).collect();
        json_schema!({"description": format!("A mix with a name. {}.", all.join(". ")), "enum": words})
    }
}

/// One frame size of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixPart {
    /// Bytes of the frame including FCS.
    #[schemars(range(min = *super::FRAME_BYTES.start(), max = *super::FRAME_BYTES.end()))]
    pub frame_bytes: u16,
    /// How often it comes against the others.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub weight: u32,
}

/// Frame sizes in exact order, as an RFC 6985 genome says them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Genome {
    /// One letter a frame: `a` to `g` are 64, 128, 256, 512, 1024, 1280 and 1518 bytes, others as `sizes` says; a number
    /// before a letter or before brackets repeats. `aaafg`, `7a4(bc)z`.
    #[schemars(length(min = 1))]
    pub genome: String,
    /// Sizes of the letters `z` and `A` to `Z`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub sizes: Vec<LetterSize>,
}

/// The size that a letter of a genome stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LetterSize {
    /// `z`, or `A` to `Z`.
    pub letter: char,
    /// Bytes of the frame including FCS.
    #[schemars(range(min = *super::FRAME_BYTES.start(), max = *super::FRAME_BYTES.end()))]
    pub frame_bytes: u16,
}

/// A distribution of frame sizes in a text file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixFile {
    /// The file, relative to the chain file: lines of `SIZE,WEIGHT`, sizes in bytes including FCS.
    pub file: PathBuf,
}

/// The distribution of frame sizes of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixCapture {
    /// The capture, relative to the chain file. Its frames have no FCS, so each counts 4 bytes more, and at least 64.
    pub capture: PathBuf,
}

/// In which order flows come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Each flow in turn: the worst temporal locality.
    #[default]
    RoundRobin,
    /// Any flow with equal chance.
    Random,
    /// Zipf's law: the k-th flow in proportion to 1/k^s; the exponent s, above 0 and at most 16.
    Zipf(#[schemars(extend("exclusiveMinimum" = 0, "maximum" = chainline_workload::MAX_EXPONENT))] f64),
    /// Temporal locality: flows in groups that take turns, then the next group. 1 flow is flow after flow, the best; all
    /// flows are round robin, the worst.
    Interleave(Group),
}

/// So many flows for so many packets. The flows are given as such, or as a step of a dial from one flow (step 0) to
/// all (the last step), each step by the same factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How many flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub flows: Option<u32>,
    /// Step of the dial, from 0 to `of`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Steps that the dial has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub of: Option<u32>,
    /// Packets: of each flow before its group is done (`order`), or of all flows before the next ones come
    /// (`working_set`).
    #[schemars(range(min = 1))]
    pub packets: u32,
}

impl Group {
    /// How many of `all` flows.
    #[must_use]
    pub fn flows_of(&self, all: u32) -> u32 {
        match (self.flows, self.step, self.of) {
            (Some(flows), _, _) => flows,
            (None, Some(step), Some(of)) => chainline_workload::dial(step, of, all),
            _ => all,
        }
    }
}

/// Source hosts and their load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// Different source addresses.
    #[schemars(range(min = 1))]
    pub count: u32,
    /// How many times as many flows half of the hosts have as the other half; 1: all have as many. The non-uniform load
    /// of Zheng et al. is 10.
    #[schemars(range(min = 1, max = 1000), default = "one")]
    pub times: u32,
    /// Whether flows that follow each other are of the same host, rather than of different ones.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub grouped: bool,
}

fn one() -> u32 {
    1
}

/// Packets of a flow: so many, or as measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum FlowPackets {
    /// Always as many.
    Constant(#[schemars(range(min = 1))] u32),
    /// A histogram.
    Measured(MeasuredLengths),
}

/// Measured flow lengths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredLengths {
    /// A file, relative to the chain file: lines of `LOW,HIGH,FLOWS`, for FLOWS flows of LOW up to, not including, HIGH
    /// packets.
    pub histogram: PathBuf,
}

/// When packets are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// Equal gaps at `rate`.
    #[default]
    Constant,
    /// A Poisson process of mean `rate`.
    Poisson,
    /// On at `rate`, and off.
    Bursts(Bursts),
    /// From another rate to `rate`.
    Ramp(Ramp),
}

impl Schedule {
    pub(crate) fn is_constant(&self) -> bool {
        *self == Self::Constant
    }
}

/// On and off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Packets of a burst, sent at `rate`.
    #[schemars(range(min = 1))]
    pub packets: u32,
    /// Microseconds from the last packet of a burst to the first of the next.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MAX_GAP_US))]
    pub gap_us: f64,
}

/// The longest gap between bursts: a day.
pub const MAX_GAP_US: f64 = 86_400e6;
/// The longest ramp: a day.
pub const MAX_RAMP_S: f64 = 86_400.0;

/// A rate that changes evenly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    /// The rate at the beginning, in the unit of `rate`, which is the one at the end.
    pub from: Rate,
    /// Seconds from the one to the other.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MAX_RAMP_S))]
    pub over_s: f64,
    /// Begins again at the end, rather than stay at `rate`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub repeat: bool,
}

/// VLAN tags of all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags(pub chainline_workload::Vlan);

impl Tags {
    pub(crate) fn is_none(&self) -> bool {
        self.0 == chainline_workload::Vlan::None
    }
}

impl Serialize for Tags {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            chainline_workload::Vlan::None => s.collect_seq(std::iter::empty::<u16>()),
            chainline_workload::Vlan::One(id) => s.serialize_u16(id),
            chainline_workload::Vlan::Two(outer, inner) => s.collect_seq([outer, inner]),
        }
    }
}

impl JsonSchema for Tags {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Tags".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let id = json_schema!({"type": "integer", "minimum": 0, "maximum": chainline_workload::MAX_VLAN});
        json_schema!({
            "description": "A VLAN identifier; or two, the service tag's and the customer tag's within it (QinQ).",
            "oneOf": [id.clone(), {"type": "array", "items": id, "minItems": 0, "maxItems": 2}],
        })
    }
}

/// A hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub chainline_packet::ether::Mac);

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl JsonSchema for Mac {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Mac".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A hardware address: 02:00:00:00:00:01.",
            "type": "string",
            "pattern": "^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$",
        })
    }
}

/// Other addresses for the packets of a capture: each address gets a host of the prefix, the same wherever it appears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Rewrite {
    /// Source addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src: Option<Prefix>,
    /// Destination addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<Prefix>,
}
