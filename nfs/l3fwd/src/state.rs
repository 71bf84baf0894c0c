//! What a running `l3fwd` keeps: the tables, the next hops, and the addresses of the burst at hand.

use crate::config::{Args, NonIp, Rewrite};
use crate::routes::Routes;
use chainline_dpdk::tables::{Fib4, Fib6, FibError, NONE};
use chainline_nf::{Counter, Env, Error, MAX_BURST, Reason, Verdict};

/// Packets of one IP version that wait for their look-up.
pub(crate) struct Pending<A> {
    pub dst: [A; MAX_BURST],
    /// Places in the burst.
    pub at: [u8; MAX_BURST],
    /// Where the layer-3 headers start; at most 22.
    pub l3: [u8; MAX_BURST],
    pub hop: [u32; MAX_BURST],
    pub len: usize,
}

const _: () = assert!(MAX_BURST <= 256, "places in a burst are bytes");

impl<A: Copy> Pending<A> {
    fn new(zero: A) -> Self {
        Self { dst: [zero; MAX_BURST], at: [0; MAX_BURST], l3: [0; MAX_BURST], hop: [0; MAX_BURST], len: 0 }
    }

    #[inline]
    pub fn push(&mut self, at: usize, l3: u16, dst: A) {
        let n = self.len;
        if n < MAX_BURST {
            (self.dst[n], self.at[n], self.l3[n]) = (dst, at as u8, l3 as u8);
            self.len += 1;
        }
    }
}

/// Route tables, next hops, addresses.
pub struct State {
    // Absent without routes of the version: an empty table would take 64 MiB.
    pub(crate) v4: Option<Fib4>,
    pub(crate) v6: Option<Fib6>,
    pub(crate) hops: Vec<Rewrite>,
    pub(crate) pending4: Pending<u32>,
    pub(crate) pending6: Pending<[u8; 16]>,
    pub(crate) non_ip_verdict: Verdict,
    pub(crate) forwarded: Counter,
    pub(crate) non_ip: Counter,
    pub(crate) reasons: Reasons,
    routes: (usize, usize),
}

pub(crate) struct Reasons {
    pub malformed: Reason,
    pub bad_checksum: Reason,
    pub ttl_expired: Reason,
    pub no_route: Reason,
}

impl State {
    pub(crate) fn new(args: &Args, env: &mut Env<'_>) -> Result<Self, Error> {
        let routes = Routes::read(args, env)?;
        let reasons = Reasons {
            malformed: env.drop_reason("malformed"),
            bad_checksum: env.drop_reason("bad_checksum"),
            ttl_expired: env.drop_reason("ttl_expired"),
            no_route: env.drop_reason("no_route"),
        };
        let non_ip_reason = env.drop_reason("non_ip");
        let fault = |e: FibError| Error::Library(format!("l3fwd: {e}"));
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let largest = count(routes.hops.len());
        let v4 = if routes.v4.is_empty() {
            None
        } else {
            let mut fib = Fib4::for_next_hops(count(routes.v4.len()), routes.v4_tbl8s() + 1, largest).map_err(fault)?;
            routes.v4.iter().try_for_each(|r| fib.add(r.bits, r.depth, r.hop)).map_err(fault)?;
            Some(fib)
        };
        let v6 = if routes.v6.is_empty() {
            None
        } else {
            let mut fib = Fib6::for_next_hops(count(routes.v6.len()), routes.v6_tbl8s() + 1, largest).map_err(fault)?;
            routes.v6.iter().try_for_each(|r| fib.add(r.bits.to_be_bytes(), r.depth, r.hop)).map_err(fault)?;
            Some(fib)
        };
        Ok(Self {
            v4,
            v6,
            pending4: Pending::new(0),
            pending6: Pending::new([0; 16]),
            non_ip_verdict: if args.non_ip == NonIp::Allow { Verdict::NEXT } else { Verdict::drop(non_ip_reason) },
            forwarded: env.counter("forwarded", "packets", "packets sent to a next hop"),
            non_ip: env.counter("non_ip", "packets", "frames that are neither IPv4 nor IPv6"),
            reasons,
            routes: (routes.v4.len(), routes.v6.len()),
            hops: routes.hops,
        })
    }

    /// Looks the pending packets' next hops up.
    #[inline]
    pub(crate) fn look_up(&mut self) {
        let (p4, p6) = (&mut self.pending4, &mut self.pending6);
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

    pub(crate) fn describe(&self) -> String {
        format!("{} IPv4 and {} IPv6 routes, {} next hops", self.routes.0, self.routes.1, self.hops.len())
    }
}
