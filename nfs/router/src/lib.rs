//! `router`: a whole hop of IPv4 and IPv6 between several interfaces.
//!
//! What is ordinary goes the fast path here: a burst's destinations are looked up together in `rte_fib` and `rte_fib6`,
//! then each packet gets its next hop's hardware addresses, one less of time to live, and a checksum put right without
//! a new sum (RFC 1624). Everything else is marked and handled one by one, in order, in `rare`, which is a whole router
//! of its own: what a router must refuse (RFC 1812 §5), the errors that it must send about that (RFC 792, RFC 4443), and
//! what is for itself: pings, ARP (RFC 826), neighbour discovery (RFC 4861).
//!
//! Answers are made in the buffer of the packet that they answer and leave where it came in. Deliberately absent:
//! learning of neighbours, routing protocols, fragmentation, multicast.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arp;
mod config;
mod fib;
mod icmp;
mod limit;
mod nd;
mod rare;
mod state;

pub use config::{Args, IcmpErrors, Interface, Neighbour};
pub use state::State as Router;

use chainline_nf::{Burst, Ctx, Env, Error, Field, Footprint, Nf, Packet, Sample, Scope, Sharing, State, Verdict};
use chainline_packet::{Layers, Malformed, checksum, ether, ipv4, parse};
use fib::Hop;

/// The kind, for registries.
pub const KIND: chainline_nf::Kind = chainline_nf::Kind::of::<Router>();

/// Where the IP header starts: frames with tags are not routed.
pub(crate) const L3: usize = ether::HEADER_LEN;

impl Nf for Router {
    const KIND: &'static str = "router";
    const ABOUT: &'static str = "routes IPv4 and IPv6 between interfaces, with ARP, neighbour discovery and ICMP";
    type Args = Args;
    /// A packet that is answered is made anew.
    const FOOTPRINT: Option<Footprint> = Footprint::new(
        &[
            Field::EthernetDestination,
            Field::EtherType,
            Field::IpSource,
            Field::IpDestination,
            Field::Protocol,
            Field::Ttl,
            Field::IpLength,
            Field::Fragment,
            Field::IpChecksum,
            Field::IcmpType,
            Field::Frame,
        ],
        &[
            Field::EthernetSource,
            Field::EthernetDestination,
            Field::Ttl,
            Field::IpChecksum,
            Field::Frame,
            Field::FrameLength,
        ],
        // How many errors may still be sent.
        &[State::new("error limits", Scope::Configured, 32)],
    );
    const SAMPLE: Sample = Sample {
        args: "{\"interfaces\": [{\"name\": \"lan\", \"mac\": \"02:00:00:00:0a:01\", \"addresses\": [\"10.0.0.1/8\"], \
               \"next\": [0]}]}",
        files: &[],
    };

    fn check(args: &Args, _: Sharing) -> Result<(), Error> {
        args.check().map(|_| ())
    }

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        Self::new(&args, env)
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        let Self { core, pending4, pending6, marks, .. } = self;
        // A burst is of one chain.
        let from = burst.packets().first().and_then(|p| core.from(p.meta().chain));
        let Some((from, mac)) = from.and_then(|f| Some((f, core.interfaces.get(f.interface)?.mac))) else {
            let verdict = Verdict::drop(core.reasons.no_interface);
            return (0..burst.len()).for_each(|i| burst.set(i, verdict));
        };
        (pending4.len, pending6.len) = (0, 0);
        for i in 0..burst.len() {
            let data = burst.packets()[i].data();
            let layers = parse(data);
            let len = layers.end.saturating_sub(L3 as u16);
            match ordinary(data, &layers, mac.0) {
                4 => pending4.push(i, len, layers.tuple.dst_v4()),
                6 => pending6.push(i, len, layers.tuple.dst_bytes()),
                _ => marks.set(i),
            }
        }
        core.fib.tables.look_up(pending4, pending6);
        let mut forwarded = 0;
        let p = &*pending4;
        for ((at, len), hop) in p.at[..p.len].iter().zip(&p.note).zip(&p.hop) {
            let at = usize::from(*at);
            match core.fib.hops.get(*hop as usize) {
                Some(hop) if *len <= hop.mtu && forward4(&mut burst.packets_mut()[at], hop) => {
                    burst.set(at, core.out(from, hop.out.into()));
                    forwarded += 1;
                }
                _ => marks.set(at),
            }
        }
        let p = &*pending6;
        for ((at, len), hop) in p.at[..p.len].iter().zip(&p.note).zip(&p.hop) {
            let at = usize::from(*at);
            match core.fib.hops.get(*hop as usize) {
                Some(hop) if *len <= hop.mtu && forward6(&mut burst.packets_mut()[at], hop) => {
                    burst.set(at, core.out(from, hop.out.into()));
                    forwarded += 1;
                }
                _ => marks.set(at),
            }
        }
        ctx.count(core.counters.forwarded, forwarded);
        while let Some(at) = marks.take() {
            if let Some(packet) = burst.packets_mut().get_mut(at) {
                let verdict = core.rare(packet, from, ctx);
                burst.set(at, verdict);
            }
        }
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(new) = self.reload.look(ctx) {
            let old = std::mem::replace(&mut self.core.fib, new);
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
    let (interfaces, neighbours) = args.check()?;
    let path = args.routes.as_ref().map(|file| env.path(file));
    fib::Fib::read(args, &interfaces, &neighbours, path.as_deref()).map(|fib| fib.fixed)
}

/// The IP version of a packet that the fast path looks up; 0 of any other.
#[inline]
fn ordinary(data: &[u8], layers: &Layers, mac: [u8; 6]) -> u8 {
    let broken = layers.malformed.is_some_and(|m| !forwarded_nevertheless(m));
    if broken || layers.tags != 0 || data.first_chunk() != Some(&mac) {
        return 0;
    }
    let fine = match layers.tuple.version() {
        4 => {
            let head: Option<&[u8; 20]> = data.get(L3..).and_then(|header| header.first_chunk());
            // Options are looked at where it is rare.
            head.is_some_and(|head| head[0] == 0x45 && checksum::ipv4_header_ok(head))
                && !martian4(layers.tuple.src_v4())
        }
        6 => ordinary6(layers.tuple.src_bytes()),
        _ => false,
    };
    if fine { layers.tuple.version() } else { 0 }
}

/// What is behind the IP header is none of a router's business (RFC 7045 §2.1 for extension headers).
fn forwarded_nevertheless(fault: Malformed) -> bool {
    fault.is_l4() || fault == Malformed::Extensions
}

/// Sources that no packet may have (RFC 1812 §5.3.7): this network, loopback, multicast and above.
#[inline]
fn martian4(src: u32) -> bool {
    let net = src >> 24;
    net == 0 || net == 127 || net >= 224
}

/// Sources without anything special: not 0000::/8, where `::`, `::1` and mapped addresses are; neither link-local nor
/// multicast.
#[inline]
fn ordinary6(src: [u8; 16]) -> bool {
    !matches!(src, [0 | 0xff, ..] | [0xfe, 0x80..=0xbf, ..])
}

/// Sends an IPv4 packet on; `false`, and no change, if it has come to its end (RFC 1812 §5.3.1).
#[inline]
pub(crate) fn forward4(packet: &mut Packet<'_>, hop: &Hop) -> bool {
    let Some(head) = packet.data_mut().first_chunk_mut::<{ L3 + 20 }>() else { return false };
    let (ether, ip) = head.split_at_mut(L3);
    if ip.first_chunk_mut().and_then(ipv4::decrement_ttl).is_none() {
        return false;
    }
    ether[..12].copy_from_slice(&hop.addresses);
    true
}

/// The same for IPv6 (RFC 8200 §3).
#[inline]
pub(crate) fn forward6(packet: &mut Packet<'_>, hop: &Hop) -> bool {
    let Some(head) = packet.data_mut().first_chunk_mut::<{ L3 + 40 }>() else { return false };
    if head[L3 + 7] <= 1 {
        return false;
    }
    head[L3 + 7] -= 1;
    head[..12].copy_from_slice(&hop.addresses);
    true
}

#[cfg(test)]
#[path = "twin_tests.rs"]
mod tests;
