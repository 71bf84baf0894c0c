use super::*;
use crate::flow_hash;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Ethernet, IPv4 without options, `l4` as payload.
fn ipv4(proto: u8, l4: &[u8]) -> Vec<u8> {
    let mut p = vec![0; 14 + 20];
    p[12..14].copy_from_slice(&[8, 0]);
    p[14] = 0x45;
    p[16..18].copy_from_slice(&(20 + l4.len() as u16).to_be_bytes());
    (p[22], p[23]) = (64, proto);
    p[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    p.extend_from_slice(l4);
    p
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0; 14 + 40];
    p[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    p[18..20].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    (p[20], p[21], p[37], p[53]) = (next, 64, 1, 2);
    p.extend_from_slice(payload);
    p
}

fn tcp() -> Vec<u8> {
    let mut h = vec![0; 20];
    h[..4].copy_from_slice(&[0x30, 0x39, 0, 80]);
    h[12] = 0x50;
    h
}

fn udp(payload: usize) -> Vec<u8> {
    let mut h = vec![0; 8 + payload];
    h[..4].copy_from_slice(&[0x30, 0x39, 0, 53]);
    let len = h.len() as u16;
    h[4..6].copy_from_slice(&len.to_be_bytes());
    h
}

#[test]
fn tcp_over_ipv4_takes_the_fast_path() {
    let mut p = ipv4(proto::TCP, &tcp());
    p.resize(60, 0);
    let l = parse_fast(&p).unwrap();
    assert_eq!(l.tuple, FiveTuple::v4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 12345, 80, 6));
    assert_eq!((l.ethertype, l.l3, l.l4, l.end, l.malformed), (ether::IPV4, 14, 34, 54, None));
}

#[test]
fn tags_are_stepped_over_and_a_third_hides_the_rest() {
    let plain = ipv4(proto::UDP, &udp(30));
    let tag = |p: &[u8], tpid: u16, tci: u16| {
        let mut t = p[..12].to_vec();
        t.extend_from_slice(&tpid.to_be_bytes());
        t.extend_from_slice(&tci.to_be_bytes());
        t.extend_from_slice(&p[12..]);
        t
    };
    let one = tag(&plain, ether::VLAN, 0x6064);
    let l = parse(&one);
    assert_eq!((l.tags, l.tci, l.vlan_ids(), l.l3), (1, [0x6064, 0], [0x64, 0], 18));
    assert_eq!(l.tuple, parse(&plain).tuple);
    let two = tag(&one, ether::QINQ, 7);
    let l = parse(&two);
    assert_eq!((l.tags, l.vlan_ids(), l.l4), (2, [7, 0x64], 42));
    assert_eq!(l.tuple, parse(&plain).tuple);
    let three = tag(&two, ether::QINQ, 8);
    let l = parse(&three);
    assert_eq!((l.tags, l.ethertype, l.tuple, l.malformed), (2, ether::VLAN, FiveTuple::NONE, None));
    assert_eq!(parse(&two[..20]).malformed, Some(Malformed::Vlan));
}

#[test]
fn fragments_have_ports_only_in_the_first() {
    let mut p = ipv4(proto::UDP, &udp(56));
    p[20] = 0x20;
    let first = parse(&p);
    assert_eq!((first.fragment, first.tuple.dst_port(), first.malformed), (Fragment::First, 53, None));
    p[21] = 8;
    let later = parse(&p);
    assert_eq!((later.fragment, later.tuple.dst_port(), later.l4, later.malformed), (Fragment::Later, 0, 0, None));
    let bare = FiveTuple::v4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 0, 0, proto::UDP);
    assert_eq!(flow_hash(&later.tuple), flow_hash(&bare));
    // The last 8 bytes that an offset can name, and 56 more.
    (p[20], p[21]) = (0x1f, 0xff);
    assert_eq!(parse(&p).malformed, Some(Malformed::FragmentRange));
    // A first fragment without the TCP header: RFC 1858.
    let mut tiny = ipv4(proto::TCP, &tcp()[..8]);
    tiny[20] = 0x20;
    assert_eq!(parse(&tiny).malformed, Some(Malformed::L4Header));
    // A first fragment of a longer UDP datagram.
    let mut p = ipv4(proto::UDP, &udp(56));
    (p[20], p[38]) = (0x20, 4);
    assert_eq!(parse(&p).malformed, None);
}

#[test]
fn ipv6_with_extension_headers() {
    let mut payload = vec![proto::FRAGMENT, 0, 0, 0, 0, 0, 0, 0, proto::UDP, 0, 0, 1, 0, 0, 0, 9];
    payload.extend(udp(8));
    let p = ipv6(proto::HOP_BY_HOP, &payload);
    let l = parse(&p);
    let (a, b) = (Ipv6Addr::from(1), Ipv6Addr::from(2));
    assert_eq!(l.tuple, FiveTuple::v6(a, b, 12345, 53, proto::UDP));
    assert_eq!((l.fragment, l.l4, l.malformed), (Fragment::First, 70, None));
    let mut later = p.clone();
    later[65] = 0xb8;
    let l = parse(&later);
    assert_eq!((l.fragment, l.tuple), (Fragment::Later, FiveTuple::v6(a, b, 0, 0, proto::UDP)));
    // An atomic fragment is whole.
    let mut atomic = p.clone();
    atomic[65] = 0;
    assert_eq!((parse(&atomic).fragment, parse(&atomic).malformed), (Fragment::Whole, None));
    let mut range = p;
    (range[64], range[65]) = (0xff, 0xf8);
    assert_eq!(parse(&range).malformed, Some(Malformed::FragmentRange));
}

#[test]
fn each_fault_has_its_name() {
    let good = ipv4(proto::TCP, &tcp());
    let fault = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut p = good.clone();
        change(&mut p);
        parse(&p).malformed
    };
    assert_eq!(fault(&|_| ()), None);
    assert_eq!(fault(&|p| p.truncate(13)), Some(Malformed::Ethernet));
    assert_eq!(fault(&|p| p.truncate(33)), Some(Malformed::IpHeader));
    assert_eq!(fault(&|p| p[14] = 0x65), Some(Malformed::IpVersion));
    assert_eq!(fault(&|p| p[14] = 0x44), Some(Malformed::Ihl));
    assert_eq!(fault(&|p| p[14] = 0x4f), Some(Malformed::Ihl));
    assert_eq!(fault(&|p| p[17] = 19), Some(Malformed::TotalLength));
    assert_eq!(fault(&|p| p[17] = 41), Some(Malformed::Truncated));
    assert_eq!(fault(&|p| p.truncate(50)), Some(Malformed::Truncated));
    assert_eq!(fault(&|p| p[17] = 39), Some(Malformed::L4Header));
    assert_eq!(fault(&|p| p[46] = 0x40), Some(Malformed::L4Length));
    assert_eq!(fault(&|p| p[46] = 0x60), Some(Malformed::L4Length));
    let mut p = ipv4(proto::UDP, &udp(12));
    p[39] = 7;
    assert_eq!(parse(&p).malformed, Some(Malformed::L4Length));
    p[39] = 21;
    assert_eq!(parse(&p).malformed, Some(Malformed::L4Length));
    let p = ipv6(proto::HOP_BY_HOP, &[proto::TCP, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(parse(&p).malformed, Some(Malformed::Extensions));
    assert_eq!(parse(&[]).malformed, Some(Malformed::Ethernet));
    // A cut packet whose ports are there can still be classified.
    let mut p = ipv4(proto::UDP, &udp(400));
    p.truncate(128);
    let l = parse(&p);
    assert_eq!((l.malformed, l.tuple.dst_port(), l.end), (Some(Malformed::Truncated), 53, 128));
}

#[test]
fn other_ethertypes_are_not_ip() {
    for ethertype in [ether::ARP, 0x8847, 0x8864, 0x0026] {
        let mut p = ipv4(proto::TCP, &tcp());
        p[12..14].copy_from_slice(&ethertype.to_be_bytes());
        let l = parse(&p);
        assert_eq!((l.ethertype, l.tuple, l.malformed, l.l3), (ethertype, FiveTuple::NONE, None, 14));
        assert_eq!(flow_hash(&l.tuple), 0);
    }
}

/// Frames that are nearly right: the fast path must decide for itself on each of them.
fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let base = prop_oneof![
        Just(ipv4(proto::TCP, &[tcp(), vec![7; 30]].concat())),
        Just(ipv4(proto::UDP, &udp(40))),
        Just(ipv4(proto::ICMP, &[8; 40])),
        Just(ipv4(proto::SCTP, &[8; 40])),
        Just(ipv6(proto::UDP, &udp(40))),
    ];
    let change = (0usize..60, any::<u8>());
    (base, proptest::collection::vec(change, 0..4), 0usize..90).prop_map(|(mut p, changes, len)| {
        for (at, byte) in changes {
            if let Some(b) = p.get_mut(at) {
                *b = byte;
            }
        }
        if len >= 10 {
            p.resize(len.max(30), 0);
        }
        p
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_fast_path_agrees_with_its_plain_twin(p in nearly_right()) {
        if let Some(fast) = parse_fast(&p) {
            prop_assert_eq!(fast, parse_any(&p));
        }
    }

    #[test]
    fn offsets_stay_in_the_frame(p in proptest::collection::vec(any::<u8>(), 0..200), ip in 0u8..5) {
        let mut p = p;
        if p.len() > 15 {
            match ip {
                0 => p[12..15].copy_from_slice(&[8, 0, 0x45]),
                1 => p[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]),
                2 => p[12..14].copy_from_slice(&[0x81, 0]),
                _ => {}
            }
        }
        let l = parse(&p);
        prop_assert!(l.l3 <= l.end.max(22) && l.l4 <= l.end && usize::from(l.end) <= p.len());
        prop_assert_eq!(l.tuple.is_ip(), flow_hash(&l.tuple) != 0);
    }
}

#[test]
fn a_frame_longer_than_its_offsets_is_looked_at_to_the_end_of_them() {
    let mut p = ipv4(proto::UDP, &udp(60_000));
    p.resize(70_000, 0);
    assert_eq!(parse(&p).malformed, None);
    p[16..18].copy_from_slice(&[0xff, 0xff]);
    assert_eq!(parse(&p).malformed, Some(Malformed::Truncated));
    assert_eq!(parse(&p).end, 65_535);
}
