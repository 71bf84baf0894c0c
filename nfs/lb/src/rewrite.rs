//! What changes in a packet. Checksums are mended by what changed (RFC 1624), never computed anew: a packet that came
//! with a wrong one leaves with a wrong one.

use chainline_packet::checksum::Delta;
use chainline_packet::ether::Mac;
use chainline_packet::{Layers, proto};
use std::net::IpAddr;

/// Where a packet's headers are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub l3: u16,
    /// 0: layer 4 is not in this packet.
    pub l4: u16,
    pub v6: bool,
    pub tcp: bool,
    /// TCP's flags; 0 of others.
    pub flags: u8,
    /// The service's index.
    pub service: u32,
}

impl Place {
    #[inline]
    pub fn new(data: &[u8], layers: &Layers, service: u32) -> Self {
        let tcp = layers.tuple.proto() == proto::TCP;
        let flags = if tcp && layers.l4 != 0 { data.get(usize::from(layers.l4) + 13).copied().unwrap_or(0) } else { 0 };
        Self { l3: layers.l3, l4: layers.l4, v6: layers.tuple.version() == 6, tcp, flags, service }
    }
}

/// Which address of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

/// An address and port to write, with what that does to the checksums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub addr: [u8; 16],
    /// 0: as it was.
    pub port: u16,
    ip: Delta,
    l4: Delta,
}

impl Target {
    /// From one address and port to the other, of one IP version; `ports` are the same where the port stays.
    pub fn new(from: IpAddr, to: IpAddr, ports: Option<(u16, u16)>) -> Self {
        let (old, new) = (bytes(from), bytes(to));
        let ip = Delta::new().bytes(&old, &new);
        let (l4, port) = match ports {
            Some((old, new)) if old != new => (ip.word(old, new), new),
            _ => (ip, 0),
        };
        Self { addr: new, port, ip, l4 }
    }
}

/// An address in 16 bytes, IPv4 in the first four.
pub(crate) fn bytes(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(a) => u128::from(u32::from_le_bytes(a.octets())).to_le_bytes(),
        IpAddr::V6(a) => a.octets(),
    }
}

/// Writes the address and port of one side.
#[inline]
pub(crate) fn nat(data: &mut [u8], place: &Place, side: Side, target: &Target) {
    let Some(header) = data.get_mut(usize::from(place.l3)..) else { return };
    if place.v6 {
        let at = if side == Side::Source { 8 } else { 24 };
        let Some(addr) = header.get_mut(at..at + 16) else { return };
        addr.copy_from_slice(&target.addr);
    } else {
        let Some(header) = header.first_chunk_mut::<20>() else { return };
        let sum = target.ip.apply(u16::from_be_bytes([header[10], header[11]]));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let at = if side == Side::Source { 12 } else { 16 };
        header[at..at + 4].copy_from_slice(&target.addr[..4]);
    }
    if place.l4 == 0 {
        return;
    }
    let Some(l4) = data.get_mut(usize::from(place.l4)..) else { return };
    if target.port != 0 {
        let at = if side == Side::Source { 0 } else { 2 };
        let Some(port) = l4.get_mut(at..at + 2) else { return };
        port.copy_from_slice(&target.port.to_be_bytes());
    }
    let at = if place.tcp { 16 } else { 6 };
    let Some(field) = l4.get_mut(at..at + 2) else { return };
    let sum = u16::from_be_bytes([field[0], field[1]]);
    let sum = if place.tcp { target.l4.apply(sum) } else { target.l4.apply_udp(sum) };
    field.copy_from_slice(&sum.to_be_bytes());
}

/// Addresses the frame to a backend's hardware address.
#[inline]
pub(crate) fn dsr(data: &mut [u8], to: Mac, from: Option<Mac>) {
    let Some(head) = data.first_chunk_mut::<12>() else { return };
    head[..6].copy_from_slice(&to.0);
    if let Some(from) = from {
        head[6..].copy_from_slice(&from.0);
    }
}
