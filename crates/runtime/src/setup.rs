//! What the manager tells an instance, and what it answers. File descriptors travel beside the messages; an
//! `FdIndex` says which of them is meant.

use crate::split::Dispatch;
use chainline_nf::{Declared, Sharing};
use chainline_shm::counts::Shape;
use chainline_shm::{Clock, PageKind, PageLayout};
use chainline_storage::StorageReport;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Raised whenever anything here or in `chainline-shm` changes its layout.
pub const VERSION: u32 = 9;

/// An index into the file descriptors sent along.
pub type FdIndex = usize;

/// First message from the manager.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// [`VERSION`].
    pub version: u32,
    /// The instance's name, for messages.
    pub instance: String,
    /// The chain file's directory: relative paths in arguments start there.
    pub dir: PathBuf,
    /// The NFs to build.
    pub nfs: Vec<NfSetup>,
    /// Instances with the same NFs, itself counted.
    pub replicas: usize,
    /// Which of them it is, from 0.
    pub replica: usize,
    /// The tenant's packet buffers.
    pub region: RegionSetup,
    /// Doorbells of this instance and its neighbours.
    pub bells: Vec<FdIndex>,
    /// Which of them is its own.
    pub own_bell: usize,
    /// Input queues.
    pub queues: Vec<QueueSetup>,
    /// Output queues.
    pub outs: Vec<OutSetup>,
    /// Sets of output queues to the replicas of an NF. Where an output queue is named, the numbers from `outs.len()` on
    /// mean these.
    pub splits: Vec<SplitSetup>,
    /// Which output queue takes dropped packets back to the manager.
    pub return_out: usize,
    /// Whether a packet is taken only if every queue that it may need has room. Without, what does not fit into the
    /// next queue is dropped.
    pub credit: bool,
    /// Packets in one burst at most.
    pub batch: u16,
    /// How it waits for packets.
    pub activation: Activation,
    /// Places for held packets.
    pub holds: usize,
    /// The manager's clock.
    pub clock: Clock,
    /// Cores to run on; empty: any.
    pub cores: Vec<usize>,
}

/// How an instance waits for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activation {
    /// Sleeps until it is woken.
    Wake,
    /// Looks for packets all the time.
    Poll {
        /// Nobody else may run on its cores: it never sleeps. Otherwise it gives its core up when it finds nothing.
        alone: bool,
    },
    /// Looks for packets for a while, then sleeps until it is woken.
    Hybrid {
        /// Nanoseconds.
        spin_ns: u64,
    },
}

/// One NF.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NfSetup {
    /// Its name in the chain file.
    pub name: String,
    /// Its kind: a built-in word or the path of a shared object.
    pub kind: String,
    /// Its arguments.
    pub args: serde_json::Value,
    /// Whose its state is.
    pub sharing: Sharing,
    /// Names of its divert targets.
    pub divert: Vec<String>,
}

/// The packet buffers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RegionSetup {
    /// The memory.
    pub fd: FdIndex,
    /// Bytes from buffer to buffer.
    pub stride: u32,
    /// Number of buffers.
    pub count: u32,
    /// What the manager got.
    pub pages: PageKind,
}

/// The memory of a queue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RingSetup {
    /// The memory.
    pub fd: FdIndex,
    /// Places, a power of two.
    pub capacity: u32,
}

/// An input queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueSetup {
    /// Its memory.
    pub ring: RingSetup,
    /// The bell of the instance that fills it; none for the manager, which polls.
    pub producer_bell: Option<usize>,
    /// The chain.
    pub chain: u16,
    /// The hop of the first stage.
    pub hop: u8,
    /// Weight in the deficit round robin.
    pub weight: u32,
    /// The NFs to call, one after the other.
    pub stages: Vec<StageSetup>,
    /// The output queue, or the split, after the last stage.
    pub next: usize,
}

/// An NF called for the packets of a queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageSetup {
    /// Index into [`Setup::nfs`].
    pub nf: usize,
    /// The output queue, or the split, of each divert target.
    pub divert: Vec<usize>,
}

/// An output queue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct OutSetup {
    /// Its memory.
    pub ring: RingSetup,
    /// The bell of whoever empties it.
    pub consumer_bell: usize,
    /// Packets that are worth waking a sleeping consumer for.
    pub wake_at: u32,
    /// Each packet is: the consumer goes before this instance.
    pub urgent: bool,
    /// The consumer needs the core that this instance runs on: with less than a burst to do, this one gives way to it.
    pub same_core: bool,
    /// Chain and hop written into descriptors: they change on a divert.
    pub chain: u16,
    /// See `chain`.
    pub hop: u8,
}

/// The output queues of the replicas of an NF.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SplitSetup {
    /// Which packets come to the same one.
    pub dispatch: Dispatch,
    /// By replica.
    pub outs: Vec<usize>,
}

/// The instance's answer to [`Setup`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Built {
    /// All NFs are built; what each declared.
    Ready(Vec<Declared>),
    /// One could not be built: a message for the operator.
    Failed(String),
}

/// Second message from the manager; the memory of the page and of shared tables travels with it. The instance starts at
/// once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// How the page is laid out.
    pub layout: PageLayout,
    /// The table that an NF asked to have with its replicas, by NF. The memory of each travels behind the page's.
    pub tables: Vec<Option<TableSetup>>,
}

/// A table that replicas have together.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TableSetup {
    /// The memory.
    pub fd: FdIndex,
    /// What it is like.
    pub shape: Shape,
    /// What the manager got.
    pub pages: PageKind,
}

/// Last words of an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Last {
    /// It ended as told.
    Ended {
        /// What the NFs say for themselves.
        reports: Vec<Option<String>>,
        /// What became of their files.
        storage: Vec<Option<StorageReport>>,
    },
    /// An NF panicked or reported that it cannot go on.
    Died(String),
}

/// Anything an instance says after [`Start`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromInstance {
    /// Answer to [`Setup`].
    Built(Built),
    /// It runs, as this thread of the kernel's.
    Running {
        /// Thread id.
        tid: i32,
    },
    /// An NF has something to say to the operator, now ([`chainline_nf::Nf::news`]).
    News {
        /// Index into [`Setup::nfs`].
        nf: usize,
        /// What it says.
        words: String,
    },
    /// It ends.
    Last(Last),
}
