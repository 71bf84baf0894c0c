//! Answers to neighbour solicitations for the router's own addresses (RFC 4861 §7.2).

use crate::L3;
use crate::icmp::{checksum6_ok, peer};
use crate::state::{Core, From};
use chainline_nf::{Ctx, Packet, Reason, Verdict};
use chainline_packet::checksum::pseudo_ipv6;
use chainline_packet::{Fragment, Layers, ether, proto};
use std::net::Ipv6Addr;

/// ICMPv6 type of a neighbour solicitation.
const SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement.
const ADVERTISEMENT: u8 = 136;
/// A packet that has this hop limit was not forwarded (RFC 4861 §3.1).
const HOP_LIMIT: u8 = 255;
/// An advertisement with its one option.
const LEN: usize = 32;

/// Whether a packet is a solicitation, right or wrong.
pub(crate) fn is_solicitation(data: &[u8], layers: &Layers) -> bool {
    // A solicitation in fragments is none (RFC 6980); its message stands right behind the fixed header, as there are no
    // extension headers that it would need.
    layers.tuple.proto() == proto::ICMPV6
        && layers.fragment == Fragment::Whole
        && usize::from(layers.l4) == L3 + 40
        && data.get(L3 + 40) == Some(&SOLICITATION)
}

/// A solicitation that may be answered.
struct Solicitation {
    src: Ipv6Addr,
    target: Ipv6Addr,
}

/// Checks what RFC 4861 §7.1.1 lists.
fn read(data: &[u8], layers: &Layers) -> Option<Solicitation> {
    let (ip, message) = data.get(L3..usize::from(layers.end))?.split_first_chunk::<40>()?;
    let (head, mut options) = message.split_first_chunk::<24>()?;
    let (src, dst): (&[u8; 16], &[u8; 16]) = (ip[8..].first_chunk()?, ip[24..].first_chunk()?);
    let target = Ipv6Addr::from(*head[8..].first_chunk::<16>()?);
    if ip[7] != HOP_LIMIT || head[1] != 0 || target.is_multicast() || !checksum6_ok(ip, message) {
        return None;
    }
    let src = Ipv6Addr::from(*src);
    while let Some((kind, rest)) = options.split_first() {
        let len = usize::from(*rest.first()?) * 8;
        // Who has no address yet does not say under which hardware address that is.
        if len == 0 || (*kind == 1 && src.is_unspecified()) {
            return None;
        }
        options = options.get(len..)?;
    }
    let group = solicited_node(&target) == Ipv6Addr::from(*dst);
    let fits = if src.is_unspecified() { group } else { !src.is_multicast() };
    fits.then_some(Solicitation { src, target })
}

/// The group in which a host with this address listens (RFC 4291 §2.7.1).
fn solicited_node(address: &Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

impl Core {
    pub(crate) fn solicited(
        &mut self,
        packet: &mut Packet<'_>,
        layers: &Layers,
        from: From,
        ctx: &Ctx<'_>,
    ) -> Result<Verdict, Reason> {
        let refused = self.reasons.nd;
        let interface = self.interfaces.get(from.interface).ok_or(refused)?;
        let Solicitation { src, target } = read(packet.data(), layers).ok_or(refused)?;
        let asker = peer(packet.data()).filter(|mac| mac[0] & 1 == 0).ok_or(refused)?;
        if !interface.has(target.into()) {
            return Err(refused);
        }
        let mac = interface.mac.0;
        // Somebody else has the address that it is about to take: all are to hear it.
        let (dst, to, solicited) = if src.is_unspecified() {
            (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), [0x33, 0x33, 0, 0, 0, 1], 0)
        } else {
            (src, asker, 0x40)
        };
        if !packet.set_len((L3 + 40 + LEN) as u16) {
            return Err(refused);
        }
        let frame = packet.data_mut().first_chunk_mut::<{ L3 + 40 + LEN }>().ok_or(refused)?;
        frame[..6].copy_from_slice(&to);
        frame[6..12].copy_from_slice(&mac);
        frame[12..L3].copy_from_slice(&ether::IPV6.to_be_bytes());
        let (ip, message) = frame[L3..].split_at_mut(40);
        let (target, dst) = (target.octets(), dst.octets());
        ip[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, LEN as u8, proto::ICMPV6, HOP_LIMIT]);
        ip[8..24].copy_from_slice(&target);
        ip[24..].copy_from_slice(&dst);
        // Router, solicited, override.
        message[..8].copy_from_slice(&[ADVERTISEMENT, 0, 0, 0, 0x80 | solicited | 0x20, 0, 0, 0]);
        message[8..24].copy_from_slice(&target);
        // Target link-layer address, in units of eight bytes.
        message[24..26].copy_from_slice(&[2, 1]);
        message[26..].copy_from_slice(&mac);
        let sum = pseudo_ipv6(&target, &dst, proto::ICMPV6, LEN as u32).bytes(message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        self.count(|c| c.nd_replies, ctx);
        Ok(self.out(from, from.interface))
    }
}
