//! What the data path shows of the chains, which is the one thing that the control loop cannot read from pages and
//! queues; and what it advises the data path in return.

use chainline_sched::pressure::Progress;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// One chain. Written by the data path's thread alone, once a sweep and never for a packet.
#[repr(align(64))]
#[derive(Debug, Default)]
pub struct ChainGauge {
    received: AtomicU64,
    shed: AtomicU64,
    inside: AtomicU64,
    at_ns: AtomicU64,
    /// The other direction.
    pub advice: Arc<Advice>,
}

impl ChainGauge {
    /// Packets that the classifier gave to the chain so far, those that were shed among them.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Packets that were shed at the entry so far.
    pub fn shed(&self) -> u64 {
        self.shed.load(Relaxed)
    }

    /// How far the chain got. The numbers may be of two showings that follow each other.
    pub fn progress(&self) -> Progress {
        let (at_ns, inside) = (self.at_ns.load(Relaxed), self.inside.load(Relaxed));
        Progress { at_ns, inside, left: self.received().saturating_sub(self.shed()).saturating_sub(inside) }
    }

    /// Shows the numbers now.
    pub fn show(&self, received: u64, shed: u64, inside: u64, at_ns: u64) {
        self.received.store(received, Relaxed);
        self.shed.store(shed, Relaxed);
        self.inside.store(inside, Relaxed);
        self.at_ns.store(at_ns, Relaxed);
    }
}

/// What the control loop advises about one chain. Written by its thread alone, and read by the data path's once a burst.
#[repr(align(64))]
#[derive(Debug)]
pub struct Advice {
    limit: AtomicU64,
    mark: AtomicBool,
}

impl Default for Advice {
    fn default() -> Self {
        Self { limit: AtomicU64::new(u64::MAX), mark: AtomicBool::new(false) }
    }
}

impl Advice {
    /// Packets that may be inside; 0 while a queue of the chain is overloaded.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Whether its packets are to be marked "congestion experienced".
    #[inline]
    pub fn marks(&self) -> bool {
        self.mark.load(Relaxed)
    }

    /// Advises.
    pub fn set(&self, limit: u64, mark: bool) {
        self.limit.store(limit, Relaxed);
        self.mark.store(mark, Relaxed);
    }
}
