//! What the fast path leaves alone: a whole router, one packet at a time.

use crate::fib::{Hop, Kind};
use crate::icmp::{self, What, may_be_told, peer};
use crate::state::{Core, From};
use crate::{L3, forward4, forward6, forwarded_nevertheless, martian4, nd};
use chainline_nf::{Ctx, Packet, Reason, Verdict};
use chainline_packet::{Fragment, Layers, Malformed, ether, ipv4::Ipv4, parse, proto};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whom a frame was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Station {
    Us,
    Group,
    All,
}

impl Core {
    /// The verdict for any packet.
    #[cold]
    pub(crate) fn rare(&mut self, packet: &mut Packet<'_>, from: From, ctx: &Ctx<'_>) -> Verdict {
        self.decide(packet, from, ctx).unwrap_or_else(Verdict::drop)
    }

    fn decide(&mut self, packet: &mut Packet<'_>, from: From, ctx: &Ctx<'_>) -> Result<Verdict, Reason> {
        let layers = parse(packet.data());
        let to = packet.data().first_chunk::<6>().filter(|_| layers.malformed != Some(Malformed::Ethernet));
        let station = match to.ok_or(self.reasons.malformed)? {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => Station::All,
            [first, ..] if first & 1 != 0 => Station::Group,
            mac if self.interfaces.get(from.interface).is_some_and(|i| i.mac.0 == *mac) => Station::Us,
            _ => return Err(self.reasons.other_host),
        };
        if layers.tags > 0 || ether::is_tag(layers.ethertype) {
            return Err(self.reasons.tagged);
        }
        if layers.malformed.is_some_and(|m| !forwarded_nevertheless(m)) {
            return Err(self.reasons.malformed);
        }
        match (layers.ethertype, layers.tuple.version()) {
            (ether::ARP, _) => self.arp(packet, from, ctx),
            (_, 4) => self.ipv4(packet, &layers, station, from, ctx),
            (_, 6) => self.ipv6(packet, &layers, station, from, ctx),
            _ => Err(self.reasons.non_ip),
        }
    }

    fn ipv4(
        &mut self,
        packet: &mut Packet<'_>,
        layers: &Layers,
        station: Station,
        from: From,
        ctx: &Ctx<'_>,
    ) -> Result<Verdict, Reason> {
        let reasons = &self.reasons;
        let ip = Ipv4::new(packet.data().get(L3..).unwrap_or_default()).ok_or(reasons.malformed)?;
        if !ip.checksum_ok() {
            return Err(reasons.bad_checksum);
        }
        if martian4(layers.tuple.src_v4()) {
            return Err(reasons.martian);
        }
        if is_source_routed(ip.options()) {
            return Err(reasons.source_route);
        }
        let hop = self.fib.hop(self.fib.tables.hop4(layers.tuple.dst_v4()));
        let (ttl, df) = (ip.ttl(), ip.dont_fragment());
        let kind = self.reachable(hop, station)?;
        match (kind, hop) {
            (Kind::Local, _) => self.local4(packet, layers, from, ctx),
            (Kind::Send | Kind::NoNeighbour, Some(hop)) => {
                let len = layers.end - L3 as u16;
                let (what, reason) = match kind {
                    _ if ttl <= 1 => (What::TimeExceeded, reasons.ttl_expired),
                    Kind::NoNeighbour => (What::NoNeighbour, reasons.no_neighbour),
                    _ if len > hop.mtu && df => (What::TooBig(hop.mtu), reasons.too_big),
                    // It would have to go in pieces, and a buffer holds one packet.
                    _ if len > hop.mtu => return Err(reasons.too_big),
                    _ if forward4(packet, &hop) => return Ok(self.forwarded(from, &hop, ctx)),
                    _ => return Err(reasons.malformed),
                };
                self.tell(packet, layers, from, what, reason, ctx)
            }
            (Kind::Blackhole, _) => Err(reasons.blackhole),
            _ => self.tell(packet, layers, from, What::NoRoute, self.reasons.no_route, ctx),
        }
    }

    fn ipv6(
        &mut self,
        packet: &mut Packet<'_>,
        layers: &Layers,
        station: Station,
        from: From,
        ctx: &Ctx<'_>,
    ) -> Result<Verdict, Reason> {
        if nd::is_solicitation(packet.data(), layers) {
            let dst = Ipv6Addr::from(layers.tuple.dst_bytes());
            let local = self.interfaces.get(from.interface).is_some_and(|i| i.has(dst.into()));
            if local || dst.is_multicast() {
                return self.solicited(packet, layers, from, ctx);
            }
        }
        let reasons = &self.reasons;
        let src = Ipv6Addr::from(layers.tuple.src_bytes());
        let hop = self.fib.hop(self.fib.tables.hop6(layers.tuple.dst_bytes()));
        if src.is_multicast() || src.is_unspecified() || src.is_loopback() || src.to_ipv4_mapped().is_some() {
            return Err(reasons.martian);
        }
        let hop_limit = packet.data().get(L3 + 7).copied().unwrap_or(0);
        let kind = self.reachable(hop, station)?;
        match (kind, hop) {
            (Kind::Local, _) => self.local6(packet, layers, from, ctx),
            (Kind::LinkLocal, _) => {
                let dst = IpAddr::from(layers.tuple.dst_bytes());
                match self.interfaces.get(from.interface) {
                    Some(interface) if interface.has(dst) => self.local6(packet, layers, from, ctx),
                    _ => Err(reasons.link_local),
                }
            }
            (Kind::Send | Kind::NoNeighbour, Some(hop)) => {
                let len = layers.end - L3 as u16;
                let (what, reason) = match kind {
                    // RFC 4007 §9: it would leave the zone of its source.
                    _ if src.is_unicast_link_local() => (What::BeyondScope, reasons.link_local),
                    _ if hop_limit <= 1 => (What::TimeExceeded, reasons.ttl_expired),
                    Kind::NoNeighbour => (What::NoNeighbour, reasons.no_neighbour),
                    _ if len > hop.mtu => (What::TooBig(hop.mtu), reasons.too_big),
                    _ if forward6(packet, &hop) => return Ok(self.forwarded(from, &hop, ctx)),
                    _ => return Err(reasons.malformed),
                };
                self.tell(packet, layers, from, what, reason, ctx)
            }
            (Kind::Blackhole, _) => Err(reasons.blackhole),
            _ => self.tell(packet, layers, from, What::NoRoute, self.reasons.no_route, ctx),
        }
    }

    /// Whether a destination is one at all, for a frame to this station.
    fn reachable(&self, hop: Option<Hop>, station: Station) -> Result<Kind, Reason> {
        let kind = hop.map_or(Kind::Unreachable, |hop| hop.kind);
        match (kind, station) {
            (Kind::Martian, _) => Err(self.reasons.martian),
            (Kind::Multicast, _) => Err(self.reasons.multicast),
            (Kind::Broadcast, _) => Err(self.reasons.broadcast),
            // RFC 1812 §5.3.4, RFC 1122 §3.3.6: what was sent to many is no unicast packet.
            (_, Station::All) => Err(self.reasons.broadcast),
            (_, Station::Group) => Err(self.reasons.multicast),
            (kind, Station::Us) => Ok(kind),
        }
    }

    fn forwarded(&self, from: From, hop: &Hop, ctx: &Ctx<'_>) -> Verdict {
        self.count(|c| c.forwarded, ctx);
        self.out(from, hop.out.into())
    }

    /// To one of the router's own addresses.
    fn local4(
        &mut self,
        packet: &mut Packet<'_>,
        layers: &Layers,
        from: From,
        ctx: &Ctx<'_>,
    ) -> Result<Verdict, Reason> {
        if layers.fragment != Fragment::Whole {
            return Err(self.reasons.fragment);
        }
        match layers.tuple.proto() {
            proto::UDP => self.tell(packet, layers, from, What::NoPort, self.reasons.to_router, ctx),
            proto::ICMP if layers.malformed.is_none() => {
                let message = packet.data().get(layers.l4.into()..layers.end.into()).unwrap_or_default();
                if !icmp::checksum4_ok(message) {
                    return Err(self.reasons.bad_checksum);
                }
                let ping = message.starts_with(&[8, 0]);
                let mac = self.answering(packet, layers, from).filter(|_| ping).ok_or(self.reasons.to_router)?;
                self.echoed(icmp::echo4(packet, layers, mac), from, ctx)
            }
            _ => Err(self.reasons.to_router),
        }
    }

    fn local6(
        &mut self,
        packet: &mut Packet<'_>,
        layers: &Layers,
        from: From,
        ctx: &Ctx<'_>,
    ) -> Result<Verdict, Reason> {
        if layers.fragment != Fragment::Whole {
            return Err(self.reasons.fragment);
        }
        let direct = layers.malformed.is_none() && usize::from(layers.l4) == L3 + 40;
        match layers.tuple.proto() {
            proto::UDP => self.tell(packet, layers, from, What::NoPort, self.reasons.to_router, ctx),
            proto::ICMPV6 if direct => {
                let datagram = packet.data().get(L3..layers.end.into()).unwrap_or_default();
                let (ip, message) = datagram.split_first_chunk::<40>().ok_or(self.reasons.malformed)?;
                if !icmp::checksum6_ok(ip, message) {
                    return Err(self.reasons.bad_checksum);
                }
                let ping = message.len() >= 8 && message.starts_with(&[128, 0]);
                let mac = self.answering(packet, layers, from).filter(|_| ping).ok_or(self.reasons.to_router)?;
                self.echoed(icmp::echo6(packet, mac), from, ctx)
            }
            _ => Err(self.reasons.to_router),
        }
    }

    fn echoed(&self, done: bool, from: From, ctx: &Ctx<'_>) -> Result<Verdict, Reason> {
        if !done {
            return Err(self.reasons.malformed);
        }
        self.count(|c| c.echo_replies, ctx);
        Ok(self.out(from, from.interface))
    }

    /// The hardware address to answer from, if the sender is somebody who can be answered: one host, not of the router's
    /// own addresses (RFC 1122 §3.2.2, RFC 4443 §2.4(e)).
    fn answering(&self, packet: &Packet<'_>, layers: &Layers, from: From) -> Option<[u8; 6]> {
        let hop = match layers.tuple.version() {
            4 => self.fib.tables.hop4(layers.tuple.src_v4()),
            _ => self.fib.tables.hop6(layers.tuple.src_bytes()),
        };
        let interface = self.interfaces.get(from.interface)?;
        let own = layers.tuple.src().is_some_and(|src| interface.has(src));
        let host = match self.fib.hop(hop).map(|hop| hop.kind) {
            Some(Kind::Local | Kind::Broadcast | Kind::Multicast | Kind::Martian) => false,
            Some(_) | None => !own,
        };
        let peer = peer(packet.data())?;
        (host && peer[0] & 1 == 0 && peer != [0; 6]).then_some(interface.mac.0)
    }

    /// Makes the packet an error about itself, if there may be one; else it is dropped for `reason`.
    fn tell(
        &mut self,
        packet: &mut Packet<'_>,
        layers: &Layers,
        from: From,
        what: What,
        reason: Reason,
        ctx: &Ctx<'_>,
    ) -> Result<Verdict, Reason> {
        let src = layers.tuple.src().and_then(|to| self.interfaces.get(from.interface)?.source(to));
        let mac = self.answering(packet, layers, from).filter(|_| may_be_told(packet.data(), layers));
        let (Some(mac), Some(src)) = (mac, src) else {
            self.count(|c| c.suppressed, ctx);
            return Err(reason);
        };
        if !self.interfaces.get_mut(from.interface).is_some_and(|i| i.errors.take(ctx.now_ns())) {
            self.count(|c| c.limited, ctx);
            return Err(reason);
        }
        let done = match src {
            IpAddr::V4(src) => {
                self.identification = self.identification.wrapping_add(1);
                icmp::error4(packet, layers, (mac, Ipv4Addr::octets(&src)), self.identification, what)
            }
            IpAddr::V6(src) => icmp::error6(packet, layers, (mac, src.octets()), what),
        };
        if !done {
            self.count(|c| c.suppressed, ctx);
            return Err(reason);
        }
        self.count(
            |c| match what {
                What::TimeExceeded => c.time_exceeded,
                What::TooBig(_) => c.packet_too_big,
                What::NoRoute | What::NoNeighbour | What::NoPort | What::BeyondScope => c.unreachable,
            },
            ctx,
        );
        Ok(self.out(from, from.interface))
    }
}

/// Whether options ask for a way of their own (RFC 791 §3.1): nobody but an attacker does (RFC 7126 §4.3, §4.4). What
/// follows a broken option is not looked at, as no router could.
fn is_source_routed(mut options: &[u8]) -> bool {
    while let Some((kind, rest)) = options.split_first() {
        options = match kind {
            0 => return false,
            1 => rest,
            131 | 137 => return true,
            _ => match rest.first() {
                Some(len) if *len >= 2 => options.get(usize::from(*len)..).unwrap_or_default(),
                _ => return false,
            },
        };
    }
    false
}
