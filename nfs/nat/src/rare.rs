//! What is not a whole packet on the straight way: fragments, hairpins, ICMP errors.

use crate::icmp::{self, Quoted};
use crate::rewrite::{Place, Side, address, deltas};
use crate::state::{Memo, State};
use crate::track::Origin;
use chainline_flowtable::{Class, Inserted, v4_key};
use chainline_nf::{Ctx, Packet, Reason, Verdict};
use chainline_packet::{Fragment, Layers, parse};

impl State {
    /// A packet of a flow that is a first fragment, or for a host inside by its external address.
    #[cold]
    pub(crate) fn special(
        &mut self,
        packet: &mut Packet<'_>,
        i: usize,
        place: &Place,
        from: Origin,
        hairpin: bool,
        ctx: &Ctx<'_>,
    ) -> Verdict {
        let name = datagram(packet.data(), place);
        let mut done = match from {
            Origin::Inside => self.outbound(packet, i, place, ctx),
            Origin::Outside => self.inbound(packet, i, place, ctx),
        };
        if hairpin {
            done = done.and_then(|()| self.turn(packet, place, ctx));
        }
        if let Err(reason) = done {
            return Verdict::drop(reason);
        }
        if place.first {
            self.remember(packet, name, place, hairpin, ctx);
        }
        self.on(hairpin)
    }

    /// On in the chain, or back to the inside.
    fn on(&self, hairpin: bool) -> Verdict {
        match self.hairpin {
            Some(target) if hairpin => Verdict::divert(target),
            _ => Verdict::NEXT,
        }
    }

    /// A packet that has its external source comes in again (RFC 4787 §6, REQ-9).
    fn turn(&mut self, packet: &mut Packet<'_>, place: &Place, ctx: &Ctx<'_>) -> Result<(), Reason> {
        let flow = parse(packet.data()).tuple;
        if place.space == 2 {
            return Err(self.reasons.icmp);
        }
        let at = match self.book.back.find_one(&v4_key(&flow)) {
            Some(at) => at,
            None => self.admit(packet, place, ctx)?,
        };
        self.enter(packet, at, place);
        ctx.count(self.counters.hairpinned, 1);
        Ok(())
    }

    /// Later fragments have no ports, and go after the first.
    fn remember(&mut self, packet: &Packet<'_>, name: Option<[u8; 16]>, place: &Place, hairpin: bool, ctx: &Ctx<'_>) {
        let (Some(name), Some((src, dst))) = (name, addresses(packet.data(), place)) else { return };
        ctx.count(self.counters.fragments, 1);
        self.fragments.advance(ctx.now_ns());
        let memo = Memo { src, dst, hairpin };
        // The identification comes around: what the last datagram of this name said is void.
        if let Inserted::There(at) = self.fragments.insert(&name, Class(0), memo, |_, _| {}) {
            if let Some(old) = self.fragments.entry_mut(at) {
                *old = memo;
            }
            self.fragments.touch(at);
        }
    }

    #[cold]
    pub(crate) fn rare(&mut self, packet: &mut Packet<'_>, from: Origin, ctx: &Ctx<'_>) -> Verdict {
        let layers = parse(packet.data());
        if layers.fragment == Fragment::Later {
            return self.later(packet, &layers, from, ctx);
        }
        let Some(quoted) = icmp::quoted(packet.data(), &layers) else { return Verdict::drop(self.reasons.icmp) };
        let done = match from {
            Origin::Inside => self.error_out(packet, &layers, &quoted),
            Origin::Outside => self.error_in(packet, &layers, &quoted).map(|()| false),
        };
        match done {
            Ok(hairpin) => {
                ctx.count(self.counters.icmp_errors, 1);
                self.on(hairpin)
            }
            Err(reason) => Verdict::drop(reason),
        }
    }

    fn later(&mut self, packet: &mut Packet<'_>, layers: &Layers, from: Origin, ctx: &Ctx<'_>) -> Verdict {
        let place = Place { l4: 0, ..Place::new(packet.data(), layers) };
        let name = datagram(packet.data(), &place);
        let memo =
            name.and_then(|name| self.fragments.find_one(&name)).and_then(|at| self.fragments.entry(at)).copied();
        // It came before the first one, or long after.
        let Some(memo) = memo else { return Verdict::drop(self.reasons.fragment) };
        let Some((src, dst)) = addresses(packet.data(), &place) else { return Verdict::drop(self.reasons.fragment) };
        for (side, old, new) in [(Side::Source, src, memo.src), (Side::Destination, dst, memo.dst)] {
            let (ip, _) = deltas((u32::from_be_bytes(old), 0), (u32::from_be_bytes(new), 0), 0);
            address(packet.data_mut(), &place, side, new, ip);
        }
        match from {
            Origin::Inside => self.sums.out += 1,
            Origin::Outside => self.sums.back += 1,
        }
        ctx.count(self.counters.fragments, 1);
        self.on(memo.hairpin)
    }

    /// An error from inside about a packet that came in. Whoever sent it, host or router: it leaves with the external
    /// address of the flow (RFC 5508 §4.3, REQ-5). Whether it came in again.
    fn error_out(&mut self, packet: &mut Packet<'_>, layers: &Layers, quoted: &Quoted) -> Result<bool, Reason> {
        let key = v4_key(&quoted.flow.reversed());
        let flow = self.out.find_one(&key).and_then(|at| self.out.entry(at)).ok_or(self.reasons.no_mapping)?;
        icmp::rewrite(packet.data_mut(), layers, quoted, Side::Destination, Side::Source, flow.addr, flow.port);
        if self.book.pool.index_of(layers.tuple.dst_v4()).is_none() {
            return Ok(false);
        }
        let layers = parse(packet.data());
        let quoted = icmp::quoted(packet.data(), &layers).ok_or(self.reasons.icmp)?;
        self.error_in(packet, &layers, &quoted).map(|()| true)
    }

    /// An error from outside about a packet that went out. It neither keeps nor ends the flow (RFC 5508 §4.2, REQ-4).
    fn error_in(&mut self, packet: &mut Packet<'_>, layers: &Layers, quoted: &Quoted) -> Result<(), Reason> {
        let key = v4_key(&quoted.flow.reversed());
        let table = &self.book.back;
        let flow = table.find_one(&key).and_then(|at| table.entry(at)).ok_or(self.reasons.no_mapping)?;
        // It must be for who sent what it quotes.
        if quoted.flow.src_v4() != layers.tuple.dst_v4() {
            return Err(self.reasons.icmp);
        }
        icmp::rewrite(packet.data_mut(), layers, quoted, Side::Source, Side::Destination, flow.addr, flow.port);
        Ok(())
    }
}

/// What the fragments of a datagram have in common (RFC 791 §3.2): addresses, identification, protocol.
fn datagram(data: &[u8], place: &Place) -> Option<[u8; 16]> {
    let head: &[u8; 20] = data.get(usize::from(place.l3)..)?.first_chunk()?;
    let mut name = [0; 16];
    name[..8].copy_from_slice(&head[12..20]);
    name[8..10].copy_from_slice(&head[4..6]);
    name[10] = head[9];
    Some(name)
}

fn addresses(data: &[u8], place: &Place) -> Option<([u8; 4], [u8; 4])> {
    let field = |at: usize| data.get(usize::from(place.l3) + at..)?.first_chunk::<4>().copied();
    Some((field(12)?, field(16)?))
}
