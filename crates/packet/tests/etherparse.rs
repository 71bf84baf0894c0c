//! The crate `etherparse` as oracle: where it finds a layer, `parse` finds the same.

#![allow(clippy::unwrap_used)]

use chainline_packet::{Fragment, Layers, parse};
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice, VlanSlice};
use proptest::prelude::*;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug)]
enum L4 {
    Tcp,
    Udp,
    Icmp,
}

#[derive(Clone, Debug)]
struct Spec {
    tags: u8,
    ids: [u16; 2],
    v6: bool,
    src: [u8; 16],
    dst: [u8; 16],
    ports: [u16; 2],
    l4: L4,
    payload: Vec<u8>,
}

fn spec() -> impl Strategy<Value = Spec> {
    let l4 = prop_oneof![Just(L4::Tcp), Just(L4::Udp), Just(L4::Icmp)];
    let payload = proptest::collection::vec(any::<u8>(), 0..80);
    (
        0u8..3,
        [0u16..4096, 0u16..4096],
        any::<bool>(),
        any::<[u8; 16]>(),
        any::<[u8; 16]>(),
        any::<[u16; 2]>(),
        l4,
        payload,
    )
        .prop_map(|(tags, ids, v6, src, dst, ports, l4, payload)| Spec {
            tags,
            ids,
            v6,
            src,
            dst,
            ports,
            l4,
            payload,
        })
}

fn build(s: &Spec) -> Vec<u8> {
    use etherparse::VlanId;
    let id = |i: usize| VlanId::try_new(s.ids[i]).unwrap();
    let v4 = |a: &[u8; 16]| [a[0], a[1], a[2], a[3]];
    let eth = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    macro_rules! ip {
        ($b:expr) => {
            if s.v6 { $b.ipv6(s.src, s.dst, 64) } else { $b.ipv4(v4(&s.src), v4(&s.dst), 64) }
        };
    }
    let ip = match s.tags {
        0 => ip!(eth),
        1 => ip!(eth.single_vlan(id(0))),
        _ => ip!(eth.double_vlan(id(0), id(1))),
    };
    let mut out = Vec::new();
    let [a, b] = s.ports;
    match s.l4 {
        L4::Tcp => ip.tcp(a, b, 1, 2).write(&mut out, &s.payload),
        L4::Udp => ip.udp(a, b).write(&mut out, &s.payload),
        L4::Icmp if s.v6 => ip.icmpv6_echo_request(a, b).write(&mut out, &s.payload),
        L4::Icmp => ip.icmpv4_echo_request(a, b).write(&mut out, &s.payload),
    }
    .unwrap();
    out
}

/// Compares what both found; both say nothing of what is wrong.
fn compare(l: &Layers, oracle: &SlicedPacket<'_>) -> Result<(), TestCaseError> {
    let ids: Vec<u16> = oracle
        .vlan()
        .map(|v| match v {
            VlanSlice::SingleVlan(v) => vec![v.vlan_identifier().value()],
            VlanSlice::DoubleVlan(v) => vec![v.outer.vlan_identifier().value(), v.inner.vlan_identifier().value()],
        })
        .unwrap_or_default();
    prop_assert_eq!(&l.vlan_ids()[..usize::from(l.tags)], &ids[..]);
    let (src, dst, proto, fragmented): (IpAddr, IpAddr, u8, bool) = match &oracle.net {
        Some(NetSlice::Ipv4(ip)) => {
            let h = ip.header();
            (h.source_addr().into(), h.destination_addr().into(), h.protocol().0, ip.payload().fragmented)
        }
        Some(NetSlice::Ipv6(ip)) => {
            let h = ip.header();
            let p = ip.payload();
            (h.source_addr().into(), h.destination_addr().into(), p.ip_number.0, p.fragmented)
        }
        _ => {
            prop_assert!(!l.tuple.is_ip());
            return Ok(());
        }
    };
    prop_assert_eq!((l.tuple.src(), l.tuple.dst()), (Some(src), Some(dst)));
    prop_assert_eq!(l.tuple.proto(), proto);
    prop_assert_eq!(l.fragment != Fragment::Whole, fragmented);
    match &oracle.transport {
        Some(TransportSlice::Tcp(t)) => {
            prop_assert_eq!((l.tuple.src_port(), l.tuple.dst_port()), (t.source_port(), t.destination_port()));
        }
        Some(TransportSlice::Udp(t)) => {
            prop_assert_eq!((l.tuple.src_port(), l.tuple.dst_port()), (t.source_port(), t.destination_port()));
        }
        Some(_) => prop_assert_eq!((l.tuple.src_port(), l.tuple.dst_port()), (0, 0)),
        None => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_right_packet_is_read_as_the_oracle_reads_it(s in spec()) {
        let frame = build(&s);
        let l = parse(&frame);
        prop_assert_eq!(l.malformed, None);
        compare(&l, &SlicedPacket::from_ethernet(&frame).unwrap())?;
    }

    #[test]
    fn a_damaged_packet_too_if_both_take_it(s in spec(), at in 0usize..70, byte: u8, cut in 0usize..40) {
        let mut frame = build(&s);
        if let Some(b) = frame.get_mut(at) {
            *b = byte;
        }
        frame.truncate(frame.len() - cut.saturating_sub(20).min(frame.len()));
        let l = parse(&frame);
        // The oracle follows AH in IPv4 and a third tag; here those end the walk on purpose.
        let differs = l.tuple.version() == 4 && l.tuple.proto() == 51
            || matches!(l.ethertype, 0x8100 | 0x88a8 | 0x9100 | 0x88e5)
            || at < 22 && l.tags != s.tags;
        if let (None, Ok(oracle), false) = (l.malformed, SlicedPacket::from_ethernet(&frame), differs) {
            compare(&l, &oracle)?;
        }
    }
}
