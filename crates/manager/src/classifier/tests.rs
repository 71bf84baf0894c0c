use super::*;
use chainline_packet::{flow_hash, parse};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What the chain file's reference says, word for word and slowly.
fn oracle(chains: &[(u16, Match)], l: &Layers) -> Option<u16> {
    let within = |list: &[NumRange], n: u16| list.is_empty() || list.iter().any(|r| r.contains(n));
    let of = |list: &[Prefix], a: Option<IpAddr>| {
        list.is_empty()
            || a.is_some_and(|a| {
                list.iter().any(|p| p.covers(&Prefix { addr: a, len: if a.is_ipv4() { 32 } else { 128 } }))
            })
    };
    let t = &l.tuple;
    let found = chains.iter().find(|(_, m)| {
        let ports = !m.src_port.is_empty() || !m.dst_port.is_empty();
        m.proto.is_none_or(|p| t.is_ip() && p == t.proto())
            && (!ports || (t.is_ip() && (m.proto.is_some() || WITH_PORTS.contains(&t.proto()))))
            && of(&m.src, t.src())
            && of(&m.dst, t.dst())
            && within(&m.src_port, t.src_port())
            && within(&m.dst_port, t.dst_port())
            && within(&m.vlan, l.tci[0] & 0xfff)
    });
    found.map(|(id, _)| *id)
}

/// Few values, so that rules and packets meet.
fn prefix() -> impl Strategy<Value = Prefix> {
    let v4 = (0..4u8, 0..=32u8).prop_filter_map("", |(b, n)| Prefix::new(Ipv4Addr::new(10, b, 0, b).into(), n));
    let v6 = (0..4u16, 0..=128u8)
        .prop_filter_map("", |(b, n)| Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, b, 0, 0, 0, 0, b).into(), n));
    prop_oneof![v4, v6]
}

fn range(top: u16) -> impl Strategy<Value = NumRange> {
    (0..top, 0..top).prop_map(|(a, b)| NumRange { first: a.min(b), last: a.max(b) })
}

fn rule() -> impl Strategy<Value = Match> {
    let list = |top| prop::collection::vec(range(top), 0..3);
    let proto = prop_oneof![Just(None), Just(Some(6)), Just(Some(17)), Just(Some(1)), Just(Some(58))];
    let prefixes = || prop::collection::vec(prefix(), 0..3);
    (proto, prefixes(), prefixes(), list(8), list(8), list(4))
        .prop_map(|(proto, src, dst, src_port, dst_port, vlan)| Match { proto, src, dst, src_port, dst_port, vlan })
}

/// An Ethernet frame with an IP header and ports; or none of that.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let proto = prop_oneof![Just(6u8), Just(17), Just(1), Just(58), Just(47)];
    (0..4u16, any::<bool>(), proto, 0..4u8, 0..4u8, 0..8u16, 0..8u16, 0..8u8).prop_map(
        |(vlan, v6, proto, a, b, sport, dport, odd)| {
            let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
            if vlan > 0 {
                f.extend([0x81, 0]);
                f.extend(vlan.to_be_bytes());
            }
            if odd == 0 {
                f.extend([0x08, 0x06]);
                f.resize(60, 0);
                return f;
            }
            let mut l4 = Vec::new();
            l4.extend(sport.to_be_bytes());
            l4.extend(dport.to_be_bytes());
            l4.extend([0, 20, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
            if v6 {
                f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, l4.len() as u8, proto, 64]);
                for b in [a, b] {
                    f.extend(Ipv6Addr::new(0x2001, 0xdb8, b.into(), 0, 0, 0, 0, b.into()).octets());
                }
            } else {
                f.extend([8, 0, 0x45, 0, 0, 20 + l4.len() as u8, 0, 0, 0, 0, 64, proto, 0, 0]);
                f.extend([10, a, 0, a, 10, b, 0, b]);
            }
            f.extend(l4);
            f
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn agrees_with_the_oracle(
        rules in prop::collection::vec(rule(), 1..12),
        frames in prop::collection::vec(frame(), 1..100),
    ) {
        let chains: Vec<(u16, Match)> = rules.into_iter().enumerate().map(|(i, m)| (i as u16 + 3, m)).collect();
        let refs: Vec<_> = chains.iter().map(|(i, m)| (*i, m)).collect();
        let mut classifier = Classifier::new(&refs).unwrap();
        let packets: Vec<_> = frames.iter().map(|f| { let l = parse(f); (l, flow_hash(&l.tuple)) }).collect();
        let expected: Vec<_> = packets.iter().map(|(l, _)| oracle(&chains, l)).collect();
        match classifier.only() {
            Some(only) => prop_assert!(expected.iter().all(|e| *e == Some(only))),
            // Twice: the second time from the cache.
            None => for _ in 0..2 {
                let mut found = vec![None; packets.len()];
                classifier.classify(&packets, &mut found);
                prop_assert_eq!(&found, &expected);
            },
        }
    }
}

#[test]
fn thousands_of_rules() {
    let chains: Vec<(u16, Match)> = (0..8000u16)
        .map(|i| {
            let dst = Prefix::new(Ipv4Addr::from_bits(0x0a00_0000 | u32::from(i) << 8).into(), 24).unwrap();
            (i, Match { dst: vec![dst], ..Match::default() })
        })
        .collect();
    let refs: Vec<_> = chains.iter().map(|(i, m)| (*i, m)).collect();
    let mut classifier = Classifier::new(&refs).unwrap();
    let tuple = |i: u32| FiveTuple::v4(Ipv4Addr::LOCALHOST, Ipv4Addr::from_bits(0x0a00_0007 | i << 8), 1, 2, 17);
    let packets: Vec<_> =
        (0..8000).map(|i| (Layers { tuple: tuple(i), ..Layers::default() }, i.wrapping_mul(77))).collect();
    let mut found = vec![None; packets.len()];
    classifier.classify(&packets, &mut found);
    assert!(found.iter().enumerate().all(|(i, c)| *c == Some(i as u16)));
}
