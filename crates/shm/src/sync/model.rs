//! The same for loom: its atomics and its fence; a futex made of its mutex and condition variable, in which nobody wakes
//! by a time-out, so that a lost wake-up is a deadlock; and memory that is the heap.

use super::Side;
use crate::mapping::MapError;
use crate::ring::Header;
pub use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::sync::atomic::{Ordering, fence};
use loom::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// A side whose fence is left out: 0 for none. Loom runs all threads of a model on one thread of the kernel's.
static OMITTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Leaves out the fences of a side from now on.
pub fn omit(side: Option<Side>) {
    OMITTED.store(side.map_or(0, |s| s as u8 + 1), std::sync::atomic::Ordering::SeqCst);
}

/// A full fence, unless it is left out.
pub fn full_fence(side: Side) {
    if OMITTED.load(std::sync::atomic::Ordering::SeqCst) != side as u8 + 1 {
        fence(Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct Futex {
    word: AtomicU32,
    /// The kernel's lock of the futex: it looks at the word and puts the caller to sleep under it.
    lock: Mutex<()>,
    sleeper: Condvar,
}

/// The memory of a bell.
#[derive(Clone, Debug)]
pub struct BellMemory(Arc<Futex>);

impl BellMemory {
    pub fn create() -> Result<Self, MapError> {
        let futex = Futex { word: AtomicU32::new(0), lock: Mutex::new(()), sleeper: Condvar::new() };
        Ok(Self(Arc::new(futex)))
    }

    pub fn word(&self) -> &AtomicU32 {
        &self.0.word
    }

    /// Sleeps for ever if nobody wakes it.
    pub fn wait(&self, expected: u32, _: Duration) {
        let guard = self.0.lock.lock().expect("no thread of a model panics with it");
        if self.0.word.load(Ordering::Relaxed) == expected {
            drop(self.0.sleeper.wait(guard));
        }
    }

    pub fn wake(&self) {
        let _guard = self.0.lock.lock().expect("no thread of a model panics with it");
        self.0.sleeper.notify_one();
    }
}

/// The memory of a queue.
#[derive(Clone, Debug)]
pub struct RingMemory(Arc<(Header, Vec<(AtomicU64, AtomicU64)>)>);

impl RingMemory {
    pub const fn bytes(capacity: u32) -> usize {
        capacity as usize
    }

    pub fn create(capacity: u32) -> Result<Self, MapError> {
        let slots = (0..capacity).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect();
        Ok(Self(Arc::new((Header::default(), slots))))
    }

    pub fn header(&self) -> &Header {
        &self.0.0
    }

    pub fn slot(&self, place: u32) -> (&AtomicU64, &AtomicU64) {
        let slot = &self.0.1[place as usize];
        (&slot.0, &slot.1)
    }
}
