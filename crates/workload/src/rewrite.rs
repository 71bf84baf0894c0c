//! Replays a capture between other addresses.
//!
//! Each address gets the next free host of a prefix, the same wherever it appears: an address that sends and receives
//! has the same host part in the source and in the destination prefix, so with one prefix for both the two directions
//! of a connection still belong together. Ports, and everything else, stay as they are. Checksums are updated by the
//! difference (RFC 1624), so a wrong one stays wrong and the 0 of UDP without a checksum stays 0.

use crate::flow::Prefix;
use chainline_packet::{Fragment, checksum, parse, proto};
use std::collections::HashMap;
use std::net::IpAddr;

/// Rewrites addresses of frames.
#[derive(Clone, Debug)]
pub struct Rewrite {
    src: Option<Prefix>,
    dst: Option<Prefix>,
    /// The host number of each address seen so far.
    hosts: HashMap<[u8; 16], u32>,
    /// Addresses for which a prefix had no host left.
    shared: u64,
}

impl Rewrite {
    /// Source addresses into `src`, destination addresses into `dst`; `None` leaves them as they are. Packets of another
    /// IP version than the prefix keep their address.
    #[must_use]
    pub fn new(src: Option<Prefix>, dst: Option<Prefix>) -> Self {
        Self { src, dst, hosts: HashMap::new(), shared: 0 }
    }

    /// How many addresses had to share another's, since the prefix has fewer.
    #[must_use]
    pub fn shared(&self) -> u64 {
        self.shared
    }

    /// Different addresses so far.
    #[must_use]
    pub fn addresses(&self) -> usize {
        self.hosts.len()
    }

    /// Rewrites a frame that begins with its Ethernet header. Frames without a whole IP header stay as they are; of a frame
    /// that is cut, the checksum field may be among what is cut.
    pub fn apply(&mut self, frame: &mut [u8]) {
        let layers = parse(frame);
        let (Some(src), Some(dst)) = (layers.tuple.src(), layers.tuple.dst()) else { return };
        let l3 = usize::from(layers.l3);
        let (src_at, dst_at) = if src.is_ipv4() { (l3 + 12, l3 + 16) } else { (l3 + 8, l3 + 24) };
        let first = layers.l4 > 0 && matches!(layers.fragment, Fragment::Whole | Fragment::First);
        let l4 = first.then(|| usize::from(layers.l4));
        let ip_checksum = src.is_ipv4().then_some(l3 + 10);
        for (prefix, old, at) in [(self.src, src, src_at), (self.dst, dst, dst_at)] {
            let Some(prefix) = prefix.filter(|p| p.addr.is_ipv4() == old.is_ipv4()) else { continue };
            let new = prefix.with_low(prefix.low() | self.host(old) & prefix.mask());
            let fields = [ip_checksum, l4.and_then(|l4| l4_checksum(layers.tuple.proto(), l4, frame))];
            replace(frame, at, old, new, fields);
        }
    }

    /// The number of an address among those seen, counted from 1 so that the first is not the network's own.
    fn host(&mut self, address: IpAddr) -> u32 {
        let key = match address {
            IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
            IpAddr::V6(a) => a.octets(),
        };
        let next = (self.hosts.len() as u32).wrapping_add(1);
        let host = *self.hosts.entry(key).or_insert(next);
        let v4 = address.is_ipv4();
        let fewest =
            [self.src, self.dst].into_iter().flatten().filter(|p| p.addr.is_ipv4() == v4).map(Prefix::mask).min();
        if host == next && fewest.is_some_and(|mask| host > mask) {
            self.shared += 1;
        }
        host
    }
}

/// Where the checksum is that covers the addresses, if there is one.
fn l4_checksum(protocol: u8, l4: usize, frame: &[u8]) -> Option<usize> {
    let at = match protocol {
        proto::TCP => l4 + 16,
        // 0: the sender made none (RFC 768).
        proto::UDP if frame.get(l4 + 6..l4 + 8) == Some(&[0, 0]) => return None,
        proto::UDP | proto::UDP_LITE => l4 + 6,
        proto::ICMPV6 => l4 + 2,
        _ => return None,
    };
    // SCTP's covers no addresses, ICMP's neither.
    Some(at)
}

/// Puts `new` where `old` is, and mends the checksums at `fields`.
fn replace(frame: &mut [u8], at: usize, old: IpAddr, new: IpAddr, fields: [Option<usize>; 2]) {
    let octets = |a: IpAddr| match a {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let (old, new) = (octets(old), octets(new));
    let Some(place) = frame.get_mut(at..at + new.len()) else { return };
    place.copy_from_slice(&new);
    let words = |a: &[u8]| a.chunks_exact(2).map(|w| u16::from_be_bytes([w[0], w[1]])).collect::<Vec<_>>();
    let (old, new) = (words(&old), words(&new));
    for field in fields.into_iter().flatten() {
        let Some(bytes) = frame.get_mut(field..field + 2) else { continue };
        let mut sum = u16::from_be_bytes([bytes[0], bytes[1]]);
        for (old, new) in old.iter().zip(&new) {
            sum = checksum::update(sum, *old, *new);
        }
        // Both forms of zero are right in a sum, but UDP's 0 would say that there is none.
        bytes.copy_from_slice(&if sum == 0 { 0xffff_u16 } else { sum }.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mix, Order, Proto, Space, Spec, Vlan, Workload};
    use proptest::prelude::*;

    fn v4(a: u8, len: u8) -> Prefix {
        Prefix { addr: IpAddr::from([a, 0, 0, 0]), len }
    }

    fn frames(v6: bool, proto: Proto, vlan: Vlan) -> Vec<Vec<u8>> {
        let prefix = |text: &str| Prefix { addr: text.parse().unwrap(), len: if v6 { 112 } else { 16 } };
        let space = if v6 {
            Space { proto, src: prefix("2001:db8:1::"), dst: prefix("2001:db8:2::"), ..Space::default() }
        } else {
            Space { proto, ..Space::default() }
        };
        let spec = Spec { flows: 40, order: Order::Random, space, vlan, ..Spec::new(Mix::constant(130).unwrap()) };
        let mut all = Vec::new();
        Workload::new(&spec).unwrap().burst(100, |frame| {
            let mut bytes = vec![0; 126];
            let _ = frame.write(&mut bytes).unwrap();
            all.push(bytes);
        });
        all
    }

    fn right(frame: &[u8]) -> bool {
        let layers = parse(frame);
        let (l3, l4, end) = (usize::from(layers.l3), usize::from(layers.l4), usize::from(layers.end));
        let (proto, len) = (layers.tuple.proto(), end - l4);
        let pseudo = if layers.tuple.version() == 6 {
            checksum::pseudo_ipv6(&layers.tuple.src_bytes(), &layers.tuple.dst_bytes(), proto, len as u32)
        } else {
            let (src, dst) = (layers.tuple.src_v4().to_be_bytes(), layers.tuple.dst_v4().to_be_bytes());
            if checksum::checksum(&frame[l3..l4]) != 0 {
                return false;
            }
            checksum::pseudo_ipv4(src, dst, proto, len as u16)
        };
        pseudo.bytes(&frame[l4..end]).checksum() == 0
    }

    #[test]
    fn addresses_are_replaced_one_for_one_and_checksums_stay_right() {
        for (v6, proto, vlan) in [
            (false, Proto::Udp, Vlan::None),
            (false, Proto::Tcp, Vlan::Two(5, 6)),
            (true, Proto::Udp, Vlan::One(7)),
            (true, Proto::Tcp, Vlan::None),
        ] {
            let net = if v6 { Prefix { addr: "fd00:1::".parse().unwrap(), len: 64 } } else { v4(10, 8) };
            let mut rewrite = Rewrite::new(Some(net), Some(net));
            let mut map = HashMap::new();
            for mut frame in frames(v6, proto, vlan) {
                let before = parse(&frame);
                rewrite.apply(&mut frame);
                let after = parse(&frame);
                assert!(right(&frame), "{before:?}");
                assert_eq!((before.tuple.src_port(), before.tci), (after.tuple.src_port(), after.tci));
                for (old, new) in [(before.tuple.src(), after.tuple.src()), (before.tuple.dst(), after.tuple.dst())] {
                    assert_eq!(*map.entry(old.unwrap()).or_insert(new), new);
                    let new = new.unwrap().to_string();
                    assert!(new.starts_with(if v6 { "fd00:1::" } else { "10." }), "{new}");
                }
            }
            let distinct: std::collections::HashSet<_> = map.values().collect();
            assert_eq!((distinct.len(), rewrite.addresses(), rewrite.shared()), (map.len(), map.len(), 0));
        }
    }

    #[test]
    fn both_directions_of_a_connection_still_belong_together() {
        let mut frame = frames(false, Proto::Tcp, Vlan::None).remove(0);
        let mut back = frame.clone();
        back[26..30].copy_from_slice(&frame[30..34]);
        back[30..34].copy_from_slice(&frame[26..30]);
        let mut rewrite = Rewrite::new(Some(v4(10, 8)), Some(v4(10, 8)));
        rewrite.apply(&mut frame);
        rewrite.apply(&mut back);
        assert_eq!((&back[26..30], &back[30..34]), (&frame[30..34], &frame[26..30]));
    }

    #[test]
    fn other_versions_missing_checksums_and_small_prefixes() {
        let mut v6 = frames(true, Proto::Udp, Vlan::None).remove(0);
        let before = v6.clone();
        let mut rewrite = Rewrite::new(Some(v4(10, 8)), None);
        rewrite.apply(&mut v6);
        assert_eq!(v6, before);
        let mut udp = frames(false, Proto::Udp, Vlan::None).remove(0);
        let dst = udp[30..34].to_vec();
        udp[40..42].fill(0);
        rewrite.apply(&mut udp);
        assert_eq!((udp[40..42].to_vec(), udp[30..34].to_vec()), (vec![0, 0], dst));
        assert_eq!(udp[26], 10);
        let mut one = Rewrite::new(Some(v4(10, 31)), None);
        frames(false, Proto::Udp, Vlan::None).iter_mut().for_each(|f| one.apply(f));
        assert_eq!(one.shared() as usize, one.addresses() - 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(mut frame in prop::collection::vec(any::<u8>(), 0..120), v4_type: bool) {
            if v4_type && frame.len() > 15 {
                frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            }
            let len = frame.len();
            let net = Prefix { addr: "fd00::".parse().unwrap(), len: 64 };
            Rewrite::new(Some(v4(10, 8)), Some(v4(11, 8))).apply(&mut frame);
            Rewrite::new(Some(net), Some(net)).apply(&mut frame);
            prop_assert_eq!(frame.len(), len);
        }
    }
}
