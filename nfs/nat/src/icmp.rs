//! ICMP errors: they go where the flow goes that they tell of, and speak of the endpoints that are known there
//! (RFC 5508 §4).

use crate::rewrite::{Icmp, Side, icmp_kind};
use chainline_packet::checksum::{Delta, checksum};
use chainline_packet::{FiveTuple, Layers, proto};
use std::net::Ipv4Addr;

/// The packet that an error tells of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted {
    /// Its flow; of a query or reply, the identifier is the port of whoever asked.
    pub flow: FiveTuple,
    /// Where its headers start in the frame.
    l3: usize,
    l4: usize,
}

/// What an error quotes, if its own and the quoted header's checksum are right (RFC 5508 §4.1, REQ-3) and the quoted
/// packet is one that a NAT sends on: ports or identifier must be there. Checksums of the quoted layer 4 are not
/// looked at.
pub(crate) fn quoted(data: &[u8], layers: &Layers) -> Option<Quoted> {
    let datagram = data.get(..usize::from(layers.end))?;
    let l4 = usize::from(layers.l4);
    if checksum(datagram.get(l4..)?) != 0 {
        return None;
    }
    let l3 = l4 + 8;
    let head: &[u8; 20] = datagram.get(l3..)?.first_chunk()?;
    let len = usize::from(head[0] & 15) * 4;
    let later = u16::from_be_bytes([head[6], head[7]]) & 0x1fff != 0;
    if head[0] >> 4 != 4 || len < 20 || later || checksum(datagram.get(l3..l3 + len)?) != 0 {
        return None;
    }
    let l4 = l3 + len;
    let word = |at: usize| Some(u16::from_be_bytes(*datagram.get(at..)?.first_chunk()?));
    let (src_port, dst_port) = match head[9] {
        proto::TCP | proto::UDP => (word(l4)?, word(l4 + 2)?),
        proto::ICMP => match icmp_kind(*datagram.get(l4)?) {
            Icmp::Query => (word(l4 + 4)?, 0),
            Icmp::Reply => (0, word(l4 + 4)?),
            // Errors about errors are not to be (RFC 1122 §3.2.2).
            _ => return None,
        },
        _ => return None,
    };
    let address = |at: usize| Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]);
    let flow = FiveTuple::v4(address(12), address(16), src_port, dst_port, head[9]);
    Some(Quoted { flow, l3, l4 })
}

/// Another endpoint for `inner` of the quoted packet, and its address for `outer` of the error itself. All checksums,
/// quoted ones included, are mended.
pub(crate) fn rewrite(
    data: &mut [u8],
    layers: &Layers,
    quoted: &Quoted,
    inner: Side,
    outer: Side,
    addr: [u8; 4],
    port: u16,
) {
    let Some(datagram) = data.get_mut(..usize::from(layers.end)) else { return };
    let at = |l3: usize, side: Side| if side == Side::Source { l3 + 12 } else { l3 + 16 };
    let is_icmp = quoted.flow.proto() == proto::ICMP;
    // What changes in the quoted bytes is what the error's checksum covers.
    let ip = change(datagram, at(quoted.l3, inner), &addr);
    let port_at = match (is_icmp, inner) {
        (true, _) => 4,
        (false, Side::Source) => 0,
        (false, Side::Destination) => 2,
    };
    let ports = change(datagram, quoted.l4 + port_at, &port.to_be_bytes());
    let mut error = ip.plus(ports);
    error = error.plus(mend(datagram, quoted.l3 + 10, |sum| ip.apply(sum)));
    // Not all of layer 4 need be quoted.
    error = error.plus(match quoted.flow.proto() {
        proto::TCP => mend(datagram, quoted.l4 + 16, |sum| ip.plus(ports).apply(sum)),
        proto::UDP => mend(datagram, quoted.l4 + 6, |sum| ip.plus(ports).apply_udp(sum)),
        _ => mend(datagram, quoted.l4 + 2, |sum| ports.apply(sum)),
    });
    mend(datagram, usize::from(layers.l4) + 2, |sum| error.apply(sum));
    let l3 = usize::from(layers.l3);
    let outer = change(datagram, at(l3, outer), &addr);
    mend(datagram, l3 + 10, |sum| outer.apply(sum));
}

/// Writes `new`, and returns what that changed; without room nothing happens.
fn change(data: &mut [u8], at: usize, new: &[u8]) -> Delta {
    let Some(field) = data.get_mut(at..at + new.len()) else { return Delta::new() };
    let delta = Delta::new().bytes(field, new);
    field.copy_from_slice(new);
    delta
}

/// Mends a checksum, and returns what that changed.
fn mend(data: &mut [u8], at: usize, new: impl FnOnce(u16) -> u16) -> Delta {
    let Some(field) = data.get(at..at + 2) else { return Delta::new() };
    let new = new(u16::from_be_bytes([field[0], field[1]]));
    change(data, at, &new.to_be_bytes())
}
