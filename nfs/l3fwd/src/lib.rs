//! `l3fwd`: forwards IPv4 and IPv6 packets to the next hop of their flow, if it has one of its own, or of the longest
//! prefix that matches.
//!
//! A burst's flows are looked up together in `rte_hash`, the destinations of the others in `rte_fib` and `rte_fib6`;
//! then each packet gets its next hop's hardware addresses, one less of time to live, and a checksum that was put right without a new sum (RFC 1624).
//! What a router must refuse it refuses as RFC 1812 says, but silently: it has no address to send ICMP errors from.
//! Deliberately absent: ARP and neighbour discovery, fragmentation, martian filters, multicast.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod flows;
mod routes;
mod state;

pub use config::{Args, Format, NextHop, NonIp};
pub use state::State as L3fwd;

use chainline_flowtable::{v4_key, v6_key};
use chainline_nf::{Burst, Ctx, Env, Error, Field, Footprint, Nf, Packet, Sample, Verdict};
use chainline_packet::{Fragment, Layers, Malformed, checksum, ether::Mac, ipv4, parse};
use config::Rewrite;
use flows::{Exact, dst4, dst6};
use state::Files;

/// The kind, for registries.
pub const KIND: chainline_nf::Kind = chainline_nf::Kind::of::<L3fwd>();

impl Nf for L3fwd {
    const KIND: &'static str = "l3fwd";
    const ABOUT: &'static str = "forwards IPv4 and IPv6 by longest prefix match, or flows by exact match";
    type Args = Args;
    const FOOTPRINT: Option<Footprint> = Footprint::new(
        &[
            Field::EtherType,
            Field::IpSource,
            Field::IpDestination,
            Field::Protocol,
            Field::Ttl,
            Field::Fragment,
            Field::SourcePort,
            Field::DestinationPort,
        ],
        &[Field::EthernetSource, Field::EthernetDestination, Field::Ttl, Field::IpChecksum],
        &[],
    );
    const SAMPLE: Sample = Sample { args: "{\"routes_inline\": [\"10.0.0.0/8 via 02:00:00:00:00:03\"]}", files: &[] };

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        Self::new(&args, env)
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        (self.pending4.len, self.pending6.len) = (0, 0);
        (self.waiting4.len, self.waiting6.len) = (0, 0);
        let exact = self.fib.exact.as_ref().map_or((false, false), Exact::asks);
        for i in 0..burst.len() {
            let data = burst.packets()[i].data();
            let layers = parse(data);
            let (l3, flow) = (layers.l3 as u8, &layers.tuple);
            // All fragments of a datagram go one way, and only the first one has ports.
            let whole = layers.fragment == Fragment::Whole;
            match self.check(data, &layers) {
                Ok(4) if exact.0 && whole => self.waiting4.push(i, l3, v4_key(flow)),
                Ok(6) if exact.1 && whole => self.waiting6.push(i, l3, v6_key(flow)),
                Ok(4) => self.pending4.push(i, l3, flow.dst_v4()),
                Ok(6) => self.pending6.push(i, l3, flow.dst_bytes()),
                Ok(_) => {
                    ctx.count(self.non_ip, 1);
                    burst.set(i, self.non_ip_verdict);
                }
                Err(verdict) => burst.set(i, verdict),
            }
        }
        let mut forwarded = if self.fib.exact.is_some() { self.send_flows(burst, ctx) } else { 0 };
        self.look_up();
        let no_route = Verdict::drop(self.reasons.no_route);
        let p = &self.pending4;
        for ((at, l3), hop) in p.at[..p.len].iter().zip(&p.note).zip(&p.hop) {
            match self.fib.hops.get(*hop as usize) {
                Some(hop) => {
                    send4(&mut burst.packets_mut()[usize::from(*at)], usize::from(*l3), hop);
                    forwarded += 1;
                }
                None => burst.set(usize::from(*at), no_route),
            }
        }
        let p = &self.pending6;
        for ((at, l3), hop) in p.at[..p.len].iter().zip(&p.note).zip(&p.hop) {
            match self.fib.hops.get(*hop as usize) {
                Some(hop) => {
                    send6(&mut burst.packets_mut()[usize::from(*at)], usize::from(*l3), hop);
                    forwarded += 1;
                }
                None => burst.set(usize::from(*at), no_route),
            }
        }
        ctx.count(self.forwarded, forwarded);
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(new) = self.reload.look(ctx) {
            let old = std::mem::replace(&mut self.fib, new);
            self.reload.retire(old);
        }
    }

    fn news(&mut self) -> Option<String> {
        self.reload.news()
    }

    fn report(&self) -> Option<String> {
        Some(self.describe())
    }
}

/// Reads routes without building tables, which take 64 MiB: for fuzzing. Returns how many there are of each version.
///
/// # Errors
/// As [`Nf::new`], except for what the tables refuse.
#[doc(hidden)]
pub fn read_routes(args: &Args, env: &Env<'_>) -> Result<(usize, usize), Error> {
    Files::of(args, env).read(args).map(|(r, _, _)| (r.v4.len(), r.v6.len()))
}

impl L3fwd {
    /// Sends the packets of flows that have a next hop of their own, and says how many; the others wait for routes.
    #[inline]
    fn send_flows(&mut self, burst: &mut Burst<'_>, ctx: &Ctx<'_>) -> u64 {
        let (Some(exact), hops) = (&self.fib.exact, &self.fib.hops) else { return 0 };
        exact.look_up(&mut self.waiting4, &mut self.waiting6);
        let mut sent = 0;
        let w = &self.waiting4;
        for (((at, l3), hop), key) in w.at[..w.len].iter().zip(&w.l3).zip(&w.hop).zip(&w.keys[..]) {
            match hops.get(*hop as usize) {
                Some(hop) => {
                    send4(&mut burst.packets_mut()[usize::from(*at)], usize::from(*l3), hop);
                    sent += 1;
                }
                None => self.pending4.push(usize::from(*at), *l3, dst4(key)),
            }
        }
        let w = &self.waiting6;
        for (((at, l3), hop), key) in w.at[..w.len].iter().zip(&w.l3).zip(&w.hop).zip(&w.keys[..]) {
            match hops.get(*hop as usize) {
                Some(hop) => {
                    send6(&mut burst.packets_mut()[usize::from(*at)], usize::from(*l3), hop);
                    sent += 1;
                }
                None => self.pending6.push(usize::from(*at), *l3, dst6(key)),
            }
        }
        ctx.count(self.exact, sent);
        sent
    }

    /// The IP version of a packet that may be forwarded, 0 of one that is not IP; else the verdict.
    #[inline]
    fn check(&self, data: &[u8], layers: &Layers) -> Result<u8, Verdict> {
        if layers.malformed.is_some_and(|m| !forwarded_nevertheless(m)) {
            return Err(Verdict::drop(self.reasons.malformed));
        }
        let version = layers.tuple.version();
        let header = data.get(usize::from(layers.l3)..).unwrap_or_default();
        let time_to_live = match version {
            4 => match header.first_chunk() {
                Some(head) if header_checksum_ok(head, header) => head[8],
                _ => return Err(Verdict::drop(self.reasons.bad_checksum)),
            },
            6 => header.get(7).copied().unwrap_or(0),
            _ => return Ok(0),
        };
        // RFC 1812 §5.3.1; RFC 8200 §3: a packet that arrives with 1 has come to its end.
        if time_to_live <= 1 { Err(Verdict::drop(self.reasons.ttl_expired)) } else { Ok(version) }
    }
}

/// What is behind the IP header is none of a router's business (RFC 7045 §2.1 for extension headers).
fn forwarded_nevertheless(fault: Malformed) -> bool {
    fault.is_l4() || fault == Malformed::Extensions
}

/// RFC 1812 §5.2.2: a router must verify it.
#[inline]
fn header_checksum_ok(head: &[u8; 20], header: &[u8]) -> bool {
    if head[0] & 15 == 5 {
        checksum::ipv4_header_ok(head)
    } else {
        ipv4::Ipv4::new(header).is_some_and(|ip| ip.checksum_ok())
    }
}

/// Sends an IPv4 packet on. It was checked before: it is not its last hop.
#[inline]
fn send4(packet: &mut Packet<'_>, l3: usize, hop: &Rewrite) {
    send(packet, l3, hop, |header| {
        let _ttl = header.first_chunk_mut().and_then(ipv4::decrement_ttl);
    });
}

/// The same for IPv6.
#[inline]
fn send6(packet: &mut Packet<'_>, l3: usize, hop: &Rewrite) {
    send(packet, l3, hop, |header| {
        if let Some(hop_limit) = header.get_mut(7) {
            *hop_limit = hop_limit.saturating_sub(1);
        }
    });
}

/// Writes the next hop's addresses and changes the layer-3 header.
#[inline]
fn send(packet: &mut Packet<'_>, l3: usize, hop: &Rewrite, change: impl FnOnce(&mut [u8])) {
    let data = packet.data_mut();
    if let Some(addresses) = data.first_chunk_mut::<12>() {
        let [a, b, c, d, e, f, ..] = *addresses;
        let src = hop.src.unwrap_or(Mac([a, b, c, d, e, f]));
        addresses[..6].copy_from_slice(&hop.dst.0);
        addresses[6..].copy_from_slice(&src.0);
    }
    if let Some(header) = data.get_mut(l3..) {
        change(header);
    }
}
