//! What the host lends an NF during a call.

use crate::{File, Packet, Refused, Storage, Verdict};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A packet that the NF keeps, see [`Ctx::hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HoldId(pub(crate) u32);

impl HoldId {
    /// The id as a number, for tables of the NF's own and for the C ABI.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.0
    }
    /// An id from such a number. A wrong one harms nobody: the host checks it.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// Where the host keeps held packets. Implemented by hosts, not by NFs.
pub trait Holds {
    /// Reserves a place; `None` when all are taken.
    fn reserve(&mut self) -> Option<HoldId>;
    /// Calls `f` with the held packet; `false` if no packet is held under `id`.
    fn with(&mut self, id: HoldId, f: &mut dyn FnMut(&mut Packet<'_>)) -> bool;
    /// Lets the packet go on with `verdict` (not hold); `false` if no packet is held under `id`.
    fn release(&mut self, id: HoldId, verdict: Verdict) -> bool;
}

/// The call's surroundings: time, counters, held packets, files.
pub struct Ctx<'a> {
    now_ns: u64,
    counters: &'a [AtomicU64],
    holds: &'a mut dyn Holds,
    storage: Option<&'a mut dyn Storage>,
    ending: bool,
}

impl<'a> Ctx<'a> {
    /// For hosts: `counters` in the order in which the NF declared them.
    #[inline]
    #[must_use]
    pub fn new(now_ns: u64, counters: &'a [AtomicU64], holds: &'a mut dyn Holds) -> Self {
        Self { now_ns, counters, holds, storage: None, ending: false }
    }

    /// For hosts: where the NF's files are. Without it every request is [`Refused::Absent`].
    #[inline]
    #[must_use]
    pub fn with_storage(self, storage: Option<&'a mut dyn Storage>) -> Self {
        Self { storage, ..self }
    }

    /// For hosts: this is the last [`crate::Nf::tick`].
    #[must_use]
    pub fn with_ending(self, ending: bool) -> Self {
        Self { ending, ..self }
    }

    /// Whether this is the last [`crate::Nf::tick`]: what the NF still has to write must be written now.
    #[inline]
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending
    }

    /// Monotonic time in nanoseconds, read once for the burst.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// For hosts: the counters, in the order in which the NF declared them.
    #[inline]
    #[must_use]
    pub fn counters(&self) -> &'a [AtomicU64] {
        self.counters
    }

    /// Adds to a counter from [`crate::Env::counter`]. It has one writer, so this is a load and a store.
    #[inline]
    pub fn count(&self, counter: Counter, n: u64) {
        if let Some(c) = self.counters.get(counter.0 as usize) {
            c.store(c.load(Relaxed).wrapping_add(n), Relaxed);
        }
    }

    /// Sets a counter that shows a level, such as the entries in a table ([`crate::Env::level`]).
    #[inline]
    pub fn set(&self, counter: Counter, value: u64) {
        if let Some(c) = self.counters.get(counter.0 as usize) {
            c.store(value, Relaxed);
        }
    }

    /// Reserves a place for a packet that is to be kept: give that packet [`Verdict::hold`] with the id.
    /// `None` when the host has no place left; give another verdict then.
    pub fn hold(&mut self) -> Option<HoldId> {
        self.holds.reserve()
    }

    /// Looks at or changes a held packet; `false` if none is held under `id`.
    pub fn with_held(&mut self, id: HoldId, mut f: impl FnMut(&mut Packet<'_>)) -> bool {
        self.holds.with(id, &mut f)
    }

    /// Ends the holding: the packet goes on with `verdict`. `false` if none is held under `id`.
    pub fn release(&mut self, id: HoldId, verdict: Verdict) -> bool {
        self.holds.release(id, verdict)
    }

    /// Appends `parts`, one after the other and never torn apart, to a file. They are copied; the file gets them with
    /// the next batch. When they are there, or could not be put there, [`crate::Nf::completed`] is called with
    /// `context`. Writes without one are told of together, once a batch.
    ///
    /// # Errors
    /// When the host does not take them. [`Refused::Full`] does not happen to an NF that keeps to its
    /// [`crate::FileSpec::packet_bytes`] in `process`.
    #[inline]
    pub fn write(&mut self, file: File, parts: &[&[u8]], context: Option<u64>) -> Result<(), Refused> {
        self.storage.as_mut().map_or(Err(Refused::Absent), |s| s.write(file, parts, context))
    }

    /// Reads up to `len` bytes from `offset` on; [`crate::Nf::completed`] gets them with `context`.
    ///
    /// # Errors
    /// When the host does not take the request.
    pub fn read(&mut self, file: File, offset: u64, len: u32, context: u64) -> Result<(), Refused> {
        self.storage.as_mut().map_or(Err(Refused::Absent), |s| s.read(file, offset, len, context))
    }

    /// Does not wait for the batch to be full or old enough.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn flush(&mut self, file: File) -> Result<(), Refused> {
        self.storage.as_mut().map_or(Err(Refused::Absent), |s| s.flush(file))
    }
}

/// A named counter that the NF declared with [`crate::Env::counter`]; an index in the order of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counter(pub(crate) u32);

impl Counter {
    /// The counter `n` places after this one, for counters declared in a row (one for each rule, say).
    #[must_use]
    pub const fn nth(self, n: u32) -> Self {
        Self(self.0 + n)
    }
}
