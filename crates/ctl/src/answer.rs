//! What comes back: results and faults.

use crate::request::Id;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The answer to one request, a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// That of the request; `null` if it could not be read.
    #[serde(default)]
    pub id: Id,
    /// What was asked for, by method: `Overview`, `Stats`, a chain file, or `Changed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why not. Exactly one of `result` and `error` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
}

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// For programs.
    pub code: Word,
    /// For people: what was found, and what was expected.
    pub message: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Fault {
    /// A fault without a hint.
    #[must_use]
    pub fn new(code: Word, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// With what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What kind of fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The line is no request.
    Malformed,
    /// The line is longer than a request can be; the connection is closed.
    TooLong,
    /// Too many clients; the connection is closed.
    TooMany,
    /// There is no such method.
    UnknownMethod,
    /// The method has other parameters.
    InvalidParams,
    /// Something is named that is not there, or the chain file that would come of it has errors. Nothing was changed.
    Wrong,
    /// The kernel, an NF or the host refused. The message says what was changed nevertheless, if anything was.
    Refused,
    /// Another change is under way.
    Busy,
    /// This run cannot do that.
    Unsupported,
}

/// What runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    /// `metadata.name`.
    pub name: String,
    /// The manager's process.
    pub pid: u32,
    /// Seconds since the chains ran.
    pub uptime_s: f64,
    /// The core on which the manager polls ports.
    pub manager_core: usize,
    /// Ports, in file order.
    pub ports: Vec<PortInfo>,
    /// NFs, in file order.
    pub nfs: Vec<NfInfo>,
    /// What the kernel schedules.
    pub instances: Vec<InstanceInfo>,
    /// Chains, in the order of the classifier.
    pub chains: Vec<ChainInfo>,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortInfo {
    /// Its name.
    pub name: String,
    /// What it is: `generator`, `af_packet`.
    pub kind: String,
}

/// An NF.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NfInfo {
    /// Its name.
    pub name: String,
    /// What it is: `firewall`, `./mine.so`.
    pub kind: String,
    /// The instance that hosts it.
    pub instance: String,
    /// Where it may send packets besides the next hop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub divert: Vec<String>,
}

/// An instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceInfo {
    /// The NF's name; for fused ones the names joined with `+`.
    pub name: String,
    /// `process` or `thread`.
    pub host: String,
    /// `running`, `starting`, `down` or `ended`.
    pub state: String,
    /// The thread that works.
    pub tid: Option<i32>,
    /// The cores that it may run on.
    pub cores: Vec<usize>,
    /// How the kernel was asked to schedule it, as in the chain file.
    pub sched: Value,
    /// Times that it was started again.
    pub restarts: u64,
}

/// A chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChainInfo {
    /// Its name.
    pub name: String,
    /// Which packets of the ingress port belong to it, as in the chain file.
    #[serde(rename = "match")]
    pub matches: Value,
    /// The ingress port, the NFs in order, the egress port.
    pub path: Vec<String>,
    /// Whose buffers it uses.
    pub tenant: String,
}

/// The numbers of a run: totals since it began, and rates over the last interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Seconds since the chains ran.
    pub at_s: f64,
    /// Seconds over which the rates are.
    pub interval_s: f64,
    /// All packets: `received = transmitted + dropped + held`.
    pub ledger: Totals,
    /// By chain, in file order.
    pub chains: Vec<ChainStats>,
    /// By NF, in file order.
    pub nfs: Vec<NfStats>,
    /// What happened last, the newest at the end.
    pub happenings: Vec<String>,
}

/// Packets since the run began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Received, or given to the chain by the classifier.
    pub received: u64,
    /// Sent by a port.
    pub transmitted: u64,
    /// Dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Inside.
    pub held: u64,
}

/// One chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChainStats {
    /// Its name.
    pub name: String,
    /// Packets since the run began.
    pub totals: Totals,
    /// Packets received a second.
    pub received_pps: f64,
    /// Packets sent a second.
    pub transmitted_pps: f64,
    /// Bits sent a second, without FCS, preamble and gap.
    pub transmitted_bps: f64,
    /// Packets dropped a second at the entry, before any work.
    pub shed_pps: f64,
    /// Packets dropped a second for other reasons.
    pub dropped_pps: f64,
    /// Nanoseconds from port to port: the median; `null` with many chains.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
}

/// One NF.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NfStats {
    /// Its name.
    pub name: String,
    /// Packets handed to it since the run began.
    pub received: u64,
    /// Packets that it passed on since then.
    pub transmitted: u64,
    /// Packets handed to it a second.
    pub pps: f64,
    /// Packets that it dropped a second, by reason.
    pub dropped_pps: BTreeMap<String, f64>,
    /// Fill of its fullest queue, 0 to 1.
    pub queue: f64,
    /// Share of one core, of its instance.
    pub cpu_share: f64,
    /// Median nanoseconds a packet.
    pub cost_ns: Option<u64>,
    /// Packets that its instance holds.
    pub held: u64,
    /// Its own counters, as its kind names them.
    pub counters: BTreeMap<String, u64>,
}

/// What became of a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// What was changed, in words; empty if nothing differed.
    pub changed: Vec<String>,
    /// Instances that were started for it. The state of their NFs begins anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub started: Vec<String>,
    /// Instances that were ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
    /// Packets that came while entries were paused for it and could not wait: dropped as `reconfigured`.
    #[serde(default)]
    pub reconfigured: u64,
    /// What looks like a mistake.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
