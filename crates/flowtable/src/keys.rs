//! The keys of a burst, and what keys are made of.

use chainline_nf::MAX_BURST;
use chainline_packet::{FiveTuple, Layers, ipv6};

/// Keys of the burst at hand, with the places of their packets and what was found. One such value serves one table; it
/// lives as long as the NF.
#[derive(Debug)]
pub struct Keys<const N: usize> {
    pub(crate) keys: Box<[[u8; N]; MAX_BURST]>,
    pub(crate) found: Box<[i32; MAX_BURST]>,
    at: Box<[u8; MAX_BURST]>,
    len: usize,
    /// The table's counts of insertions and removals when it was asked.
    pub(crate) asked: (u64, u64),
}

const _: () = assert!(MAX_BURST <= 256, "places in a burst are bytes");

impl<const N: usize> Default for Keys<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Keys<N> {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            keys: Box::new([[0; N]; MAX_BURST]),
            found: Box::new([-1; MAX_BURST]),
            at: Box::new([0; MAX_BURST]),
            len: 0,
            asked: (0, 0),
        }
    }

    /// For the next burst.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds the key of the packet at place `at` of its burst. More than [`MAX_BURST`] are not taken.
    #[inline]
    pub fn push(&mut self, at: usize, key: [u8; N]) {
        if let (Some(k), Some(a), Some(f)) =
            (self.keys.get_mut(self.len), self.at.get_mut(self.len), self.found.get_mut(self.len))
        {
            // Absent until it was looked up.
            (*k, *a, *f) = (key, at as u8, -1);
            self.len += 1;
        }
    }

    /// How many.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Key `i`.
    #[inline]
    #[must_use]
    pub fn key(&self, i: usize) -> &[u8; N] {
        &self.keys[i]
    }

    /// The place of key `i`'s packet in its burst.
    #[inline]
    #[must_use]
    pub fn at(&self, i: usize) -> usize {
        usize::from(self.at[i])
    }
}

/// An IPv4 flow: source, destination, ports, protocol, version, two zeros.
#[inline]
#[must_use]
pub fn v4_key(flow: &FiveTuple) -> [u8; 16] {
    flow.to_v4_key()
}

/// A flow of either IP version: the 40 bytes of [`FiveTuple::to_bytes`], and zeros up to a length that `rte_hash`
/// compares without a loop.
#[inline]
#[must_use]
pub fn v6_key(flow: &FiveTuple) -> [u8; 48] {
    let mut key = [0; 48];
    key[..40].copy_from_slice(&flow.to_bytes());
    key
}

/// The source host, IPv4 as `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2), which no IPv6 packet may carry as its source.
#[inline]
#[must_use]
pub fn host_key(flow: &FiveTuple) -> [u8; 16] {
    match flow.version() {
        4 => (u128::from_le_bytes(flow.src_bytes()) << 96 | 0xffff << 80).to_le_bytes(),
        _ => flow.src_bytes(),
    }
}

/// What the fragments of a datagram have in common (RFC 791 §3.2, RFC 8200 §4.5): addresses, protocol, identification.
/// `None` if the packet is no fragment that [`chainline_packet::parse`] could follow.
#[must_use]
pub fn datagram_key(data: &[u8], layers: &Layers) -> Option<[u8; 48]> {
    let l3 = usize::from(layers.l3);
    let id: [u8; 4] = if layers.tuple.version() == 4 {
        let field: [u8; 2] = *data.get(l3 + 4..)?.first_chunk()?;
        [0, 0, field[0], field[1]]
    } else {
        let head: &[u8; 40] = data.get(l3..)?.first_chunk()?;
        let datagram = data.get(..usize::from(layers.end))?;
        let upper = ipv6::upper_layer(datagram, l3 + 40, head[6]).ok()?;
        *data.get(upper.fragment_part.checked_sub(4)?..)?.first_chunk()?
    };
    let mut key = v6_key(&layers.tuple);
    // In place of ports, which only the first has.
    key[32..36].copy_from_slice(&id);
    Some(key)
}
