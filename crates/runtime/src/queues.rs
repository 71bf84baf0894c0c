//! The queues of an instance as its loop uses them.

use crate::holds::HoldTable;
use crate::setup::StageSetup;
use chainline_shm::{Bell, Consumer, Desc, Producer};
use chainline_storage::Storage;

/// An input queue and what happens to its packets.
pub(crate) struct Inlet {
    pub consumer: Consumer,
    pub producer_bell: Option<Bell>,
    pub chain: u16,
    pub hop: u8,
    /// Packets added to the deficit at each visit.
    pub quantum: u32,
    pub deficit: u32,
    pub stages: Vec<StageSetup>,
    /// Output queue after the last stage; from the number of those on, a split among several.
    pub next: usize,
    /// Every output queue that a packet from here may come to.
    pub outs: Vec<usize>,
    /// Those that must have room before a packet is taken: all of them; without credit the return queue alone.
    pub needs: Vec<usize>,
    /// NFs among the stages that have files, and whether one may hold each packet: these need credit, too.
    pub with_files: Vec<usize>,
    /// See `with_files`.
    pub may_hold: bool,
    /// Ran out of room; goes on when half of the full output queue is free, so that it then runs for long.
    pub blocked: bool,
}

impl Inlet {
    /// Packets that NFs with files have room for.
    #[inline]
    pub fn file_room(&self, storage: &Storage) -> u32 {
        self.with_files.iter().map(|&nf| storage.room(nf)).min().unwrap_or(u32::MAX)
    }

    /// Packets that may be taken as far as files and places to hold them are concerned.
    #[inline]
    pub fn credit(&self, storage: &Storage, holds: &HoldTable) -> u32 {
        let files = self.file_room(storage);
        if self.may_hold { files.min(holds.room()) } else { files }
    }

    /// Whether so many packets wait that they are worth a switch: a burst, or half of a short queue.
    #[inline]
    pub fn has_burst(&mut self, batch: u32) -> bool {
        let burst = batch.min(self.consumer.ring().capacity() / 2).max(1);
        self.consumer.available(burst) >= burst
    }

    /// Wakes a producer that sleeps until there is room, once half of the queue is free.
    #[inline]
    pub fn offer_room(&self) -> bool {
        self.producer_bell.as_ref().is_some_and(|bell| self.consumer.offer_room(bell))
    }
}

/// An output queue and the bell of who empties it.
pub(crate) struct Outlet {
    pub producer: Producer,
    pub bell: Bell,
    /// Packets that are worth waking a sleeping consumer for.
    pub wake_at: u32,
    /// Each packet is: the consumer goes before this instance.
    pub urgent: bool,
    /// The consumer needs the core that this instance runs on.
    pub same_core: bool,
    pub chain: u16,
    pub hop: u8,
}

impl Outlet {
    /// Puts a descriptor in, with chain and hop of this edge.
    #[inline]
    pub fn push(&mut self, mut desc: Desc) {
        (desc.chain, desc.hop) = (self.chain, self.hop);
        self.producer.push(desc);
    }

    /// Shows what was pushed to the consumer and wakes it if that is worth it. Returns whether a call was made.
    #[inline]
    pub fn publish(&mut self) -> bool {
        self.producer.publish_to(&self.bell, self.wake_at, self.urgent)
    }

    /// Whether the consumer was woken and waits for the core that this instance runs on.
    #[inline]
    pub fn keeps_waiting(&self) -> bool {
        self.same_core && !self.bell.is_asleep()
    }

    /// Whether a producer that ran out of room may go on.
    #[inline]
    pub fn has_half_free(&mut self) -> bool {
        self.producer.has_half_free()
    }
}
