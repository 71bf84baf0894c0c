//! `nat`: hosts inside share external IPv4 addresses (NAT44, RFC 4787, 5382, 5508, 7857).
//!
//! A flow has two keys, one for each direction, in a table each; what to write stands in the entry, so a packet of a
//! known flow is a look-up and a rewrite. The flows of a burst are looked up together, so that their cache misses
//! overlap; then packets are handled in order, so a burst is as its packets one by one.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod book;
mod config;
mod flows;
mod icmp;
mod pool;
mod rare;
mod report;
mod rewrite;
mod state;
mod track;

pub use config::{Args, Blocks, Filter, Pooling, Ports, Reuse, Timeouts};
pub use state::State as Nat;

use chainline_flowtable::{Position, v4_key};
use chainline_nf::{Burst, Ctx, Env, Error, Field, Footprint, Nf, Packet, Reason, Sample, Sharing, Verdict};
use chainline_packet::{Fragment, Layers, parse, proto};
use rewrite::{Icmp, Place, Side, endpoint, query_flow};
use state::{State, Way};
use track::Origin;

/// The kind, for registries.
pub const KIND: chainline_nf::Kind = chainline_nf::Kind::of::<Nat>();

impl Nf for Nat {
    const KIND: &'static str = "nat";
    const ABOUT: &'static str =
        "translates the addresses of hosts inside to external ones, and those of replies back (NAT44)";
    type Args = Args;
    const FOOTPRINT: Option<Footprint> = Footprint::new(
        &[
            Field::EtherType,
            Field::IpSource,
            Field::IpDestination,
            Field::Protocol,
            Field::Fragment,
            Field::SourcePort,
            Field::DestinationPort,
            Field::TcpFlags,
            Field::IcmpType,
            Field::IcmpIdentifier,
            Field::IcmpQuote,
        ],
        &[
            Field::IpSource,
            Field::IpDestination,
            Field::IpChecksum,
            Field::SourcePort,
            Field::DestinationPort,
            Field::L4Checksum,
            Field::IcmpIdentifier,
            Field::IcmpQuote,
        ],
        &[
            chainline_nf::State::new("flows", chainline_nf::Scope::Connection, 210),
            chainline_nf::State::new("mappings", chainline_nf::Scope::SourceHost, 100),
            chainline_nf::State::new("datagrams", chainline_nf::Scope::Datagram, 80),
        ],
    );
    const SAMPLE: Sample = Sample {
        args: "{\"inside\": [\"10.0.0.0/8\"], \"pool\": [\"198.51.100.1\"], \"flows\": 64, \"subscribers\": 64}",
        files: &[],
    };

    fn check(args: &Args, _: Sharing) -> Result<(), Error> {
        args.check().map(|_| ())
    }

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        Self::new(&args, env)
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        self.out_keys.clear();
        self.back_keys.clear();
        for (i, packet) in burst.packets().iter().enumerate() {
            let way = self.classify(i, packet);
            if let Some(w) = self.ways.get_mut(i) {
                *w = way;
            }
        }
        let now_ns = ctx.now_ns();
        self.out.look_up(&mut self.out_keys, now_ns);
        if !self.back_keys.is_empty() {
            self.book.back.look_up(&mut self.back_keys, now_ns);
            for i in 0..self.back_keys.len() {
                if let Some(back) = self.book.back.find(&self.back_keys, i).and_then(|at| self.book.back.entry(at)) {
                    self.out.prefetch(Position::from_index(back.out));
                }
            }
        }
        for (i, (packet, verdict)) in burst.iter_mut().enumerate() {
            match self.ways.get(i).copied().unwrap_or_default() {
                Way::Pass => self.sums.other += 1,
                Way::Drop(reason) => *verdict = Verdict::drop(reason),
                Way::Out { key, place, hairpin } => {
                    let i = usize::from(key);
                    *verdict = if hairpin || place.first {
                        self.special(packet, i, &place, Origin::Inside, hairpin, ctx)
                    } else {
                        self.outbound(packet, i, &place, ctx).map_or_else(Verdict::drop, |()| Verdict::NEXT)
                    };
                }
                Way::Back { key, place } => {
                    let i = usize::from(key);
                    *verdict = if place.first {
                        self.special(packet, i, &place, Origin::Outside, false, ctx)
                    } else {
                        self.inbound(packet, i, &place, ctx).map_or_else(Verdict::drop, |()| Verdict::NEXT)
                    };
                }
                Way::Rare(from) => *verdict = self.rare(packet, from, ctx),
            }
        }
        self.show(ctx);
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let Self { out, book, fragments, .. } = self;
        out.sweep(ctx.now_ns(), |key, flow| book.end(key, flow));
        fragments.sweep(ctx.now_ns(), |_, _| {});
        self.show(ctx);
    }

    fn report(&self) -> Option<String> {
        Some(self.describe())
    }
}

impl State {
    /// Where a packet goes, by its addresses and protocol alone; the keys of those with a flow are put in.
    #[inline]
    fn classify(&mut self, i: usize, packet: &Packet<'_>) -> Way {
        let layers = parse(packet.data());
        let flow = &layers.tuple;
        if flow.version() != 4 {
            return Way::Pass;
        }
        let (src, dst) = (flow.src_v4(), flow.dst_v4());
        let reasons = &self.reasons;
        let known_inside = self.inside.has(src);
        let from_inside = match &self.inside_chains {
            None => known_inside,
            Some(chains) => chains.contains(&packet.meta().chain),
        };
        let to_pool = self.book.pool.index_of(dst).is_some();
        if from_inside != known_inside || (!from_inside && self.book.pool.index_of(src).is_some()) {
            return Way::Drop(reasons.source);
        }
        let from = if from_inside {
            if self.inside.has(dst) {
                return Way::Pass;
            }
            // This network, loopback, multicast, class E and broadcast (RFC 1122 §3.2.1.3) are no remote hosts.
            if matches!(dst >> 24, 0 | 127 | 224..) {
                return Way::Drop(reasons.destination);
            }
            Origin::Inside
        } else if to_pool {
            Origin::Outside
        } else if self.inside.has(dst) {
            return Way::Drop(reasons.destination);
        } else {
            return Way::Pass;
        };
        if layers.malformed.is_some() {
            return Way::Drop(reasons.malformed);
        }
        if layers.fragment == Fragment::Later {
            return Way::Rare(from);
        }
        match flow.proto() {
            proto::TCP | proto::UDP => self.push(i, from, v4_key(flow), Place::new(packet.data(), &layers), to_pool),
            proto::ICMP => self.classify_icmp(i, packet, &layers, from, to_pool),
            _ => Way::Drop(reasons.protocol),
        }
    }

    #[cold]
    fn classify_icmp(&mut self, i: usize, packet: &Packet<'_>, layers: &Layers, from: Origin, to_pool: bool) -> Way {
        let Some((kind, flow)) = query_flow(packet.data(), layers) else { return Way::Drop(self.reasons.malformed) };
        match (kind, from) {
            (Icmp::Query, Origin::Inside) | (Icmp::Reply, Origin::Outside) => {
                self.push(i, from, v4_key(&flow), Place::new(packet.data(), layers), to_pool)
            }
            (Icmp::Error, _) if layers.fragment == Fragment::Whole => Way::Rare(from),
            // Nobody answers for the pool, and hosts inside answer nobody.
            _ => Way::Drop(self.reasons.icmp),
        }
    }

    #[inline]
    fn push(&mut self, i: usize, from: Origin, key: [u8; 16], place: Place, hairpin: bool) -> Way {
        // Places in a burst are bytes, see `Keys`.
        if from == Origin::Inside {
            let at = self.out_keys.len() as u8;
            self.out_keys.push(i, key);
            Way::Out { key: at, place, hairpin }
        } else {
            let at = self.back_keys.len() as u8;
            self.back_keys.push(i, key);
            Way::Back { key: at, place }
        }
    }

    /// A packet from inside gets its external source.
    #[inline]
    fn outbound(&mut self, packet: &mut Packet<'_>, i: usize, place: &Place, ctx: &Ctx<'_>) -> Result<(), Reason> {
        let at = match self.out.find(&self.out_keys, i) {
            Some(at) => at,
            None => self.begin(packet, place, ctx)?,
        };
        self.follow(at, place, Origin::Inside);
        if let Some(flow) = self.out.entry(at) {
            endpoint(packet.data_mut(), place, Side::Source, flow.addr, flow.port, flow.ip, flow.l4);
        }
        self.sums.out += 1;
        Ok(())
    }

    /// A packet from outside gets its destination inside.
    #[inline]
    fn inbound(&mut self, packet: &mut Packet<'_>, i: usize, place: &Place, ctx: &Ctx<'_>) -> Result<(), Reason> {
        let at = match self.book.back.find(&self.back_keys, i) {
            Some(at) => at,
            None => self.admit(packet, place, ctx)?,
        };
        self.enter(packet, at, place);
        self.sums.back += 1;
        Ok(())
    }

    /// Sends a packet on to where its flow is inside.
    #[inline]
    fn enter(&mut self, packet: &mut Packet<'_>, at: Position, place: &Place) {
        let Some(back) = self.book.back.entry(at).copied() else { return };
        self.follow(Position::from_index(back.out), place, Origin::Outside);
        endpoint(packet.data_mut(), place, Side::Destination, back.addr, back.port, back.ip, back.l4);
    }
}
