//! The SDK for network functions (NFs).
//!
//! An NF is a function over a burst of packets: [`Nf::process`] looks at each packet and writes a
//! [`Verdict`] for it. It does not know whether the burst came from shared memory, a socket or a file, nor
//! whether it runs as a process, as a thread, or fused with its neighbours into one loop.
//!
//! ```
//! use chainline_nf::{Burst, Ctx, Env, Error, Nf};
//!
//! /// Lets every packet pass.
//! struct Pass;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Args {}
//!
//! impl Nf for Pass {
//!     const KIND: &'static str = "pass";
//!     const ABOUT: &'static str = "lets every packet pass";
//!     type Args = Args;
//!
//!     fn new(_: Args, _: &mut Env<'_>) -> Result<Self, Error> {
//!         Ok(Pass)
//!     }
//!     fn process(&mut self, _burst: &mut Burst<'_>, _ctx: &mut Ctx<'_>) {}
//! }
//! ```
//!
//! Deliberately absent: threads, signals, sockets, clocks. The host that runs the NF owns those.

#![forbid(unsafe_code)]

mod burst;
mod ctx;
mod error;
mod footprint;
#[cfg(feature = "golden")]
pub mod golden;
mod kind;
mod shared;
pub mod storage;
pub mod testing;
mod verdict;
pub mod words;

pub use burst::{Burst, MAX_BURST, Packet, PacketMeta};
pub use ctx::{Counter, Ctx, HoldId, Holds};
pub use error::Error;
pub use footprint::{Field, Footprint, Sample, Scope, State};
pub use kind::{BuildFn, CounterSpec, Declared, Env, Kind, NfObject, Registry};
pub use shared::{Counted, MAX_ENTRIES, SharedCounts, SharedKey, Sharing, TableSpec};
pub use storage::{Access, Completion, Durable, Errno, File, FileSpec, Refused, Storage};
pub use verdict::{Decoded, Reason, Target, Verdict};

use serde::de::DeserializeOwned;

/// A network function. One value of it belongs to one instance and is called by one thread only.
pub trait Nf: Send + Sized + 'static {
    /// The word that a chain file uses: `kind: firewall`.
    const KIND: &'static str;
    /// One line for `--help` and the reference.
    const ABOUT: &'static str;
    /// What stands under `args:` in the chain file. Unknown fields must be errors: `deny_unknown_fields`.
    type Args: DeserializeOwned + schemars::JsonSchema;

    /// What it reads and writes of packets and what its state belongs to; `None`: it does not say.
    const FOOTPRINT: Option<Footprint> = None;
    /// Arguments for `chainline describe nf`, with all that can be switched on and small tables.
    const SAMPLE: Sample = Sample::EMPTY;

    /// What can be told to be wrong with arguments from them alone, besides their types. `chainline validate` asks this, and
    /// [`Kind::build`] before it calls [`Nf::new`].
    ///
    /// # Errors
    /// [`Error::Args`] that begins with the place: `args.hosts: found 0, expected …`.
    fn check(_args: &Self::Args, _sharing: Sharing) -> Result<(), Error> {
        Ok(())
    }

    /// Builds the NF: reads files, fills tables, declares counters and drop reasons through `env`.
    ///
    /// # Errors
    /// A message for the operator; where it comes from a file, with file, line and column ([`Error::at`]).
    fn new(args: Self::Args, env: &mut Env<'_>) -> Result<Self, Error>;

    /// The table that was asked for with [`Env::share`], before the first burst.
    fn shared(&mut self, _table: Box<dyn SharedCounts>) {}

    /// Handles one burst of 1 to [`MAX_BURST`] packets. Each packet starts with [`Verdict::NEXT`].
    ///
    /// On the fast path: no allocation, no lock, no system call, no clock.
    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>);

    /// Called about every 10 ms while the NF is awake and once before it ends: ageing, flushing, held packets.
    fn tick(&mut self, _ctx: &mut Ctx<'_>) {}

    /// A read or write is done, or has failed. Called between bursts, and before the instance ends for all that was
    /// written; what is written here then is refused. On the fast path, as [`Nf::process`].
    fn completed(&mut self, _done: &Completion<'_>, _ctx: &mut Ctx<'_>) {}

    /// Something that the operator should know now, once: asked for after each tick. One or two sentences; the host shows
    /// so many a minute at most. Words that are true for longer belong into the report as well. Not had through the C ABI.
    fn news(&mut self) -> Option<String> {
        None
    }

    /// Words for the final report, for example a table of top talkers; at most a few KiB of text.
    fn report(&self) -> Option<String> {
        None
    }
}
