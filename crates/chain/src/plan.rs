//! What a checked chain file means: which instances there are, which queue joins which, and what runs where.
//!
//! An *instance* is what the kernel schedules: a process or a thread that hosts one NF, or several that are
//! fused into one run-to-completion loop. An *edge* is one single-producer single-consumer queue (D3).
//! An NF with replicas has several instances; each of these hosts an NF of its own number, and whoever hands packets to
//! them has an edge to each. All ids are indexes into the lists of [`Plan`].

use crate::model::Dispatch;
use serde::Serialize;

/// The whole plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// `metadata.name`.
    pub name: String,
    /// The core on which the manager polls ports.
    pub manager_core: usize,
    /// Cores that threads of other processes are moved off while the chains run.
    pub reserved: Vec<usize>,
    /// Which mechanisms against wasted work are in force.
    pub mechanisms: crate::model::Mechanisms,
    /// Backpressure, with a target if the file gives one or a service level.
    pub backpressure: crate::model::Backpressure,
    /// Buffers in each tenant's region.
    pub buffers: u32,
    /// Largest frame in bytes without FCS that a buffer must hold. 0: the largest that any port reports.
    pub max_frame_bytes: u32,
    /// Ports by id.
    pub ports: Vec<PortPlan>,
    /// NFs by id.
    pub nfs: Vec<NfPlan>,
    /// Instances by id.
    pub instances: Vec<InstancePlan>,
    /// Chains by id, in file order, which is the order of the classifier.
    pub chains: Vec<ChainPlan>,
    /// Edges by id.
    pub edges: Vec<EdgePlan>,
    /// What is not in force any more, in a run that was changed.
    #[serde(skip)]
    pub gaps: crate::overlay::Gaps,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PortPlan {
    /// The name in the file.
    pub name: String,
    /// Its definition.
    pub spec: crate::model::Port,
}

/// One NF, or one of its replicas.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NfPlan {
    /// The name in the file; of a replica with its number behind it, `fw/0`.
    pub name: String,
    /// The name in the file.
    #[serde(skip)]
    pub base: String,
    /// The first of its replicas, after which the others follow; itself without any.
    #[serde(skip)]
    pub first: usize,
    /// How many there are.
    #[serde(skip_serializing_if = "is_one")]
    pub replicas: usize,
    /// Whether they share their state.
    #[serde(skip_serializing_if = "crate::model::Sharing::is_private")]
    pub state: crate::model::Sharing,
    /// A built-in kind or the path of a shared object.
    pub kind: String,
    /// What the NF gets as arguments.
    pub args: serde_json::Value,
    /// Names of the targets of its divert verdicts, in the order of their indexes.
    pub divert: Vec<String>,
    /// The instance that hosts it.
    pub instance: usize,
}

fn is_one(n: &usize) -> bool {
    *n == 1
}

/// How an instance is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// A process of its own.
    Process,
    /// A thread of the manager.
    Thread,
}

/// How an instance waits for packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Sleeps until it is woken.
    #[default]
    Wake,
    /// Never sleeps; gives up a core that it shares.
    Poll,
    /// Looks for packets for a while, then sleeps.
    Hybrid {
        /// Microseconds.
        spin_us: u32,
    },
}

impl Activation {
    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Poll => "poll",
            Self::Hybrid { .. } => "hybrid",
        }
    }
}

/// One instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstancePlan {
    /// The NF's name; for a fused run the names joined with `+`.
    pub name: String,
    /// Process or thread.
    pub host: Host,
    /// The cores that it may run on.
    pub cores: Vec<usize>,
    /// Whether another instance or the manager may run on one of these cores.
    pub shares_core: bool,
    /// Scheduling as the file asks for it.
    pub sched: crate::model::Sched,
    /// How it waits for packets.
    pub activation: Activation,
    /// Packets in one burst, 1 to 256.
    pub batch: u16,
    /// The NFs that it hosts.
    pub nfs: Vec<usize>,
    /// Its input queues.
    pub queues: Vec<QueuePlan>,
}

/// An input queue of an instance and what happens to packets from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueuePlan {
    /// The edge that is the queue.
    pub edge: usize,
    /// The chain.
    pub chain: usize,
    /// The hop of the first stage.
    pub hop: u8,
    /// Weight in the deficit round robin, from the chain's `weight`. Queues of several replicas have it together.
    pub weight: u32,
    /// NFs called one after the other; more than one when fused.
    pub stages: Vec<StagePlan>,
    /// Where packets go after the last stage.
    pub next: Way,
}

/// Where packets go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Way {
    /// By one edge.
    To(usize),
    /// To the replicas of an NF, by one edge each.
    Among {
        /// Which packets go the same way.
        dispatch: Dispatch,
        /// In the order of the replicas.
        edges: Vec<usize>,
    },
}

impl Way {
    /// Every edge that a packet may take.
    #[must_use]
    pub fn edges(&self) -> &[usize] {
        match self {
            Self::To(edge) => std::slice::from_ref(edge),
            Self::Among { edges, .. } => edges,
        }
    }

    /// The same by other ids.
    #[must_use]
    pub fn renumbered(&self, ids: &[usize]) -> Self {
        match self {
            Self::To(edge) => Self::To(ids[*edge]),
            Self::Among { dispatch, edges } => {
                Self::Among { dispatch: *dispatch, edges: edges.iter().map(|e| ids[*e]).collect() }
            }
        }
    }
}

/// One NF called for the packets of a queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StagePlan {
    /// The NF.
    pub nf: usize,
    /// The way for each entry of the NF's `divert` list, whose targets are ports, NFs further down, and chains.
    pub divert: Vec<Way>,
}

/// One end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The manager, on behalf of this port.
    Port(usize),
    /// An instance.
    Instance(usize),
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EdgePlan {
    /// Who puts packets in.
    pub from: End,
    /// Who takes them out.
    pub to: End,
    /// The chain whose packets it carries (after a divert: the chain diverted to, or the chain it came from if
    /// the target is a port).
    pub chain: usize,
    /// The hop that its packets are on their way to; the chain's length on the way to the port.
    pub hop: u8,
    /// Room for this many packets, a power of two.
    pub capacity: u32,
}

/// One chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainPlan {
    /// The name in the file.
    pub name: String,
    /// Chains of one tenant share a region of buffers; chains of different tenants do not.
    pub tenant: String,
    /// Which packets belong to it.
    pub matches: crate::model::Match,
    /// The port it begins at.
    pub ingress: usize,
    /// The port it ends at.
    pub egress: usize,
    /// NFs on its path; of one with replicas the first.
    pub hops: Vec<usize>,
    /// Where the manager admits packets to.
    pub entry: Way,
    /// At most this many packets inside the chain at once; 0: as many as its queues hold.
    pub max_in_flight: u32,
}

impl QueuePlan {
    /// Every way that packets from here may take.
    pub fn ways(&self) -> impl Iterator<Item = &Way> {
        std::iter::once(&self.next).chain(self.stages.iter().flat_map(|s| &s.divert))
    }

    /// Every edge that packets from here may take.
    pub fn outs(&self) -> impl Iterator<Item = usize> + '_ {
        self.ways().flat_map(|way| way.edges().iter().copied())
    }
}

impl Plan {
    /// The replicas of an NF, one of which is given: itself without any.
    pub fn replicas_of(&self, nf: usize) -> std::ops::Range<usize> {
        let nf = &self.nfs[nf];
        nf.first..nf.first + nf.replicas
    }
}
