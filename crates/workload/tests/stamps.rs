//! Frames with stamps: every checksum right whatever the stamp says, and no stamp where there is no room for one.
#![allow(clippy::unwrap_used)]

use chainline_packet::{checksum, parse};
use chainline_workload::{
    Error, Lengths, MAX_STAMPED_FLOWS, Mix, Order, Prefix, Proto, STAMP_BYTES, Space, Spec, Stamp,
};
use chainline_workload::{Vlan, Workload, stamp_at};
use proptest::prelude::*;
use std::net::IpAddr;

fn spec(v6: bool, proto: Proto, vlan: Vlan, mix: Mix) -> Spec {
    let prefix = |n: u16| match v6 {
        true => Prefix { addr: IpAddr::from([0x2001, 0xdb8, n, 0, 0, 0, 0, 0]), len: 48 },
        false => Prefix { addr: IpAddr::from([198, n as u8, 0, 0]), len: 16 },
    };
    let space = Space { proto, src: prefix(18), dst: prefix(19), ..Space::default() };
    Spec { space, vlan, stamped: true, ..Spec::new(mix) }
}

proptest! {
    #[test]
    fn checksums_are_right_under_any_stamp(
        v6: bool, tcp: bool, tags in 0_u8..3, frame_bytes in 64_u32..=1600, few: bool, random: bool,
        trial in 0_u8..128, sequence: u32, time_ns in 0_u64..1 << 48
    ) {
        let vlan = [Vlan::None, Vlan::One(7), Vlan::Two(8, 9)][usize::from(tags)];
        let proto = if tcp { Proto::Tcp } else { Proto::Udp };
        let shortest = spec(v6, proto, vlan, Mix::constant(64).unwrap()).min_frame_bytes();
        let mix = Mix::constant(frame_bytes.max(shortest)).unwrap();
        let order = if random { Order::Random } else { Order::RoundRobin };
        let spec = Spec { flows: if few { 3 } else { 10_000 }, order, ..spec(v6, proto, vlan, mix) };
        let mut all = Vec::new();
        Workload::new(&spec).unwrap().burst(20, |frame| {
            let mut bytes = vec![0; usize::from(frame.len)];
            let _ = frame.write(&mut bytes).unwrap();
            let stamp = Stamp { trial, in_window: tcp, stream: 3, flow: frame.flow, sequence, time_ns };
            bytes[stamp_at(usize::from(frame.len))..][..STAMP_BYTES].copy_from_slice(&stamp.bytes());
            all.push((bytes, stamp));
        });
        for (frame, stamp) in all {
            prop_assert_eq!(Stamp::of(&frame), Some(stamp));
            let layers = parse(&frame);
            prop_assert_eq!(layers.malformed, None);
            let (l3, l4, end) = (usize::from(layers.l3), usize::from(layers.l4), usize::from(layers.end));
            prop_assert!(stamp_at(frame.len()) >= usize::from(spec.payload_offset()));
            let pseudo = if v6 {
                let part = |at: usize| -> &[u8; 16] { frame[at..at + 16].try_into().unwrap() };
                checksum::pseudo_ipv6(part(l3 + 8), part(l3 + 24), proto.number(), (end - l4) as u32)
            } else {
                let part = |at: usize| -> [u8; 4] { frame[at..at + 4].try_into().unwrap() };
                checksum::pseudo_ipv4(part(l3 + 12), part(l3 + 16), proto.number(), (end - l4) as u16)
            };
            prop_assert_eq!(pseudo.bytes(&frame[l4..end]).checksum(), 0);
            prop_assert!(tcp || frame[l4 + 6..l4 + 8] != [0, 0], "no checksum");
        }
    }
}

#[test]
fn the_shortest_frames_with_a_stamp() {
    let shortest = |v6, proto, vlan| spec(v6, proto, vlan, Mix::constant(64).unwrap()).min_frame_bytes();
    assert_eq!(shortest(false, Proto::Udp, Vlan::None), 64);
    assert_eq!(shortest(false, Proto::Tcp, Vlan::None), 76);
    assert_eq!(shortest(true, Proto::Udp, Vlan::None), 84);
    assert_eq!(shortest(true, Proto::Tcp, Vlan::Two(1, 2)), 104);
    let short = spec(false, Proto::Tcp, Vlan::None, Mix::constant(75).unwrap());
    assert_eq!(short.check(), Err(Error::Short { size: 75, needed: 76 }));
}

#[test]
fn flows_that_cannot_be_told_are_refused() {
    let base = spec(false, Proto::Udp, Vlan::None, Mix::constant(64).unwrap());
    let ends = Spec { lengths: Some(Lengths::Constant(3)), ..base.clone() };
    assert_eq!(ends.check(), Err(Error::StampedEnds));
    let many = Spec { flows: MAX_STAMPED_FLOWS + 1, ..base.clone() };
    assert_eq!(many.check(), Err(Error::StampedFlows(MAX_STAMPED_FLOWS + 1)));
    assert_eq!(Spec { flows: MAX_STAMPED_FLOWS, ..base }.check(), Ok(()));
}
