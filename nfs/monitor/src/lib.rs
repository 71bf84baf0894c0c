//! `monitor`: counts packets and bytes per source host, IPv4 and IPv6, and reports the top talkers.
//!
//! It drops nothing and changes nothing. The sources of a burst are looked up together in an `rte_hash` table, so
//! that their cache misses overlap. The table has a fixed size: hosts that find no room are counted as untracked, and
//! idle ones are forgotten to make room. If asked, it finds who has a large share of all traffic ([`HeavyHitters`]) and
//! writes flow records ([`FlowRecords`]).

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod heavy;
mod ipfix;
mod json;
mod records;
mod resume;
mod shared;
mod state;

pub use config::{Args, By, FlowRecords, HeavyHitters, Of};
pub use state::State as Monitor;

use chainline_nf::{Burst, Completion, Ctx, Env, Error, Field, Footprint, Nf, Sample, SharedCounts, Sharing};
use chainline_packet::parse;
use state::State;

/// The kind, for registries.
pub const KIND: chainline_nf::Kind = chainline_nf::Kind::of::<Monitor>();

impl Nf for Monitor {
    const KIND: &'static str = "monitor";
    const ABOUT: &'static str = "counts packets and bytes per source host";
    type Args = Args;
    const FOOTPRINT: Option<Footprint> = Footprint::new(
        &[
            Field::EtherType,
            Field::IpSource,
            Field::IpDestination,
            Field::Protocol,
            Field::Fragment,
            Field::IpLength,
            Field::SourcePort,
            Field::DestinationPort,
            Field::TcpFlags,
            Field::FrameLength,
        ],
        &[],
        &[
            chainline_nf::State::new("hosts", chainline_nf::Scope::SourceHost, 88).shareable(),
            chainline_nf::State::new("shares", chainline_nf::Scope::Instance, 520).with("heavy_hitters"),
            chainline_nf::State::new("flows", chainline_nf::Scope::Flow, 170).with("flow_records"),
        ],
    );
    const SAMPLE: Sample = Sample {
        args: "{\"hosts\": 64, \"heavy_hitters\": {\"share\": 0.5}, \"flow_records\": {\"json\": \"flows.json\", \"flows\": 64}}",
        files: &[],
    };

    fn check(args: &Args, sharing: Sharing) -> Result<(), Error> {
        args.check(sharing)
    }

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        Self::new(&args, env)
    }

    fn shared(&mut self, table: Box<dyn SharedCounts>) {
        if let Some(shared) = &mut self.shared {
            shared.attach(table);
        }
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        let pending = &mut self.pending;
        pending.len = 0;
        for packet in burst.packets() {
            let layers = parse(packet.data());
            let source = layers.tuple.src_bytes();
            let key = match layers.tuple.version() {
                4 => mapped(source),
                6 => source,
                _ if layers.malformed.is_some() => {
                    ctx.count(self.counters.malformed, 1);
                    continue;
                }
                _ => {
                    ctx.count(self.counters.non_ip, 1);
                    continue;
                }
            };
            if let (Some(k), Some(b)) = (pending.keys.get_mut(pending.len), pending.bytes.get_mut(pending.len)) {
                (*k, *b) = (key, packet.len() as u16);
                pending.len += 1;
            }
        }
        self.count(ctx);
        if self.heavy.is_some() || self.records.is_some() {
            self.flows(burst, ctx);
        }
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        self.sweep(ctx);
        if let Some(records) = &mut self.records {
            records.tick(ctx);
        }
    }

    fn completed(&mut self, done: &Completion<'_>, ctx: &mut Ctx<'_>) {
        if let Some(records) = &self.records {
            records.completed(done, ctx);
        }
    }

    fn report(&self) -> Option<String> {
        let heavy = self.heavy.as_ref().map(|heavy| heavy.describe());
        Some(self.describe() + &heavy.unwrap_or_default())
    }
}

impl State {
    /// Heavy hitters and flow records.
    fn flows(&mut self, burst: &Burst<'_>, ctx: &mut Ctx<'_>) {
        let Self { heavy, records, .. } = self;
        heavy.iter_mut().for_each(|h| h.begin());
        records.iter_mut().for_each(|r| r.begin());
        for (i, packet) in burst.packets().iter().enumerate() {
            let layers = parse(packet.data());
            if !layers.tuple.is_ip() {
                continue;
            }
            if let Some(heavy) = heavy {
                heavy.push(i, &layers.tuple, packet.len());
            }
            if let Some(records) = records {
                records.push(i, packet.data(), &layers);
            }
        }
        heavy.iter_mut().for_each(|h| h.count(ctx.now_ns()));
        records.iter_mut().for_each(|r| r.count(ctx));
    }
}

/// An IPv4 address, which is in the first four bytes, as `::ffff:a.b.c.d`.
#[inline]
fn mapped(source: [u8; 16]) -> [u8; 16] {
    (u128::from_le_bytes(source) << 96 | 0xffff << 80).to_le_bytes()
}
