//! Flows begin, and are followed.

use crate::book::{Back, Ends, NONE, Out, Refusal, space_of};
use crate::rewrite::{Place, deltas, ends, query_flow};
use crate::state::State;
use crate::track::{ICMP, Origin, RST, Seen};
use chainline_flowtable::{Class, Inserted, Position};
use chainline_nf::{Ctx, Packet, Reason};
use chainline_packet::{FiveTuple, parse};

impl State {
    /// The first packet of a flow from inside.
    #[cold]
    pub(crate) fn begin(&mut self, packet: &Packet<'_>, place: &Place, ctx: &Ctx<'_>) -> Result<Position, Reason> {
        // The end of something that is not known.
        if place.flags & RST != 0 {
            return Err(self.reasons.tcp_state);
        }
        let ends = ends(&flow_of(packet), place.space);
        let granted = self.book.acquire(&ends);
        let grant = granted.map_err(|refusal| match refusal {
            Refusal::NoPort => self.reasons.no_port,
            Refusal::Limit => self.reasons.limit,
            Refusal::TableFull => self.reasons.table_full,
        })?;
        if grant.mapping == NONE {
            ctx.count(self.counters.reused, 1);
        }
        let external = (grant.addr, grant.port);
        // A flow that reuses a port lets nobody in to the port's owner.
        if grant.mapping != NONE && !self.book.meet(external, ends.remote.0, ends.space) {
            self.book.release(&grant, ends.inside.0, ends.space);
            return Err(self.reasons.table_full);
        }
        let seen = Seen::first(place.tcp(), place.flags, Origin::Inside);
        let (_, at) = self.open(&ends, external, grant.mapping, seen, Origin::Inside)?;
        Ok(at)
    }

    /// A packet from outside that belongs to no flow: a mapping and the filter must let it in (RFC 4787 §5).
    #[cold]
    pub(crate) fn admit(&mut self, packet: &Packet<'_>, place: &Place, _: &Ctx<'_>) -> Result<Position, Reason> {
        let flow = flow_of(packet);
        let (remote, external) = ((flow.src_v4(), flow.src_port()), (flow.dst_v4(), flow.dst_port()));
        let space = place.space;
        let (mapping, inside) = self.book.mapped(external, space).ok_or(self.reasons.no_mapping)?;
        // Answers to queries have a flow.
        if space == space_of(1) {
            return Err(self.reasons.no_mapping);
        }
        if !self.book.admits(external, remote.0, space) {
            return Err(self.reasons.filtered);
        }
        // No RST nor ICMP error goes back, so that a SYN from inside may still meet it (RFC 5382 §4.3, REQ-4).
        if place.tcp() && !place.begins() {
            return Err(self.reasons.tcp_state);
        }
        let ends = Ends { space, inside, remote };
        self.book.join(mapping);
        let seen = Seen::first(place.tcp(), place.flags, Origin::Outside);
        let (at, _) = self.open(&ends, external, mapping.index() as u32, seen, Origin::Outside)?;
        Ok(at)
    }

    /// Enters a flow whose mapping counts it already; its places in both tables.
    fn open(
        &mut self,
        ends: &Ends,
        external: (u32, u16),
        mapping: u32,
        seen: Seen,
        begun: Origin,
    ) -> Result<(Position, Position), Reason> {
        let (ip, l4) = deltas(ends.inside, external, ends.space);
        let key = ends.out_key();
        let out = Out {
            addr: external.0.to_be_bytes(),
            port: external.1,
            seen,
            begun_outside: begun == Origin::Outside,
            ip,
            l4,
            back: NONE,
            mapping,
        };
        let (table, book) = (&mut self.out, &mut self.book);
        let class = class(seen, ends.space, begun);
        let at = match table.insert(&key, class, out, |key, gone| book.end(key, gone)) {
            Inserted::New(at) => at,
            Inserted::There(_) => {
                // From outside, to an endpoint inside that reuses a port towards the same remote end.
                book.end(&key, &out);
                return Err(self.reasons.filtered);
            }
            Inserted::Full => {
                book.end(&key, &out);
                return Err(self.reasons.table_full);
            }
        };
        let (ip, l4) = deltas(external, ends.inside, ends.space);
        let back = Back { addr: ends.inside.0.to_be_bytes(), port: ends.inside.1, ip, l4, out: at.index() as u32 };
        if let Inserted::New(back) = self.book.back.insert(&ends.back_key(external), Class(0), back, |_, _| {}) {
            if let Some(out) = self.out.entry_mut(at) {
                out.back = back.index() as u32;
            }
            return Ok((back, at));
        }
        if let Some((key, out)) = self.out.remove(at) {
            self.book.end(&key, &out);
        }
        Err(self.reasons.table_full)
    }

    /// A packet of a flow: its time-out starts anew, and TCP goes on.
    #[inline]
    pub(crate) fn follow(&mut self, at: Position, place: &Place, from: Origin) {
        let Some(flow) = self.out.entry_mut(at) else { return };
        let seen = flow.seen.next(place.tcp(), place.flags, from);
        if seen != flow.seen {
            let begun = flow.begun();
            flow.seen = seen;
            self.out.set_class(at, class(seen, place.space, begun));
        } else if from == Origin::Inside || self.inbound_refresh {
            self.out.touch(at);
        }
    }
}

fn class(seen: Seen, space: u8, begun: Origin) -> Class {
    if space == space_of(1) { ICMP } else { seen.class(space == 0, begun) }
}

/// The flow of a packet that was found to have one.
fn flow_of(packet: &Packet<'_>) -> FiveTuple {
    let layers = parse(packet.data());
    if layers.tuple.proto() != 1 {
        return layers.tuple;
    }
    query_flow(packet.data(), &layers).map_or(layers.tuple, |(_, flow)| flow)
}
