//! What changes in a packet. Checksums are mended by what changed (RFC 1624), never computed anew: a packet that came
//! with a wrong one leaves with a wrong one.

use crate::book::{Ends, PROTOS};
use crate::track;
use chainline_packet::checksum::Delta;
use chainline_packet::{FiveTuple, Fragment, Layers, proto};

/// Where a packet's headers are, and what it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub l3: u16,
    /// 0: layer 4 is not in this packet.
    pub l4: u16,
    /// Of ports: 0 TCP, 1 UDP, 2 ICMP.
    pub space: u8,
    /// TCP's flags; 0 of others.
    pub flags: u8,
    /// There are more fragments.
    pub first: bool,
}

impl Place {
    #[inline]
    pub fn new(data: &[u8], layers: &Layers) -> Self {
        let space = crate::book::space_of(layers.tuple.proto());
        let flags = if space == 0 { data.get(usize::from(layers.l4) + 13).copied().unwrap_or(0) } else { 0 };
        Self { l3: layers.l3, l4: layers.l4, space, flags, first: layers.fragment == Fragment::First }
    }

    #[inline]
    pub fn tcp(&self) -> bool {
        self.space == 0
    }

    /// Whether a packet may begin a TCP connection: a SYN and nothing else.
    pub fn begins(&self) -> bool {
        self.flags & (track::SYN | track::ACK | track::RST | track::FIN) == track::SYN
    }
}

/// Which endpoint of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

/// The changes of an IP header's checksum and of layer 4's.
pub(crate) fn deltas(from: (u32, u16), to: (u32, u16), space: u8) -> (Delta, Delta) {
    let ip = Delta::new().bytes(&from.0.to_be_bytes(), &to.0.to_be_bytes());
    // ICMP has no pseudo-header.
    let l4 = if space == 2 { Delta::new() } else { ip };
    (ip, l4.word(from.1, to.1))
}

/// Writes one endpoint.
#[inline]
pub(crate) fn endpoint(data: &mut [u8], place: &Place, side: Side, addr: [u8; 4], port: u16, ip: Delta, l4: Delta) {
    address(data, place, side, addr, ip);
    if place.l4 == 0 {
        return;
    }
    let Some(header) = data.get_mut(usize::from(place.l4)..) else { return };
    let (port_at, sum_at) = match (place.space, side) {
        (2, _) => (4, 2),
        (0, Side::Source) => (0, 16),
        (0, Side::Destination) => (2, 16),
        (_, Side::Source) => (0, 6),
        (_, Side::Destination) => (2, 6),
    };
    let Some(field) = header.get_mut(port_at..port_at + 2) else { return };
    field.copy_from_slice(&port.to_be_bytes());
    let Some(field) = header.get_mut(sum_at..sum_at + 2) else { return };
    let sum = u16::from_be_bytes([field[0], field[1]]);
    let sum = if place.space == 1 { l4.apply_udp(sum) } else { l4.apply(sum) };
    field.copy_from_slice(&sum.to_be_bytes());
}

/// Writes one address; `ip` is what that does to the header's checksum.
#[inline]
pub(crate) fn address(data: &mut [u8], place: &Place, side: Side, addr: [u8; 4], ip: Delta) {
    let header = data.get_mut(usize::from(place.l3)..).and_then(|h| h.first_chunk_mut::<20>());
    let Some(header) = header else { return };
    let sum = ip.apply(u16::from_be_bytes([header[10], header[11]]));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let at = if side == Side::Source { 12 } else { 16 };
    header[at..at + 4].copy_from_slice(&addr);
}

/// What an ICMP message is to a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Icmp {
    /// Echo, timestamp, information and address mask request.
    Query,
    Reply,
    /// Tells of a packet.
    Error,
    Other,
}

/// By RFC 792 and RFC 950; router discovery, redirects and source quench (RFC 6633) are for neighbours or nobody.
pub(crate) fn icmp_kind(kind: u8) -> Icmp {
    match kind {
        8 | 13 | 15 | 17 => Icmp::Query,
        0 | 14 | 16 | 18 => Icmp::Reply,
        3 | 11 | 12 => Icmp::Error,
        _ => Icmp::Other,
    }
}

/// The flow of an ICMP query or reply: the identifier is the port of whoever asks.
pub(crate) fn query_flow(data: &[u8], layers: &Layers) -> Option<(Icmp, FiveTuple)> {
    let head: &[u8; 8] = data.get(usize::from(layers.l4)..)?.first_chunk()?;
    let (kind, id) = (icmp_kind(head[0]), u16::from_be_bytes([head[4], head[5]]));
    let (src, dst) = (layers.tuple.src_v4(), layers.tuple.dst_v4());
    let (src_port, dst_port) = if kind == Icmp::Query { (id, 0) } else { (0, id) };
    Some((kind, FiveTuple::v4(src.into(), dst.into(), src_port, dst_port, proto::ICMP)))
}

/// The ends of a flow as it leaves the inside.
pub(crate) fn ends(flow: &FiveTuple, space: u8) -> Ends {
    debug_assert_eq!(PROTOS[usize::from(space)], flow.proto());
    Ends { space, inside: (flow.src_v4(), flow.src_port()), remote: (flow.dst_v4(), flow.dst_port()) }
}
