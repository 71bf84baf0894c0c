//! External addresses and their ports: which are taken, by whom, and which comes next.
//!
//! Each address has a space of ports for TCP and for UDP and one of ICMP's identifiers (RFC 4787 §4.2.1, RFC 5508 §3.1).
//! A port stays the host's own where it is free. Otherwise it is drawn at random (RFC 6056 §3.3), with the parity of
//! the host's port as long as there is such a one (RFC 4787 §4.2.2).

use crate::config::{Addresses, Ports};

/// Spaces of ports.
pub(crate) const SPACES: usize = 3;
/// Words of a bitmap of 65,536.
const WORDS: usize = 1024;
/// Even ports; shifted by one, odd ones.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// What belongs to a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owner {
    /// The position of the mapping that has it, plus 1; 0 is nobody.
    pub mapping: u32,
    /// Flows that use it besides, each towards an endpoint of its own.
    pub shared: u32,
}

/// Where a port is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub from: u16,
    pub to: u16,
}

impl Area {
    fn has(self, port: u16) -> bool {
        (self.from..=self.to).contains(&port)
    }

    fn len(self) -> u32 {
        u32::from(self.to) - u32::from(self.from) + 1
    }
}

/// All addresses.
#[derive(Debug)]
pub(crate) struct Pool {
    addresses: Addresses,
    ports: Area,
    /// Ports of a block; 0: there are no blocks.
    block: u16,
    /// Bit 1: taken. By address, space, port.
    taken: Vec<u64>,
    /// By address and space.
    free: Vec<u32>,
    /// Bit 1: the block is somebody's. By address.
    blocks: Vec<[u64; WORDS / 64]>,
    free_blocks: Vec<u32>,
    /// By address.
    subscribers: Vec<u32>,
    /// By address, space, port, as in [`Owner`].
    mappings: Vec<u32>,
    shared: Vec<u32>,
    random: u64,
}

/// The smallest block, so that the blocks of an address fit into their bitmap.
pub(crate) const MIN_BLOCK: u16 = 64;

impl Pool {
    /// Nothing is taken. `block` is 0 or [`MIN_BLOCK`] and more.
    pub fn new(addresses: Addresses, ports: Ports, block: u16, seed: u64) -> Self {
        let n = addresses.len() as usize;
        let ports = Area { from: ports.from, to: ports.to };
        let count = if block == 0 { 0 } else { ports.len() / u32::from(block) };
        Self {
            addresses,
            ports,
            block,
            taken: vec![0; n * SPACES * WORDS],
            free: vec![ports.len(); n * SPACES],
            blocks: vec![[0; WORDS / 64]; n],
            free_blocks: vec![count; n],
            subscribers: vec![0; n],
            // Zeros: the kernel gives a page when its first port is used.
            mappings: vec![0; (n * SPACES) << 16],
            shared: vec![0; (n * SPACES) << 16],
            random: seed | 1,
        }
    }

    /// Which address this is, if it is one of the pool's.
    #[inline]
    pub fn index_of(&self, address: u32) -> Option<u32> {
        self.addresses.index_of(address)
    }

    pub fn address(&self, index: u32) -> u32 {
        self.addresses.at(index)
    }

    pub fn len(&self) -> u32 {
        self.addresses.len()
    }

    /// Where ports may be, without blocks.
    pub fn ports(&self) -> Area {
        self.ports
    }

    /// The ports of a block.
    pub fn area(&self, block: u16) -> Area {
        let from = u32::from(self.ports.from) + u32::from(block) * u32::from(self.block);
        let to = from + u32::from(self.block) - 1;
        Area { from: from.min(65_535) as u16, to: to.min(65_535) as u16 }
    }

    pub fn owner(&self, index: u32, space: u8, port: u16) -> Owner {
        let at = (at(index, space) << 16) | usize::from(port);
        let (mapping, shared) = (self.mappings.get(at), self.shared.get(at));
        Owner { mapping: mapping.copied().unwrap_or(0), shared: shared.copied().unwrap_or(0) }
    }

    pub fn set_owner(&mut self, index: u32, space: u8, port: u16, owner: Owner) {
        let at = (at(index, space) << 16) | usize::from(port);
        if let (Some(mapping), Some(shared)) = (self.mappings.get_mut(at), self.shared.get_mut(at)) {
            (*mapping, *shared) = (owner.mapping, owner.shared);
        }
    }

    /// Free ports of an address.
    pub fn free(&self, index: u32, space: u8) -> u32 {
        self.free.get(at(index, space)).copied().unwrap_or(0)
    }

    pub fn subscribers(&self, index: u32) -> u32 {
        self.subscribers.get(index as usize).copied().unwrap_or(0)
    }

    /// The address for a new subscriber: the one with most to give, and of these the one with fewest subscribers.
    pub fn choose(&self, space: u8) -> Option<u32> {
        let left = |i: u32| if self.block == 0 { self.free(i, space) } else { self.free_blocks[i as usize] };
        let best = (0..self.len()).max_by_key(|i| (left(*i), u32::MAX - self.subscribers(*i)))?;
        (left(best) > 0).then_some(best)
    }

    /// The address with the fewest subscribers.
    pub fn least_crowded(&self) -> u32 {
        (0..self.len()).min_by_key(|i| self.subscribers(*i)).unwrap_or(0)
    }

    pub fn join(&mut self, index: u32) {
        if let Some(n) = self.subscribers.get_mut(index as usize) {
            *n += 1;
        }
    }

    pub fn leave(&mut self, index: u32) {
        if let Some(n) = self.subscribers.get_mut(index as usize) {
            *n = n.saturating_sub(1);
        }
    }

    /// Takes a port of an area, best `want`.
    pub fn take(&mut self, index: u32, space: u8, area: Area, want: u16) -> Option<u16> {
        if self.free(index, space) == 0 {
            return None;
        }
        let start = self.draw(area);
        let base = at(index, space) * WORDS;
        let words = self.taken.get_mut(base..base + WORDS)?;
        let parity = EVEN << (want & 1);
        let found = (area.has(want) && is_free(words, want))
            .then_some(want)
            .or_else(|| search(words, area, start, parity))
            .or_else(|| search(words, area, start, !parity))?;
        words[usize::from(found) / 64] |= 1 << (found % 64);
        self.free[at(index, space)] -= 1;
        Some(found)
    }

    /// Makes a port somebody's, whether it is already or not.
    pub fn hold(&mut self, index: u32, space: u8, port: u16) {
        let place = at(index, space) * WORDS + usize::from(port) / 64;
        if let Some(word) = self.taken.get_mut(place).filter(|w| **w >> (port % 64) & 1 == 0) {
            *word |= 1 << (port % 64);
            self.free[at(index, space)] -= 1;
        }
    }

    /// Gives a port back, unless somebody uses it still.
    pub fn release(&mut self, index: u32, space: u8, port: u16) {
        let owner = self.owner(index, space, port);
        let place = at(index, space) * WORDS + usize::from(port) / 64;
        if owner.mapping != 0 || owner.shared != 0 {
            return;
        }
        if let Some(word) = self.taken.get_mut(place).filter(|w| **w >> (port % 64) & 1 == 1) {
            *word &= !(1 << (port % 64));
            self.free[at(index, space)] += 1;
        }
    }

    /// Takes a block of ports.
    pub fn take_block(&mut self, index: u32) -> Option<u16> {
        if self.block == 0 || *self.free_blocks.get(index as usize)? == 0 {
            return None;
        }
        let count = (self.ports.len() / u32::from(self.block)) as u16;
        let area = Area { from: 0, to: count - 1 };
        let start = self.draw(area);
        let words = self.blocks.get_mut(index as usize)?;
        let found = search(words, area, start, u64::MAX)?;
        words[usize::from(found) / 64] |= 1 << (found % 64);
        self.free_blocks[index as usize] -= 1;
        Some(found)
    }

    pub fn release_block(&mut self, index: u32, block: u16) {
        if let Some(words) = self.blocks.get_mut(index as usize)
            && let Some(word) = words.get_mut(usize::from(block) / 64).filter(|w| **w >> (block % 64) & 1 == 1)
        {
            *word &= !(1 << (block % 64));
            self.free_blocks[index as usize] += 1;
        }
    }

    /// A port of an area at random: xorshift64*, Vigna 2016.
    pub fn draw(&mut self, area: Area) -> u16 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let high = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        // The upper half of a product is below the area's length.
        area.from + ((high * u64::from(area.len())) >> 32) as u16
    }
}

#[inline]
fn at(index: u32, space: u8) -> usize {
    index as usize * SPACES + usize::from(space)
}

fn is_free(words: &[u64], port: u16) -> bool {
    words.get(usize::from(port) / 64).is_some_and(|w| w >> (port % 64) & 1 == 0)
}

/// The first free port from `start` on, and around; `mask` tells which of each 64 count.
fn search(words: &[u64], area: Area, start: u16, mask: u64) -> Option<u16> {
    let before = || start.checked_sub(1).and_then(|to| first(words, area.from, to, mask));
    first(words, start, area.to, mask).or_else(before)
}

fn first(words: &[u64], from: u16, to: u16, mask: u64) -> Option<u16> {
    let mut part = u64::MAX << (from % 64);
    for at in from / 64..=to / 64 {
        let free = !words.get(usize::from(at))? & mask & part;
        if free != 0 && from <= to {
            let port = at * 64 + free.trailing_zeros() as u16;
            return (port <= to).then_some(port);
        }
        part = u64::MAX;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn pool(from: u16, to: u16, block: u16) -> Pool {
        let addresses = Addresses::parse(&["192.0.2.1-192.0.2.3".into()], "pool").unwrap();
        Pool::new(addresses, Ports { from, to }, block, 7)
    }

    #[test]
    fn every_port_is_given_once_and_parity_as_long_as_it_can_be() {
        let mut pool = pool(1000, 65_535, 0);
        let mut seen = BTreeSet::new();
        let n = 65_536 - 1000;
        for i in 0..n {
            let port = pool.take(1, 0, pool.ports(), 7).unwrap();
            assert!(port >= 1000 && seen.insert(port));
            assert_eq!(port % 2 == 1, i < n / 2, "{i}");
        }
        assert_eq!(pool.take(1, 0, pool.ports(), 7), None);
        // Other spaces and addresses have theirs.
        assert_eq!(pool.take(1, 1, pool.ports(), 2000), Some(2000));
        assert_eq!(pool.take(2, 0, pool.ports(), 2000), Some(2000));
        pool.release(1, 0, 4242);
        assert_eq!(pool.take(1, 0, pool.ports(), 7), Some(4242));
    }

    #[test]
    fn blocks_are_apart() {
        let mut pool = pool(1024, 2047, 100);
        let mut blocks: Vec<u16> = std::iter::from_fn(|| pool.take_block(0)).collect();
        blocks.sort_unstable();
        assert_eq!(blocks, (0..10).collect::<Vec<_>>());
        assert_eq!((pool.area(0), pool.area(9)), (Area { from: 1024, to: 1123 }, Area { from: 1924, to: 2023 }));
        assert_eq!(pool.choose(0), Some(2));
        pool.release_block(0, 4);
        pool.release_block(0, 4);
        assert_eq!((pool.take_block(0), pool.take_block(0)), (Some(4), None));
    }

    proptest! {
        #[test]
        fn as_a_set_does_it(from in 0u16..300, len in 0u16..200, steps in prop::collection::vec((0u16..600, any::<bool>()), 1..400)) {
            let mut pool = pool(from, from + len, 0);
            let mut model = BTreeSet::new();
            for (port, take) in steps {
                if take {
                    let got = pool.take(0, 2, pool.ports(), port);
                    prop_assert_eq!(got.is_none(), model.len() == usize::from(len) + 1);
                    if let Some(got) = got {
                        prop_assert!((from..=from + len).contains(&got));
                        let wanted = (from..=from + len).contains(&port) && !model.contains(&port);
                        prop_assert!(!wanted || got == port);
                        let parity = (from..=from + len).any(|p| p % 2 == port % 2 && !model.contains(&p));
                        prop_assert!(!parity || got % 2 == port % 2);
                        prop_assert!(model.insert(got));
                    }
                } else {
                    pool.release(0, 2, port);
                    model.remove(&port);
                }
                prop_assert_eq!(pool.free(0, 2) as usize, usize::from(len) + 1 - model.len());
            }
        }
    }
}
