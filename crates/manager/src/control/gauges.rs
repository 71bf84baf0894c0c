//! What the data path shows of the chains: the one thing that the control loop cannot read from pages and queues.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// One chain. Written by the data path's thread alone, once a sweep and never for a packet.
#[repr(align(64))]
#[derive(Debug, Default)]
pub struct ChainGauge {
    received: AtomicU64,
    shed: AtomicU64,
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

    /// Shows the numbers now.
    pub fn show(&self, received: u64, shed: u64) {
        self.received.store(received, Relaxed);
        self.shed.store(shed, Relaxed);
    }
}
