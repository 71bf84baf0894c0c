//! What is not a whole TCP or UDP packet: fragments, ICMP errors, malformed packets, and everything else.

use crate::directory::To;
use crate::icmp;
use crate::rewrite::{Place, Side as End, dsr};
use crate::state::{Flow, State, Way};
use chainline_flowtable::{Class, FlowTable, Inserted, datagram_key, v4_key, v6_key};
use chainline_nf::{Ctx, Packet, Reason, Verdict};
use chainline_packet::icmp::Quoted;
use chainline_packet::{FiveTuple, Fragment, Layers, flow_hash, proto};

impl State {
    #[cold]
    pub(crate) fn rare(&mut self, packet: &mut Packet<'_>, layers: &Layers, ctx: &Ctx<'_>) -> Verdict {
        let flow = &layers.tuple;
        self.v4.table.advance(ctx.now_ns());
        self.v6.table.advance(ctx.now_ns());
        self.fragments.advance(ctx.now_ns());
        let to = self.core.pool.directory.to(flow);
        if layers.malformed.is_some() {
            // Its ports cannot be trusted, nor its checksums be mended.
            return if to == To::Other { self.other() } else { Verdict::drop(self.core.reasons.malformed) };
        }
        let ports = matches!(flow.proto(), proto::TCP | proto::UDP);
        match layers.fragment {
            Fragment::First if ports => self.first(packet, layers, to, ctx),
            Fragment::Later if ports => self.later(packet, layers, to, ctx),
            Fragment::Whole if matches!(flow.proto(), proto::ICMP | proto::ICMPV6) => self.icmp(packet, layers, ctx),
            _ => self.other(),
        }
    }

    fn other(&mut self) -> Verdict {
        self.core.sums.other += 1;
        Verdict::NEXT
    }

    /// The first fragment has the ports; the others go after it.
    fn first(&mut self, packet: &mut Packet<'_>, layers: &Layers, to: To, ctx: &Ctx<'_>) -> Verdict {
        let way = if let To::Service(service) = to {
            let place = Place::new(packet.data(), layers, service);
            match self.choose(&layers.tuple, &place, ctx) {
                Ok(backend) => {
                    self.core.send(packet, &place, backend);
                    Way { backend, back: false }
                }
                Err(reason) => return Verdict::drop(reason),
            }
        } else if let Some(backend) = self.core.pool.directory.from(&layers.tuple) {
            self.core.reply(packet, &Place::new(packet.data(), layers, 0), backend, ctx);
            Way { backend, back: true }
        } else {
            return self.other();
        };
        ctx.count(self.core.counters.fragments, 1);
        if let Some(key) = datagram_key(packet.data(), layers) {
            // The identification comes around: what the last datagram of this name said is void.
            if let Inserted::There(at) = self.fragments.insert(&key, Class(0), way, |_, _| {})
                && let Some(old) = self.fragments.entry_mut(at)
            {
                *old = way;
                self.fragments.touch(at);
            }
        }
        Verdict::NEXT
    }

    /// A later fragment has addresses alone.
    fn later(&mut self, packet: &mut Packet<'_>, layers: &Layers, to: To, ctx: &Ctx<'_>) -> Verdict {
        let at = datagram_key(packet.data(), layers).and_then(|key| self.fragments.find_one(&key));
        let Some(way) = at.and_then(|at| self.fragments.entry(at)).copied() else {
            // It came before the first one, or long after.
            return if to == To::Other { self.other() } else { Verdict::drop(self.core.reasons.fragment) };
        };
        let place = Place { l4: 0, ..Place::new(packet.data(), layers, 0) };
        if way.back {
            self.core.reply(packet, &place, way.backend, ctx);
        } else {
            self.core.send(packet, &place, way.backend);
        }
        ctx.count(self.core.counters.fragments, 1);
        Verdict::NEXT
    }

    /// The backend of a single packet's flow.
    fn choose(&mut self, flow: &FiveTuple, place: &Place, ctx: &Ctx<'_>) -> Result<u32, Reason> {
        if place.v6 {
            let table = &mut self.v6.table;
            let key = v6_key(flow);
            let found = find(table, &key);
            match self.core.backend(table, found, place) {
                Some(backend) => Ok(backend),
                None => self.core.assign(table, &key, found.map(|f| f.0), place, flow_hash(flow), ctx),
            }
        } else {
            let table = &mut self.v4.table;
            let key = v4_key(flow);
            let found = find(table, &key);
            match self.core.backend(table, found, place) {
                Some(backend) => Ok(backend),
                None => self.core.assign(table, &key, found.map(|f| f.0), place, flow_hash(flow), ctx),
            }
        }
    }

    /// An error about a flow goes where the flow goes.
    fn icmp(&mut self, packet: &mut Packet<'_>, layers: &Layers, ctx: &Ctx<'_>) -> Verdict {
        let Some(quoted) = icmp::quoted(packet.data(), layers) else { return self.other() };
        // From a client's side, about a reply: its source is the service, as it is in the flow's destination.
        let flow = quoted.flow.reversed();
        if let To::Service(service) = self.core.pool.directory.to(&flow) {
            return match self.of_flow(&flow, service) {
                Some(backend) => self.relate_to_backend(packet, layers, &quoted, backend, ctx),
                None => Verdict::drop(self.core.reasons.no_backend),
            };
        }
        // From a backend's side, about a packet that was sent to it.
        match self.core.pool.directory.from(&flow) {
            Some(backend) => self.relate_to_client(packet, layers, &quoted, backend, ctx),
            None => self.other(),
        }
    }

    /// The backend that a flow has, or would get.
    fn of_flow(&self, flow: &FiveTuple, service: u32) -> Option<u32> {
        let entry = if flow.version() == 6 {
            let at = self.v6.table.find_one(&v6_key(flow));
            at.and_then(|at| self.v6.table.entry(at))
        } else {
            let at = self.v4.table.find_one(&v4_key(flow));
            at.and_then(|at| self.v4.table.entry(at))
        };
        let pool = &self.core.pool;
        let service = pool.services.get(service as usize)?;
        let alive =
            |f: &&Flow| pool.backends.get(f.backend as usize).is_some_and(|b| b.alive && b.service == service.id);
        entry.filter(alive).map(|f| f.backend).or_else(|| service.pick(flow_hash(flow)))
    }

    fn relate_to_backend(
        &mut self,
        packet: &mut Packet<'_>,
        layers: &Layers,
        quoted: &Quoted,
        slot: u32,
        ctx: &Ctx<'_>,
    ) -> Verdict {
        let pool = &mut self.core.pool;
        if let (Some(backend), Some(record)) = (pool.backends.get_mut(slot as usize), pool.records.get(slot as usize)) {
            backend.packets += 1;
            backend.bytes += packet.len() as u64;
            if backend.nat.is_some() {
                // Routers send errors to the source of what they tell of, so that is the error's own destination.
                let (addr, port) = (record.addr, record.port.unwrap_or(0));
                let outer = (layers.tuple.dst() == quoted.flow.src()).then_some(End::Destination);
                icmp::rewrite(packet.data_mut(), layers, quoted, End::Source, outer, addr, port);
            } else {
                dsr(packet.data_mut(), backend.mac, self.core.mac);
            }
        }
        ctx.count(self.core.counters.icmp, 1);
        Verdict::NEXT
    }

    fn relate_to_client(
        &mut self,
        packet: &mut Packet<'_>,
        layers: &Layers,
        quoted: &Quoted,
        slot: u32,
        ctx: &Ctx<'_>,
    ) -> Verdict {
        if let Some(record) = self.core.pool.records.get(slot as usize) {
            let (addr, port) = (record.vip, record.vip_port.unwrap_or(0));
            // A router between here and the backend speaks for itself.
            let outer = (layers.tuple.src() == Some(record.addr)).then_some(End::Source);
            icmp::rewrite(packet.data_mut(), layers, quoted, End::Destination, outer, addr, port);
        }
        ctx.count(self.core.counters.icmp, 1);
        Verdict::NEXT
    }
}

fn find<const N: usize>(
    table: &mut FlowTable<N, Flow>,
    key: &[u8; N],
) -> Option<(chainline_flowtable::Position, Flow)> {
    let at = table.find_one(key)?;
    table.touch(at);
    Some((at, *table.entry(at)?))
}
