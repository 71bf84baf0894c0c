//! A slow oracle: the longest of all prefixes that match, errors taken apart word by word, checksums computed anew.

#![allow(clippy::unwrap_used)]

mod frames;
#[path = "../../forward/tests/support/prefixes.rs"]
mod prefixes;
#[path = "../../forward/tests/support/mod.rs"]
mod support;

use frames::{MAC, TARGETS, assert_sound, slow_sum, slow_sum6};
use prefixes::{Prefix, Space, longest};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use support::{Host, ipv4, ipv6, l4};

/// At least so far up that no prefix of it has special addresses inside or is one.
const SPACE: Space = Space {
    base4: 0x4000_0000,
    bits4: 0x1001_0303,
    base6: 0x2000 << 112,
    bits6: 0x2000_0001_0000_0003_0000_0000_0000_0003,
};
const NEIGHBOURS: u8 = 4;
const MTU: usize = 1280;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Neighbour(u8),
    Unreachable,
    Blackhole,
    Nobody,
}

fn to() -> impl Strategy<Value = To> {
    prop_oneof![
        6 => (0..NEIGHBOURS).prop_map(To::Neighbour),
        1 => Just(To::Unreachable),
        1 => Just(To::Blackhole),
        1 => Just(To::Nobody),
    ]
}

fn line((p, to): (&Prefix, &To)) -> String {
    let via = match (to, p.v6) {
        (To::Neighbour(n), true) => format!("via fd01::1{n}"),
        (To::Neighbour(n), false) => format!("via 192.0.2.1{n}"),
        (To::Unreachable, _) => "unreachable".into(),
        (To::Blackhole, _) => "blackhole".into(),
        (To::Nobody, _) => "dev wan".into(),
    };
    format!("{p} {via}")
}

fn router(routes: &[String]) -> Host {
    let neighbour = |n: u8| {
        let mac = format!("02:00:00:00:01:0{n}");
        [json!({"address": format!("192.0.2.1{n}"), "mac": mac}), json!({"address": format!("fd01::1{n}"), "mac": mac})]
    };
    let args = json!({
        "interfaces": [
            {"name": "lan", "mac": "02:00:00:00:00:02", "addresses": ["10.0.0.1/24", "fd00::1/64"]},
            {"name": "wan", "mac": "02:00:00:00:00:03", "addresses": ["192.0.2.1/24", "fd01::1/64"], "mtu": MTU},
        ],
        "neighbours": (0..NEIGHBOURS).flat_map(neighbour).collect::<Vec<_>>(),
        "routes_inline": routes,
        "icmp_errors": {"per_s": 1_000_000, "burst": 1_000_000},
    });
    Host::with_targets(&nf_router::KIND, args, &TARGETS)
}

#[derive(Clone, Debug)]
struct Packet {
    v6: bool,
    dst: u128,
    ttl: u8,
    df: bool,
    fill: usize,
}

fn packet() -> impl Strategy<Value = Packet> {
    let fill = prop_oneof![4 => 0usize..64, 1 => 1200usize..1280];
    (any::<bool>(), any::<u128>(), 0u8..4, any::<bool>(), fill).prop_map(|(v6, bits, ttl, df, fill)| Packet {
        v6,
        dst: SPACE.address(v6, bits),
        ttl,
        df,
        fill,
    })
}

impl Packet {
    fn frame(&self) -> Vec<u8> {
        let mut payload = l4(17, 1, 2);
        payload.resize(20 + self.fill, 0x5a);
        if self.v6 {
            return ipv6(0xfd00 << 112 | 7, self.dst, 17, self.ttl, &payload);
        }
        let mut frame = ipv4(0x0a00_0007, self.dst as u32, 17, self.ttl, &payload);
        if self.df {
            frame[20] = 0x40;
            frame[24..26].fill(0);
            let sum = slow_sum(&[&frame[14..34]]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        frame
    }
}

/// Type, code and MTU of an error, which must quote the packet as it came.
fn error(v6: bool, before: &[u8], after: &[u8]) -> (u8, u8, u32) {
    assert_eq!((&after[..6], &after[6..12], &after[12..14]), (&before[6..12], &MAC[..], &before[12..14]));
    let (ip, head) = (&after[14..], if v6 { 40 } else { 20 });
    let (message, quote) = (&ip[head..], &ip[head + 8..]);
    let most = if v6 { 1280 - 48 } else { 576 - 28 };
    assert_eq!(quote, &before[14..before.len().min(14 + most)]);
    if v6 {
        assert_eq!(
            (ip[0] >> 4, ip[6], ip[7], usize::from(ip[4]) << 8 | usize::from(ip[5])),
            (6, 58, 64, message.len())
        );
        assert_eq!(ip[8..24], (0xfd00u128 << 112 | 1).to_be_bytes());
        assert_eq!(ip[24..40], before[22..38]);
        assert_eq!(slow_sum6(ip, message), 0);
    } else {
        assert_eq!((ip[0], ip[9], ip[8], usize::from(ip[2]) << 8 | usize::from(ip[3])), (0x45, 1, 64, ip.len()));
        assert_eq!((&ip[12..16], &ip[16..20]), (&[10, 0, 0, 1][..], &before[26..30]));
        assert_eq!((slow_sum(&[&ip[..20]]), slow_sum(&[message])), (0, 0));
    }
    (message[0], message[1], u32::from_be_bytes([message[4], message[5], message[6], message[7]]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_longest_match_decides(
        routes in proptest::collection::btree_map(SPACE.prefix(), to(), 1..40),
        packets in proptest::collection::vec(packet(), 1..300),
    ) {
        let routes: BTreeMap<Prefix, To> = routes;
        let mut host = router(&routes.iter().map(line).collect::<Vec<_>>());
        let before: Vec<_> = packets.iter().map(Packet::frame).collect();
        let mut after = before.clone();
        let verdicts: Vec<String> = host.play(1, &mut after).into_iter().map(str::to_owned).collect();
        for (((p, verdict), old), new) in packets.iter().zip(&verdicts).zip(&before).zip(&after) {
            let too_big = old.len() - 14 > MTU;
            let expected = match longest(&routes, p.v6, p.dst) {
                None | Some(To::Unreachable) => Err(if p.v6 { (1, 0, 0) } else { (3, 0, 0) }),
                Some(To::Blackhole) => Ok("blackhole"),
                Some(_) if p.ttl <= 1 => Err(if p.v6 { (3, 0, 0) } else { (11, 0, 0) }),
                Some(To::Nobody) => Err(if p.v6 { (1, 3, 0) } else { (3, 1, 0) }),
                Some(To::Neighbour(_)) if too_big && p.v6 => Err((2, 0, MTU as u32)),
                Some(To::Neighbour(_)) if too_big && p.df => Err((3, 4, MTU as u32)),
                Some(To::Neighbour(_)) if too_big => Ok("too_big"),
                Some(To::Neighbour(n)) => {
                    let mut forwarded = old.clone();
                    forwarded[..12].copy_from_slice(&[2, 0, 0, 0, 1, n, 2, 0, 0, 0, 0, 3]);
                    forwarded[if p.v6 { 21 } else { 22 }] -= 1;
                    if !p.v6 {
                        forwarded[24..26].fill(0);
                        let sum = slow_sum(&[&forwarded[14..34]]);
                        forwarded[24..26].copy_from_slice(&sum.to_be_bytes());
                    }
                    prop_assert_eq!(new, &forwarded);
                    Ok("wan")
                }
            };
            match expected {
                Ok(outcome) => prop_assert_eq!(verdict, outcome),
                Err(what) => {
                    prop_assert_eq!(verdict, "lan");
                    prop_assert_eq!(error(p.v6, old, new), what);
                }
            }
        }
    }

    /// Answers and errors to packets with some bytes changed, cut or grown: sound, and in a burst as one by one.
    #[test]
    fn damaged_packets_get_a_sound_answer_or_none(
        picks in proptest::collection::vec(
            (any::<proptest::sample::Index>(), proptest::collection::vec((0usize..90, any::<u8>()), 0..3), 0usize..120),
            1..200,
        ),
    ) {
        let all = frames::answered();
        let mut frames: Vec<_> = picks.iter().map(|(pick, changes, cut)| {
            let mut frame = pick.get(&all).clone();
            for (at, byte) in changes {
                if let Some(b) = frame.get_mut(*at) {
                    *b = *byte;
                }
            }
            // Most stay whole.
            if *cut < 60 {
                frame.truncate(10 + cut);
            }
            frame
        }).collect();
        let mut single = frames.clone();
        let mut host = frames::router();
        let verdicts: Vec<String> = host.play(7, &mut frames).into_iter().map(str::to_owned).collect();
        let mut host = frames::router();
        for ((verdict, frame), alone) in verdicts.iter().zip(&frames).zip(&mut single) {
            let mut alone = [std::mem::take(alone)];
            prop_assert_eq!(host.play(7, &mut alone), [verdict]);
            prop_assert_eq!(frame, &alone[0]);
            if TARGETS.contains(&verdict.as_str()) {
                assert_sound(frame);
            }
        }
    }
}

#[test]
fn what_is_answered_is_answered() {
    let mut host = frames::router();
    let mut all = frames::answered();
    let verdicts = host.play(1, &mut all);
    assert_eq!(verdicts, vec!["lan"; verdicts.len()]);
    all.iter().for_each(|frame| assert_sound(frame));
    for (counter, n) in [
        ("echo_replies", 2),
        ("nd_replies", 1),
        ("arp_replies", 1),
        ("icmp_time_exceeded", 2),
        ("icmp_unreachable", 3),
        ("icmp_too_big", 2),
        ("forwarded", 0),
    ] {
        assert_eq!(host.counter(counter), n, "{counter}");
    }
}
