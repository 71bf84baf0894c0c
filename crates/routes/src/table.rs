//! The tables, and the destinations of a burst that wait for their look-up.

use crate::Routes;
use chainline_dpdk::tables::{Fib4, Fib6, FibError, NONE};
use chainline_nf::MAX_BURST;

/// Destinations of one IP version that wait for their look-up, each with its place in the burst and something that the
/// NF wants to know again afterwards.
#[derive(Debug)]
pub struct Pending<A, X> {
    /// Destinations.
    pub dst: [A; MAX_BURST],
    /// Places in the burst.
    pub at: [u8; MAX_BURST],
    /// What the NF noted.
    pub note: [X; MAX_BURST],
    /// What was found, or [`NONE`].
    pub hop: [u32; MAX_BURST],
    /// How many there are.
    pub len: usize,
}

const _: () = assert!(MAX_BURST <= 256, "places in a burst are bytes");

impl<A: Copy, X: Copy> Pending<A, X> {
    /// None yet.
    #[must_use]
    pub fn new(dst: A, note: X) -> Self {
        Self { dst: [dst; MAX_BURST], at: [0; MAX_BURST], note: [note; MAX_BURST], hop: [0; MAX_BURST], len: 0 }
    }

    /// Adds one; more than a burst has are left out.
    #[inline]
    pub fn push(&mut self, at: usize, note: X, dst: A) {
        let n = self.len;
        if n < MAX_BURST {
            (self.dst[n], self.at[n], self.note[n]) = (dst, at as u8, note);
            self.len += 1;
        }
    }
}

/// Tables of both versions.
#[derive(Debug)]
pub struct Tables {
    // Absent without routes of the version: an empty table would take 64 MiB.
    v4: Option<Fib4>,
    v6: Option<Fib6>,
}

impl Tables {
    /// Fills tables from sorted routes, whose hops are numbers up to `largest`.
    ///
    /// # Errors
    /// What the library refuses.
    pub fn new(routes: &Routes, largest: usize) -> Result<Self, FibError> {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let largest = count(largest);
        let v4 = if routes.v4.is_empty() {
            None
        } else {
            let mut fib = Fib4::for_next_hops(count(routes.v4.len()), routes.v4_tbl8s() + 1, largest)?;
            routes.v4.iter().try_for_each(|r| fib.add(r.bits, r.depth, r.hop))?;
            Some(fib)
        };
        let v6 = if routes.v6.is_empty() {
            None
        } else {
            let mut fib = Fib6::for_next_hops(count(routes.v6.len()), routes.v6_tbl8s() + 1, largest)?;
            routes.v6.iter().try_for_each(|r| fib.add(r.bits.to_be_bytes(), r.depth, r.hop))?;
            Some(fib)
        };
        Ok(Self { v4, v6 })
    }

    /// Looks the pending packets' hops up.
    #[inline]
    pub fn look_up<X>(&self, p4: &mut Pending<u32, X>, p6: &mut Pending<[u8; 16], X>) {
        match &self.v4 {
            Some(fib) => fib.lookup_bulk(&p4.dst[..p4.len], &mut p4.hop[..p4.len]),
            None => p4.hop[..p4.len].fill(NONE),
        }
        match &self.v6 {
            Some(fib) if p6.len > 0 => fib.lookup_bulk(&p6.dst[..p6.len], &mut p6.hop[..p6.len]),
            Some(_) => {}
            None => p6.hop[..p6.len].fill(NONE),
        }
    }

    /// The hop of one IPv4 address, or [`NONE`].
    #[must_use]
    pub fn hop4(&self, address: u32) -> u32 {
        let mut hop = [NONE];
        if let Some(fib) = &self.v4 {
            fib.lookup_bulk(&[address], &mut hop);
        }
        hop[0]
    }

    /// The hop of one IPv6 address, or [`NONE`].
    #[must_use]
    pub fn hop6(&self, address: [u8; 16]) -> u32 {
        let mut hop = [NONE];
        if let Some(fib) = &self.v6 {
            fib.lookup_bulk(&[address], &mut hop);
        }
        hop[0]
    }
}
