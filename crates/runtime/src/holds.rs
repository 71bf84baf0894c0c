//! Packets that NFs keep beyond a burst.

use chainline_nf::{HoldId, Holds, Packet, PacketMeta, Verdict};
use chainline_shm::region::{Kept, Slots};
use chainline_shm::{Desc, Page};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Where a held packet came from, to go on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub inlet: usize,
    pub stage: usize,
}

enum Place {
    Free,
    /// An NF asked for it during the present call.
    Reserved,
    /// The verdict of this NF said hold; the loan of the burst still runs.
    Entering(Desc, Origin, usize),
    Held(Kept, Origin),
}

/// The places, and the packets on their way out.
pub(crate) struct HoldTable {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Ids reserved or entered since the last [`HoldTable::settle`].
    fresh: Vec<u32>,
    released: VecDeque<(Kept, Origin, Verdict)>,
    /// Shows the manager what is held, so that it comes back if this instance dies.
    page: Arc<Page>,
}

impl HoldTable {
    pub fn new(places: usize, page: Arc<Page>) -> Self {
        Self {
            places: (0..places).map(|_| Place::Free).collect(),
            free: (0..places as u32).rev().collect(),
            fresh: Vec::with_capacity(places),
            released: VecDeque::with_capacity(places),
            page,
        }
    }

    /// A packet got the verdict hold under `id`; `false` if the NF never reserved that.
    pub fn enter(&mut self, id: u32, desc: Desc, origin: Origin, nf: usize) -> bool {
        match self.places.get_mut(id as usize) {
            Some(place @ Place::Reserved) => {
                *place = Place::Entering(desc, origin, nf);
                true
            }
            _ => false,
        }
    }

    /// After a call of an NF, when no loan is open: reservations that were not used end, entered packets are kept.
    pub fn settle(&mut self, slots: &mut Slots) {
        while let Some(id) = self.fresh.pop() {
            let place = &mut self.places[id as usize];
            match std::mem::replace(place, Place::Free) {
                Place::Entering(desc, origin, nf) => match slots.keep(desc) {
                    Some(kept) => {
                        *place = Place::Held(kept, origin);
                        self.show(id, desc.to_words());
                        // In this order: who reads the count before the places finds there whatever was counted.
                        let count = &self.page.nf(nf).held;
                        count.store(count.load(Relaxed).wrapping_add(1), Release);
                    }
                    None => self.free.push(id),
                },
                Place::Reserved => self.free.push(id),
                other => *place = other,
            }
        }
    }

    fn show(&self, id: u32, words: (u64, u64)) {
        let shared = self.page.holds();
        shared[id as usize * 2].store(words.0, Relaxed);
        shared[id as usize * 2 + 1].store(words.1, Relaxed);
    }

    /// The next packet that was released.
    pub fn next_released(&mut self) -> Option<(Kept, Origin, Verdict)> {
        self.released.pop_front()
    }

    /// Where the next released packet came from.
    pub fn peek_released(&self) -> Option<Origin> {
        self.released.front().map(|r| r.1)
    }

    /// Packets released and not yet handed on.
    pub fn released(&self) -> usize {
        self.released.len()
    }

    /// Packets that can be held, those that are still to be handed on being counted as if they were held.
    pub fn room(&self) -> u32 {
        self.free.len().saturating_sub(self.released.len()) as u32
    }

    /// Packets held.
    pub fn held(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl Holds for HoldTable {
    fn reserve(&mut self) -> Option<HoldId> {
        let id = self.free.pop()?;
        self.places[id as usize] = Place::Reserved;
        self.fresh.push(id);
        Some(HoldId::from_bits(id))
    }

    fn with(&mut self, id: HoldId, f: &mut dyn FnMut(&mut Packet<'_>)) -> bool {
        let Some(Place::Held(kept, _)) = self.places.get_mut(id.to_bits() as usize) else { return false };
        let d = kept.desc();
        let meta = PacketMeta { chain: d.chain, hop: d.hop, flow_hash: d.hash };
        let Some(mut packet) = Packet::new(kept.bytes(), d.off, d.len, meta) else { return false };
        f(&mut packet);
        let (off, len) = (packet.offset(), packet.len() as u16);
        kept.set_frame(off, len)
    }

    fn release(&mut self, id: HoldId, verdict: Verdict) -> bool {
        let Some(place) = self.places.get_mut(id.to_bits() as usize) else { return false };
        match std::mem::replace(place, Place::Free) {
            Place::Held(kept, origin) => {
                self.free.push(id.to_bits());
                self.released.push_back((kept, origin, verdict));
                self.show(id.to_bits(), (0, 0));
                true
            }
            other => {
                *place = other;
                false
            }
        }
    }
}
