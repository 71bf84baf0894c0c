//! ICMP and ICMPv6 messages, made in the buffer of the packet that they answer.

use crate::L3;
use chainline_nf::Packet;
use chainline_packet::checksum::{Sum, checksum, pseudo_ipv6, update};
use chainline_packet::{Layers, Malformed, ether, proto};

/// Time to live of what the router sends itself (RFC 1700).
const TTL: u8 = 64;
/// DSCP CS6, as RFC 1812 §4.3.2.5 wants it for errors.
const CLASS: u8 = 0xc0;
/// The longest error over IPv4 (RFC 1812 §4.3.2.3), and over IPv6 (RFC 4443 §2.4(c)): what everybody takes.
const MAX4: usize = 576;
const MAX6: usize = 1280;
/// What stands before the quoted packet: IP and ICMP headers.
const HEAD4: usize = 28;
const HEAD6: usize = 48;

/// What an error says; the numbers of ICMP and ICMPv6 differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    NoRoute,
    NoNeighbour,
    NoPort,
    BeyondScope,
    TimeExceeded,
    TooBig(u16),
}

impl What {
    /// Type, code and the rest of the header in ICMP (RFC 792, RFC 1191 §4).
    const fn v4(self) -> (u8, u8, u32) {
        match self {
            Self::NoRoute | Self::BeyondScope => (3, 0, 0),
            Self::NoNeighbour => (3, 1, 0),
            Self::NoPort => (3, 3, 0),
            Self::TooBig(mtu) => (3, 4, mtu as u32),
            Self::TimeExceeded => (11, 0, 0),
        }
    }

    /// In ICMPv6 (RFC 4443 §3).
    const fn v6(self) -> (u8, u8, u32) {
        match self {
            Self::NoRoute => (1, 0, 0),
            Self::BeyondScope => (1, 2, 0),
            Self::NoNeighbour => (1, 3, 0),
            Self::NoPort => (1, 4, 0),
            Self::TooBig(mtu) => (2, 0, mtu as u32),
            Self::TimeExceeded => (3, 0, 0),
        }
    }
}

/// Whether there may be an error about a packet, by what it carries: not if that is an error itself or could be one, nor
/// about later fragments (RFC 1122 §3.2.2, RFC 4443 §2.4(e)).
pub(crate) fn may_be_told(data: &[u8], layers: &Layers) -> bool {
    let kind = || (layers.l4 != 0).then(|| data.get(usize::from(layers.l4)).copied()).flatten();
    let later = layers.fragment == chainline_packet::Fragment::Later;
    match (layers.tuple.version(), layers.tuple.proto()) {
        (4, _) if later => false,
        // Queries and replies by name; what else there is, or will be, may be an error.
        (4, proto::ICMP) => kind().is_some_and(|kind| matches!(kind, 0 | 8 | 9 | 10 | 13..=18 | 42 | 43)),
        // The upper layer was not found.
        (6, _) if later || layers.malformed == Some(Malformed::Extensions) => false,
        // Redirects count as errors here.
        (6, proto::ICMPV6) => kind().is_some_and(|kind| kind >= 128 && kind != 137),
        _ => true,
    }
}

/// Hardware addresses of an answer: back to whom the frame came from.
fn turn_round(mac: [u8; 6], peer: [u8; 6], ethertype: u16) -> [u8; L3] {
    let mut head = [0; L3];
    head[..6].copy_from_slice(&peer);
    head[6..12].copy_from_slice(&mac);
    head[12..].copy_from_slice(&ethertype.to_be_bytes());
    head
}

/// Who the frame came from.
pub(crate) fn peer(data: &[u8]) -> Option<[u8; 6]> {
    data.get(6..12)?.first_chunk().copied()
}

/// Makes an ICMP error about the IPv4 packet in the buffer, from `src`. `false`, and no change, without room.
pub(crate) fn error4(
    packet: &mut Packet<'_>,
    layers: &Layers,
    (mac, src): ([u8; 6], [u8; 4]),
    identification: u16,
    what: What,
) -> bool {
    let quoted = usize::from(layers.end).saturating_sub(L3).min(MAX4 - HEAD4);
    let data = packet.data();
    let (Some(peer), Some(dst)) = (peer(data), data.get(L3 + 12..).and_then(|d| d.first_chunk::<4>()).copied()) else {
        return false;
    };
    if !packet.push_front(HEAD4 as u16) || !packet.set_len((L3 + HEAD4 + quoted) as u16) {
        return false;
    }
    let data = packet.data_mut();
    let Some((head, quote)) = data.split_first_chunk_mut::<{ L3 + HEAD4 }>() else { return false };
    head[..L3].copy_from_slice(&turn_round(mac, peer, ether::IPV4));
    let (ip, icmp) = head[L3..].split_at_mut(20);
    let (kind, code, rest) = what.v4();
    icmp.fill(0);
    (icmp[0], icmp[1]) = (kind, code);
    icmp[4..8].copy_from_slice(&rest.to_be_bytes());
    let sum = Sum::new().bytes(icmp).bytes(quote).checksum();
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    ip.fill(0);
    (ip[0], ip[1], ip[8], ip[9]) = (0x45, CLASS, TTL, proto::ICMP);
    ip[2..4].copy_from_slice(&((HEAD4 + quoted) as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&identification.to_be_bytes());
    ip[12..16].copy_from_slice(&src);
    ip[16..20].copy_from_slice(&dst);
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Makes an ICMPv6 error about the IPv6 packet in the buffer. `false`, and no change, without room.
pub(crate) fn error6(packet: &mut Packet<'_>, layers: &Layers, (mac, src): ([u8; 6], [u8; 16]), what: What) -> bool {
    let quoted = usize::from(layers.end).saturating_sub(L3).min(MAX6 - HEAD6);
    let data = packet.data();
    let (Some(peer), Some(dst)) = (peer(data), data.get(L3 + 8..).and_then(|d| d.first_chunk::<16>()).copied()) else {
        return false;
    };
    if !packet.push_front(HEAD6 as u16) || !packet.set_len((L3 + HEAD6 + quoted) as u16) {
        return false;
    }
    let data = packet.data_mut();
    let Some((head, quote)) = data.split_first_chunk_mut::<{ L3 + HEAD6 }>() else { return false };
    head[..L3].copy_from_slice(&turn_round(mac, peer, ether::IPV6));
    let (ip, icmp) = head[L3..].split_at_mut(40);
    let (kind, code, rest) = what.v6();
    icmp.fill(0);
    (icmp[0], icmp[1]) = (kind, code);
    icmp[4..8].copy_from_slice(&rest.to_be_bytes());
    let len = 8 + quoted;
    let sum = pseudo_ipv6(&src, &dst, proto::ICMPV6, len as u32).bytes(icmp).bytes(quote).checksum();
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    // Version 6, traffic class as over IPv4, no flow label.
    ip[..4].copy_from_slice(&[0x60 | CLASS >> 4, CLASS << 4, 0, 0]);
    ip[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    (ip[6], ip[7]) = (proto::ICMPV6, TTL);
    ip[8..24].copy_from_slice(&src);
    ip[24..40].copy_from_slice(&dst);
    true
}

/// Whether the ICMP message in `message` has a right checksum.
pub(crate) fn checksum4_ok(message: &[u8]) -> bool {
    message.len() >= 8 && checksum(message) == 0
}

/// Whether the ICMPv6 message in `message`, of the IPv6 packet that begins with `ip`, has a right checksum.
pub(crate) fn checksum6_ok(ip: &[u8; 40], message: &[u8]) -> bool {
    let (Some(src), Some(dst)) = (ip[8..].first_chunk(), ip[24..].first_chunk()) else { return false };
    pseudo_ipv6(src, dst, proto::ICMPV6, message.len() as u32).bytes(message).fold() == 0xffff
}

/// Turns an echo request over IPv4 into its reply (RFC 1122 §3.2.2.6). `false`, and no change, without whole headers.
pub(crate) fn echo4(packet: &mut Packet<'_>, layers: &Layers, mac: [u8; 6]) -> bool {
    let l4 = usize::from(layers.l4);
    let data = packet.data_mut();
    let (Some(peer), Some(ip_len)) = (peer(data), l4.checked_sub(L3)) else { return false };
    let Some(message) = data.get_mut(l4..layers.end.into()).filter(|m| m.len() >= 8) else { return false };
    message[0] = 0;
    message[2..4].fill(0);
    // Anew, as what changed does not say it: a reply may be all zeros, which no change leads to (RFC 1624 §5).
    let sum = checksum(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let Some(ip) = data.get_mut(L3..L3 + ip_len).filter(|ip| ip.len() >= 20) else { return false };
    swap(ip, 12, 16, 4);
    // May be fragmented on its way, whatever the request was.
    (ip[6], ip[7], ip[8]) = (0, 0, TTL);
    ip[10..12].fill(0);
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    data[..L3].copy_from_slice(&turn_round(mac, peer, ether::IPV4));
    true
}

/// The same over IPv6 (RFC 4443 §4.2); the message stands behind the fixed header.
pub(crate) fn echo6(packet: &mut Packet<'_>, mac: [u8; 6]) -> bool {
    let Some(head) = packet.data_mut().first_chunk_mut::<{ L3 + 48 }>() else { return false };
    let [.., a, b, c, d, _, _, _, _] = head;
    let sum = update(u16::from_be_bytes([*c, *d]), u16::from_be_bytes([128, *b]), u16::from_be_bytes([129, *b]));
    *a = 129;
    [*c, *d] = sum.to_be_bytes();
    let Some(peer) = peer(head) else { return false };
    let ip = &mut head[L3..];
    swap(ip, 8, 24, 16);
    ip[7] = TTL;
    head[..L3].copy_from_slice(&turn_round(mac, peer, ether::IPV6));
    true
}

/// Swaps `len` bytes at `a` and at `b`, which is further on.
fn swap(bytes: &mut [u8], a: usize, b: usize, len: usize) {
    let (front, back) = bytes.split_at_mut(b);
    front[a..a + len].swap_with_slice(&mut back[..len]);
}
