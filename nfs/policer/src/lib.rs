//! `policer`: measures IPv4 and IPv6 packets by srTCM (RFC 2697) or trTCM (RFC 2698) and passes, drops or marks them by
//! colour; or delays them to a rate.
//!
//! A burst is classified in one call, its flows are looked up in one call for each IP version, and all of its packets are
//! metered in one call, whatever classes and flows they are of.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod classes;
mod config;
mod file;
mod flows;
mod mark;
mod report;
mod shaper;
mod state;

pub use classes::{Match, Ports, Proto, ProtoName};
pub use config::{Action, Args, Aware, ClassArgs, MeterArgs, Per, ShaperArgs};
pub use state::State as Policer;

use chainline_dpdk::meter::Item;
use chainline_nf::{Burst, Ctx, Env, Error, Field, Footprint, Nf, Sample, Sharing, Verdict};
use chainline_packet::{ether, parse};
use state::{Act, Does, Head, UNMATCHED};

/// The kind, for registries.
pub const KIND: chainline_nf::Kind = chainline_nf::Kind::of::<Policer>();

impl Nf for Policer {
    const KIND: &'static str = "policer";
    const ABOUT: &'static str =
        "meters packets per class or flow (srTCM, trTCM); passes, drops or marks them by colour, or shapes";
    type Args = Args;
    const FOOTPRINT: Option<Footprint> = Footprint::new(
        &[
            Field::EtherType,
            Field::IpSource,
            Field::IpDestination,
            Field::Protocol,
            Field::TrafficClass,
            Field::IpLength,
            Field::SourcePort,
            Field::DestinationPort,
        ],
        &[Field::TrafficClass, Field::IpChecksum],
        &[
            chainline_nf::State::new("class meters", chainline_nf::Scope::Configured, 32),
            chainline_nf::State::new("flow meters", chainline_nf::Scope::Flow, 113).with("per: flow"),
        ],
    );
    const SAMPLE: Sample = Sample {
        args: "{\"classes\": [{\"name\": \"all\", \"per\": \"flow\", \"meter\": {\"srtcm\": {\"cir_bytes_s\": 1000, \"cbs_bytes\": 3000, \"ebs_bytes\": 3000}}}], \"flows\": 64, \"flows6\": 64}",
        files: &[],
    };

    fn check(args: &Args, _: Sharing) -> Result<(), Error> {
        args.check()
    }

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        Self::new(&args, env)
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        self.set.meters.advance(ctx.now_ns());
        for shaper in &mut self.set.shapers {
            shaper.advance(ctx.now_ns());
        }
        self.read(burst, ctx);
        self.classify();
        self.look_up(ctx);
        self.gather(burst, ctx);
        // What a new flow's meter displaced is coloured already.
        self.set.meters.colour(self.items.get_mut(self.coloured..).unwrap_or_default());
        self.act(burst, ctx);
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(mut new) = self.reload.look(ctx) {
            let classes = new.take_over(&mut self.set, ctx);
            let old = std::mem::replace(&mut self.set, new);
            let gone = match &mut self.set.flows {
                Some(flows) => flows.go_on(old, classes, ctx.now_ns()),
                None => Some(old),
            };
            gone.into_iter().for_each(|set| self.reload.retire(set));
        }
        for shaper in &mut self.set.shapers {
            shaper.serve(ctx);
        }
        if let Some(flows) = &mut self.set.flows {
            flows.sweep(ctx.now_ns());
            flows.show(ctx);
            flows.let_go(ctx.now_ns()).into_iter().for_each(|set| self.reload.retire(set));
        }
    }

    fn news(&mut self) -> Option<String> {
        self.reload.news()
    }

    fn report(&self) -> Option<String> {
        Some(report::text(self))
    }
}

impl Policer {
    /// The headers of the burst's IP packets.
    #[inline]
    fn read(&mut self, burst: &mut Burst<'_>, ctx: &Ctx<'_>) {
        self.heads.clear();
        let class = if self.set.classifier.is_some() { UNMATCHED } else { 0 };
        for i in 0..burst.len() {
            let data = burst.packets()[i].data();
            let layers = parse(data);
            if !layers.tuple.is_ip() {
                let ip = matches!(layers.ethertype, ether::IPV4 | ether::IPV6);
                // What hides its IP header would pass unmetered.
                if ip || layers.malformed.is_some() || ether::is_tag(layers.ethertype) {
                    burst.set(i, Verdict::drop(self.malformed));
                } else {
                    ctx.count(self.other, 1);
                }
                continue;
            }
            let dscp = mark::dscp(data, layers.l3, layers.tuple.version());
            let len = layers.end.saturating_sub(layers.l3);
            self.heads.push(Head { flow: layers.tuple, l3: layers.l3, len, dscp, class, at: i as u8 });
        }
    }

    /// The class of each, if they differ.
    #[inline]
    fn classify(&mut self) {
        let Some(c) = &mut self.set.classifier else { return };
        c.keys4.clear();
        c.keys6.clear();
        for head in &self.heads {
            match head.flow.version() {
                4 => c.keys4.push(classes::key4(&head.flow, head.dscp)),
                _ => c.keys6.push(classes::key6(&head.flow, head.dscp)),
            }
        }
        let (hits4, hits6) = c.hits.split_at_mut(c.keys4.len());
        c.classes.v4.classify(&c.keys4, hits4);
        let hits6 = hits6.get_mut(..c.keys6.len()).unwrap_or_default();
        c.classes.v6.classify(&c.keys6, hits6);
        let (mut hits4, mut hits6) = (hits4.iter(), hits6.iter());
        for head in &mut self.heads {
            let hit = if head.flow.version() == 4 { hits4.next() } else { hits6.next() };
            // From 1; 0 is no class.
            head.class = hit.map_or(UNMATCHED, |h| h.wrapping_sub(1) as u8);
        }
    }

    /// The flows of classes with a meter for each.
    #[inline]
    fn look_up(&mut self, ctx: &Ctx<'_>) {
        let Some(flows) = &mut self.set.flows else { return };
        flows.clear();
        for head in &self.heads {
            if matches!(self.set.classes.get(usize::from(head.class)).map(|c| c.does), Some(Does::MeterFlow(_))) {
                flows.push(&head.flow, head.class);
            }
        }
        flows.look_up(ctx.now_ns(), &self.set.meters);
    }

    /// The meter of each packet, in order; packets for shapers are done with.
    #[inline]
    fn gather(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        self.items.clear();
        self.metered.clear();
        self.coloured = 0;
        let mut unmetered = 0;
        let set = &mut self.set;
        for (h, head) in self.heads.iter().enumerate() {
            let Some(class) = set.classes.get(usize::from(head.class)) else {
                unmetered += 1;
                continue;
            };
            let (meter, profile) = match class.does {
                Does::Meter(profile) => (u32::from(profile), profile),
                Does::MeterFlow(profile) => {
                    let Some(flows) = &mut set.flows else { continue };
                    let metering = (&mut set.meters, &mut self.items[..], &mut self.coloured);
                    match flows.meter(head.flow.version(), profile, metering) {
                        Some(meter) => (meter, profile),
                        None if flows.drops_new() => {
                            burst.set(usize::from(head.at), Verdict::drop(self.table_full));
                            continue;
                        }
                        None => {
                            ctx.count(self.stateless, 1);
                            continue;
                        }
                    }
                }
                Does::Shape(i) => {
                    if let Some(shaper) = set.shapers.get_mut(usize::from(i)) {
                        burst.set(usize::from(head.at), shaper.offer(head.len, ctx));
                    }
                    continue;
                }
            };
            let before = class.before[usize::from(head.dscp & 63)];
            self.items.push(Item::new(meter, profile, head.len, before));
            self.metered.push(h as u8);
        }
        ctx.count(self.unmetered, unmetered);
        if let Some(flows) = &self.set.flows {
            flows.show(ctx);
        }
    }

    /// What the colours lead to.
    #[inline]
    fn act(&mut self, burst: &mut Burst<'_>, ctx: &Ctx<'_>) {
        let mut marked = 0;
        for (item, h) in self.items.iter().zip(&self.metered) {
            let Some(head) = self.heads.get(usize::from(*h)) else { continue };
            let Some(class) = self.set.classes.get(usize::from(head.class)) else { continue };
            let (colour, at) = (item.colour() as usize, usize::from(head.at));
            if let Some(tally) = class.tally {
                ctx.count(tally.packets.nth(colour as u32), 1);
                ctx.count(tally.bytes.nth(colour as u32), u64::from(head.len));
            }
            match class.acts[colour] {
                Act::Pass => {}
                Act::Drop(reason) => burst.set(at, Verdict::drop(reason)),
                Act::Mark(dscp) => {
                    let data = burst.packets_mut()[at].data_mut();
                    marked += u64::from(mark::set_dscp(data, head.l3, head.flow.version(), dscp));
                }
            }
        }
        ctx.count(self.marked, marked);
    }
}
