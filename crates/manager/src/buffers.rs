//! Who holds which buffer. This is the manager's private knowledge: no other process can write it, so what comes
//! back from an NF is checked against it (D2).

use chainline_dpdk::FreeList;
use chainline_shm::{BufId, Desc, Region, Slots, region::Loan};
use std::collections::HashSet;
use std::rc::Rc;

/// What the manager knows of a buffer while a packet is in it. Four to a cache line.
#[derive(Clone, Copy, Debug, Default)]
struct Meta {
    /// When the packet was received, or was to be sent: ticks.
    received: u64,
    /// The chain that admitted it.
    chain: u16,
    /// Generation of the allocation.
    generation: u8,
    /// Whether it is inside a chain.
    inside: bool,
}

/// Why a descriptor was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It points outside of the region or of the buffer.
    OutOfBounds,
    /// That packet is not inside a chain: the descriptor came twice, or was made up.
    NotInside,
    /// That packet is inside a chain whose packets never come this way.
    NotTheirs,
}

/// The buffers of one tenant.
pub struct Buffers {
    slots: Slots,
    free: Rc<FreeList>,
    metas: Box<[Meta]>,
}

impl Buffers {
    /// All of `region`'s buffers, free.
    #[must_use]
    pub fn new(region: Region) -> Self {
        let count = region.count();
        Self {
            slots: Slots::new(region),
            free: Rc::new(FreeList::new(count)),
            metas: vec![Meta::default(); count as usize].into_boxed_slice(),
        }
    }

    /// The region.
    #[must_use]
    pub fn region(&self) -> &Region {
        self.slots.region()
    }

    /// The list of free buffers, for a DPDK pool over the same region.
    #[must_use]
    pub fn free_list(&self) -> &Rc<FreeList> {
        &self.free
    }

    /// Takes as many free buffers as `out` has places; all or none.
    #[inline]
    pub fn alloc(&self, out: &mut [u32]) -> bool {
        self.free.pop_bulk(out)
    }

    /// Gives buffers back that are not inside a chain.
    #[inline]
    pub fn release(&self, indexes: &[u32]) {
        self.free.push_bulk(indexes);
    }

    /// Opens buffers for writing: for ports that make packets.
    #[inline]
    pub fn open(&mut self) -> Loan<'_> {
        self.slots.open()
    }

    /// A packet enters `chain`. Returns the name under which it travels.
    #[inline]
    pub fn admit(&mut self, index: u32, chain: u16, received: u64) -> BufId {
        let m = &mut self.metas[index as usize];
        let generation = m.generation.wrapping_add(1);
        *m = Meta { received, chain, generation, inside: true };
        BufId::new(index, generation)
    }

    /// A packet comes out. Returns the chain that admitted it and when it was received.
    ///
    /// # Errors
    /// If the descriptor is not that of a packet inside; nothing changes then.
    #[inline]
    pub fn claim(&mut self, desc: Desc) -> Result<(u16, u64), Refused> {
        self.claim_from(desc, |_| true)
    }

    /// As [`Buffers::claim`], for a place to which only packets come whose chain `may_come`.
    ///
    /// # Errors
    /// As [`Buffers::claim`], and for a packet of another chain.
    #[inline]
    pub fn claim_from(&mut self, desc: Desc, may_come: impl Fn(u16) -> bool) -> Result<(u16, u64), Refused> {
        if !self.slots.region().contains(desc) {
            return Err(Refused::OutOfBounds);
        }
        let m = &mut self.metas[desc.buf.index() as usize];
        if !m.inside || m.generation != desc.buf.generation() {
            return Err(Refused::NotInside);
        }
        if !may_come(m.chain) {
            return Err(Refused::NotTheirs);
        }
        m.inside = false;
        Ok((m.chain, m.received))
    }

    /// Claims every packet that one of `chains` admitted and `spare` does not name; calls `found` with the chain
    /// of each and when it was received. For the audit: the caller knows that no queue and no instance has them.
    pub fn claim_lost(&mut self, chains: &[bool], spare: &HashSet<BufId>, mut found: impl FnMut(u16, u64)) {
        for (i, m) in self.metas.iter_mut().enumerate() {
            let concerned = m.inside && chains.get(usize::from(m.chain)) == Some(&true);
            if concerned && !spare.contains(&BufId::new(i as u32, m.generation)) {
                m.inside = false;
                self.free.push_bulk(&[i as u32]);
                found(m.chain, m.received);
            }
        }
    }

    /// Packets inside, counted one by one: must equal what the counters say.
    #[must_use]
    pub fn count_inside(&self) -> u64 {
        self.count_inside_if(|_| true)
    }

    /// Of these, the ones whose time of receipt is one of `those`.
    #[must_use]
    pub fn count_inside_if(&self, those: impl Fn(u64) -> bool) -> u64 {
        self.metas.iter().filter(|m| m.inside && those(m.received)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_good_once() {
        let mut b = Buffers::new(Region::create(16, 64).unwrap());
        let mut i = [0];
        assert!(b.alloc(&mut i));
        let buf = b.admit(i[0], 3, 77);
        let desc = Desc { buf, off: 128, len: 60, ..Desc::default() };
        assert_eq!(b.claim(Desc { off: 1000, ..desc }), Err(Refused::OutOfBounds));
        assert_eq!(b.claim(desc), Ok((3, 77)));
        assert_eq!(b.claim(desc), Err(Refused::NotInside));
        let again = b.admit(i[0], 3, 78);
        assert_eq!(b.claim(desc), Err(Refused::NotInside), "an old descriptor of a buffer that is in use again");
        assert_eq!(b.claim(Desc { buf: again, ..desc }), Ok((3, 78)));
        assert_eq!((b.count_inside(), b.free_list().len()), (0, 15));
    }

    #[test]
    fn a_packet_of_another_chain_stays_where_it_is() {
        let mut b = Buffers::new(Region::create(16, 64).unwrap());
        let mut i = [0];
        assert!(b.alloc(&mut i));
        let desc = Desc { buf: b.admit(i[0], 3, 77), off: 128, len: 60, ..Desc::default() };
        assert_eq!(b.claim_from(desc, |c| c == 2), Err(Refused::NotTheirs));
        assert_eq!(b.claim_from(desc, |c| c == 3), Ok((3, 77)));
    }

    #[test]
    fn lost_packets_come_back() {
        let mut b = Buffers::new(Region::create(16, 64).unwrap());
        let mut i = [0; 4];
        assert!(b.alloc(&mut i));
        let spare = b.admit(i[0], 0, 0);
        (1..4).for_each(|k| {
            b.admit(i[k], k as u16 % 2, 0);
        });
        let mut chains = Vec::new();
        // An old name of a packet that is lost spares nothing.
        let old = BufId::new(i[2], 0);
        b.claim_lost(&[true, false], &HashSet::from([spare, old]), |c, _| chains.push(c));
        assert_eq!((chains, b.count_inside(), b.free_list().len()), (vec![0], 3, 13));
    }
}
