//! The chain file as types: what an operator can say.
//!
//! Values are in parsed form (a prefix is an address and a length, not text). They serialize to the file's own
//! notation, and the JSON Schema of the file is generated from them. How text becomes these values stands in
//! `decode`, what is sensible in `check`, what follows from them in `plan`.

mod backpressure;
mod mechanisms;
mod net;
mod port;
mod replicas;
mod sched;
mod traffic;

pub use backpressure::Backpressure;
pub use mechanisms::Mechanisms;
pub(crate) use net::proto_names;
pub use net::{Match, NumRange, Prefix, proto_name, proto_number};
pub use port::{Generator, Laps, MAX_RATE, Memif, MemifRole, Netdev, Pcap, Port, Rate, Sink};
pub use replicas::{Dispatch, REPLICAS, Sharing};
pub use sched::{Activation, Core, Policy, Sched, Weight};
pub use traffic::{
    Bursts, FlowPackets, Genome, Group, Hosts, LetterSize, MAX_GAP_US, MAX_RAMP_S, Mac, MeasuredLengths, Mix,
    MixCapture, MixFile, MixName, MixPart, Order, Ramp, Rewrite, Schedule, Tags,
};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The only `apiVersion` so far.
pub const API_VERSION: &str = "chainline/v1alpha1";
/// The only `kind` so far.
pub const KIND: &str = "ServiceChain";

/// Most chains in one file. Also bounds the work of the checks, which compare chains pairwise.
pub const MAX_CHAINS: usize = 16_384;
/// Most NFs in one file.
pub const MAX_NFS: usize = 4_096;
/// Most ports in one file.
pub const MAX_PORTS: usize = 1_024;
/// Most NFs on one path; the hop and the path's length fit in eight bits.
pub const MAX_HOPS: usize = 64;
/// Most targets in one `divert` list: a verdict carries the index in eight bits.
pub const MAX_DIVERT: usize = 256;
/// Smallest and largest `frame_bytes`, FCS included: the Ethernet minimum and a 9018-byte jumbo frame with FCS.
pub const FRAME_BYTES: std::ops::RangeInclusive<u16> = 64..=9022;
/// Bytes that the FCS adds to a frame on the wire and that buffers do not hold.
pub const FCS_BYTES: u16 = 4;
/// Packets in one burst.
pub const BATCH: std::ops::RangeInclusive<u16> = 1..=256;
/// Burst when the file says nothing.
pub const DEFAULT_BATCH: u16 = 32;
/// Packets in one queue, a power of two.
pub const QUEUE: std::ops::RangeInclusive<u32> = 16..=1 << 20;
/// Queue size when the file says nothing.
pub const DEFAULT_QUEUE: u32 = 2048;
/// Buffers in a tenant's region.
pub const BUFFERS: std::ops::RangeInclusive<u32> = 256..=1 << 24;
/// Microseconds that a hybrid NF looks for packets before it sleeps.
pub const SPIN_US: std::ops::RangeInclusive<u32> = 1..=100_000;
/// The same when the file says nothing: about what waking an idle core costs.
pub const DEFAULT_SPIN_US: u32 = 50;
/// Weight of a chain in the deficit round robin.
pub const CHAIN_WEIGHT: std::ops::RangeInclusive<u32> = 1..=1000;
/// The tenant of chains that name none.
pub const DEFAULT_TENANT: &str = "default";

/// A whole chain file.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(title = "Chainline service chain")]
pub struct File {
    /// Version of this format: `chainline/v1alpha1`.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    /// What the file describes: `ServiceChain`.
    #[schemars(extend("const" = KIND))]
    pub kind: String,
    /// What the file is called.
    pub metadata: Metadata,
    /// Ports, NFs and chains.
    pub spec: Spec,
    /// Where everything stands in the file.
    #[serde(skip)]
    #[schemars(skip)]
    pub source: crate::Source,
    /// What is allowed but looks like a mistake.
    #[serde(skip)]
    #[schemars(skip)]
    pub warnings: Vec<crate::Diagnostic>,
}

/// What the file is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// The name in reports, metrics, and of the run's directories: letters, digits, `-` and `_`.
    #[schemars(extend("pattern" = NAME_PATTERN))]
    pub name: String,
}

/// What names of ports, NFs and chains look like. They become parts of file names and metrics labels.
pub const NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$";

/// Ports, NFs and chains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What holds for everything that does not say otherwise.
    #[schemars(default)]
    pub defaults: Defaults,
    /// What holds for single cores, by number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub cores: BTreeMap<usize, Core>,
    /// Where packets come from and go to, by name.
    pub ports: IndexMap<String, Port>,
    /// Network functions by name.
    #[schemars(default)]
    pub nfs: IndexMap<String, Nf>,
    /// Service chains in the order of the classifier: a packet belongs to the first that matches.
    #[schemars(length(min = 1, max = MAX_CHAINS))]
    pub chains: Vec<Chain>,
    /// The service level that the chains are to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
}

/// What holds for everything that does not say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Defaults {
    /// What carries packets between NFs.
    pub fabric: Fabric,
    /// How NFs are kept apart.
    pub isolation: Isolation,
    /// Packets that an NF gets in one call at most.
    #[schemars(range(min = *BATCH.start(), max = *BATCH.end()))]
    pub batch: u16,
    /// Packets that a queue has room for; a power of two.
    #[schemars(range(min = *QUEUE.start(), max = *QUEUE.end()))]
    pub queue: u32,
    /// Buffers in each tenant's region. Default: enough for all its queues and 2048 more, at most
    /// 65,536.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *BUFFERS.start(), max = *BUFFERS.end()))]
    pub buffers: Option<u32>,
    /// Largest frame in bytes, without FCS, that a buffer holds; 0: the largest that any port reports.
    #[schemars(range(max = 9018))]
    pub max_frame_bytes: u32,
    /// The core on which the manager polls ports. Default: the host's first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager_core: Option<usize>,
    /// Cores of NFs that name none. Default: all but the manager's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<usize>,
    /// Scheduling of NFs that have no `sched`: of their own, of their chain, or of their core, in this order. Nothing is
    /// merged.
    pub sched: Sched,
    /// Which of the mechanisms against wasted work are in force.
    pub mechanisms: Mechanisms,
    /// When overloaded chains shed at their entry, and how many packets they have inside.
    pub backpressure: Backpressure,
    /// How NFs wait for packets. Default: `wake`; `hybrid` for an NF that is alone on its cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// Microseconds that a `hybrid` NF looks for packets before it sleeps. Default: 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *SPIN_US.start(), max = *SPIN_US.end()))]
    pub spin_us: Option<u32>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            fabric: Fabric::default(),
            isolation: Isolation::default(),
            batch: DEFAULT_BATCH,
            queue: DEFAULT_QUEUE,
            buffers: None,
            max_frame_bytes: 0,
            manager_core: None,
            cores: Vec::new(),
            sched: Sched::default(),
            mechanisms: Mechanisms::default(),
            backpressure: Backpressure::default(),
            activation: None,
            spin_us: None,
        }
    }
}

/// What carries packets between NFs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fabric {
    /// Rings and buffers in shared memory.
    #[default]
    Shm,
}

/// How an NF is kept apart from the others. The NF itself is the same in all three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// In a process of its own.
    #[default]
    Process,
    /// In a thread of the manager: a crash takes the manager with it.
    Thread,
    /// In one run-to-completion loop with its fused neighbours on the path, without a queue between them.
    Fused,
}

/// One NF.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nf {
    /// A built-in kind (`firewall`), or a shared object's path beginning with `./` or `/` and ending in `.so`.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Arguments, as the kind defines them.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    #[schemars(default)]
    pub args: serde_json::Value,
    /// How it is kept apart; default: `defaults.isolation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// The cores that it may run on; default: `defaults.cores`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub cores: Vec<usize>,
    /// How the kernel schedules it; default: that of its chain, of its core, `defaults.sched`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched: Option<Sched>,
    /// How it waits for packets; default: `defaults.activation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// Microseconds that it looks for packets before it sleeps, with `hybrid`; default: `defaults.spin_us`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *SPIN_US.start(), max = *SPIN_US.end()))]
    pub spin_us: Option<u32>,
    /// Chains, NFs further down the same path, and ports that it may send packets to instead of the next hop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default, length(max = MAX_DIVERT))]
    pub divert: Vec<String>,
    /// Packets in one call at most; default: `defaults.batch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *BATCH.start(), max = *BATCH.end()))]
    pub batch: Option<u16>,
    /// Packets that each of its input queues has room for, a power of two; default: `defaults.queue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *QUEUE.start(), max = *QUEUE.end()))]
    pub queue: Option<u32>,
    /// Instances of it, among which its packets are dealt out; each has queues of its own. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *REPLICAS.start(), max = *REPLICAS.end()))]
    pub replicas: Option<u32>,
    /// Which packets come to the same replica; default: `flow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
    /// Whose its state is, if its kind can share it; default: `private`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Sharing>,
}

/// One service chain.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// Its name.
    #[schemars(extend("pattern" = NAME_PATTERN))]
    pub name: String,
    /// Which packets of the ingress port belong to it; all when absent or empty.
    #[serde(rename = "match", skip_serializing_if = "Match::is_any")]
    #[schemars(default)]
    pub matches: Match,
    /// The ingress port, the NFs in order, the egress port.
    #[schemars(length(min = 2, max = MAX_HOPS + 2))]
    pub path: Vec<String>,
    /// Share of an NF's time against the other chains that it serves.
    #[schemars(default = "default_chain_weight", range(min = *CHAIN_WEIGHT.start(), max = *CHAIN_WEIGHT.end()))]
    pub weight: u32,
    /// Chains of different tenants share neither buffers nor NFs; default: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = NAME_PATTERN))]
    pub tenant: Option<String>,
    /// At most this many packets inside the chain at once; default: as many as its queues hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_in_flight: Option<u32>,
    /// How the kernel schedules its NFs that have no `sched` of their own; chains that share such an NF must agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched: Option<Sched>,
}

fn default_chain_weight() -> u32 {
    1
}

impl Chain {
    /// The port that packets come from.
    #[must_use]
    pub fn ingress(&self) -> Option<&str> {
        self.path.first().map(String::as_str)
    }

    /// The port that packets leave by.
    #[must_use]
    pub fn egress(&self) -> Option<&str> {
        self.path.last().map(String::as_str)
    }

    /// The names between the two ports.
    #[must_use]
    pub fn hops(&self) -> &[String] {
        match self.path.as_slice() {
            [_, hops @ .., _] => hops,
            _ => &[],
        }
    }

    /// The tenant that it belongs to.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or(DEFAULT_TENANT)
    }
}

/// The service level that the chains are to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Slo {
    /// 99th percentile of the time from port to port, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// Share of received packets that may be lost, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub loss: Option<f64>,
}
