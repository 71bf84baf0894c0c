//! `lb`: a layer-4 load balancer. Each flow to a service's address goes to one of its backends, and stays with it.
//!
//! Flows have their backend in a table; new ones get it by Maglev hashing, so several load balancers choose alike and
//! few flows move when backends come and go. The flows of a burst are looked up together, so that their cache misses
//! overlap. Packets that are no service's pass unchanged.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod directory;
mod icmp;
mod maglev;
mod pool;
mod rare;
mod report;
mod rewrite;
mod services;
mod state;

pub use config::{Args, Passive, Timeouts};
pub use state::State as LoadBalancer;

use chainline_flowtable::{v4_key, v6_key};
use chainline_nf::{Burst, Ctx, Env, Error, Field, Footprint, Nf, Packet, Sample, Sharing, Verdict};
use chainline_packet::{Fragment, flow_hash, parse, proto};
use directory::To;
use rewrite::{Place, Side as End, dsr, nat};
use state::{Core, Side, is_refusal};

/// The kind, for registries.
pub const KIND: chainline_nf::Kind = chainline_nf::Kind::of::<LoadBalancer>();

/// Places of tables that a tick fills: some 50 µs.
const BUILD: usize = 8192;

impl Nf for LoadBalancer {
    const KIND: &'static str = "lb";
    const ABOUT: &'static str =
        "balances flows over backends (Maglev), with address translation or direct server return";
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
            Field::IcmpQuote,
        ],
        &[
            Field::EthernetSource,
            Field::EthernetDestination,
            Field::IpSource,
            Field::IpDestination,
            Field::IpChecksum,
            Field::SourcePort,
            Field::DestinationPort,
            Field::L4Checksum,
            Field::IcmpQuote,
        ],
        &[
            chainline_nf::State::new("flows", chainline_nf::Scope::Flow, 84),
            chainline_nf::State::new("datagrams", chainline_nf::Scope::Datagram, 120),
            chainline_nf::State::new("backends", chainline_nf::Scope::Configured, 0).with("passive"),
        ],
    );
    const SAMPLE: Sample = Sample {
        args: "{\"services\": \"services\", \"flows\": 64, \"flows6\": 64, \"table_size\": 11}",
        files: &[("services", "service web tcp 192.0.2.10 port 80 nat\nbackend 10.0.0.1\n")],
    };

    fn check(args: &Args, _: Sharing) -> Result<(), Error> {
        args.check().map(|_| ())
    }

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        Self::new(&args, env)
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        self.v4.keys.clear();
        self.v6.keys.clear();
        for i in 0..burst.len() {
            let packet = &mut burst.packets_mut()[i];
            let layers = parse(packet.data());
            let flow = &layers.tuple;
            if layers.malformed.is_some()
                || layers.fragment != Fragment::Whole
                || !matches!(flow.proto(), proto::TCP | proto::UDP)
            {
                let verdict = self.rare(packet, &layers, ctx);
                burst.set(i, verdict);
                continue;
            }
            if let To::Service(service) = self.core.pool.directory.to(flow) {
                let place = Place::new(packet.data(), &layers, service);
                if place.v6 {
                    self.v6.push(i, v6_key(flow), place);
                } else {
                    self.v4.push(i, v4_key(flow), place);
                }
            } else if let Some(backend) = self.core.pool.directory.from(flow) {
                let place = Place::new(packet.data(), &layers, 0);
                self.core.reply(packet, &place, backend, ctx);
            } else {
                self.core.sums.other += 1;
            }
        }
        serve(&mut self.v4, &mut self.core, burst, ctx);
        serve(&mut self.v6, &mut self.core, burst, ctx);
        self.core.show(ctx);
        self.core.counters.flows.show(&self.v4.table.stats().plus(&self.v6.table.stats()), ctx);
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let (core, now_ns) = (&mut self.core, ctx.now_ns());
        if let Some(services) = self.reload.look(ctx) {
            core.pool.begin(services);
        }
        if core.suspects_changed(now_ns) {
            core.pool.begin_again();
        }
        if core.pool.is_busy() {
            core.pool.step(BUILD);
        }
        let records = &mut core.pool.records;
        self.v4.table.sweep(now_ns, |_, flow| state::leave(records, flow.backend));
        self.v6.table.sweep(now_ns, |_, flow| state::leave(records, flow.backend));
        self.fragments.sweep(now_ns, |_, _| {});
        core.counters.flows.show(&self.v4.table.stats().plus(&self.v6.table.stats()), ctx);
    }

    fn news(&mut self) -> Option<String> {
        self.reload.news()
    }

    fn report(&self) -> Option<String> {
        Some(self.describe())
    }
}

/// Sends the packets of one IP version to their backends.
#[inline]
fn serve<const N: usize>(side: &mut Side<N>, core: &mut Core, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
    if side.keys.is_empty() {
        return;
    }
    let Side { table, keys, places } = side;
    table.look_up(keys, ctx.now_ns());
    for i in 0..keys.len() {
        let (at, place) = (keys.at(i), &places[i]);
        let found = table.get(keys, i).map(|(position, flow)| (position, *flow));
        let backend = match core.backend(table, found, place) {
            Some(backend) => Ok(backend),
            None => {
                let hash = flow_hash(&parse(burst.packets()[at].data()).tuple);
                core.assign(table, keys.key(i), found.map(|(position, _)| position), place, hash, ctx)
            }
        };
        match backend {
            Ok(backend) => core.send(&mut burst.packets_mut()[at], place, backend),
            Err(reason) => burst.set(at, Verdict::drop(reason)),
        }
    }
}

impl Core {
    /// Addresses a packet to a backend.
    #[inline]
    fn send(&mut self, packet: &mut Packet<'_>, place: &Place, backend: u32) {
        let Some(backend) = self.pool.backends.get_mut(backend as usize) else { return };
        backend.packets += 1;
        backend.bytes += packet.len() as u64;
        match &backend.nat {
            Some((there, _)) => nat(packet.data_mut(), place, End::Destination, there),
            None => dsr(packet.data_mut(), backend.mac, self.mac),
        }
        self.sums.balanced += 1;
    }

    /// Gives a backend's reply the address of its service.
    #[inline]
    fn reply(&mut self, packet: &mut Packet<'_>, place: &Place, slot: u32, ctx: &Ctx<'_>) {
        let Some((_, back)) = self.pool.backends.get(slot as usize).and_then(|b| b.nat) else { return };
        if self.passive.is_some() {
            let refusal = is_refusal(packet.data(), place);
            self.answered(slot, refusal, ctx);
        }
        nat(packet.data_mut(), place, End::Source, &back);
        self.sums.returned += 1;
    }
}
