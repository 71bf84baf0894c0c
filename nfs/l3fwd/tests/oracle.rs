//! A slow oracle: the longest of all prefixes that match; and checksums computed anew.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use chainline_packet::{checksum, ipv4::Ipv4, parse};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use support::{Host, hostile_frames, ipv4, ipv6, l4};

/// Few bits, so that prefixes nest and packets meet them.
const BITS: u128 = 0xe000_0001_0000_0003_0000_0000_0000_0003;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Prefix {
    v6: bool,
    bits: u128,
    depth: u8,
}

fn cut(v6: bool, bits: u128, depth: u8) -> u128 {
    let width = if v6 { 128 } else { 32 };
    bits & u128::MAX.checked_shl(width - u32::from(depth)).unwrap_or(0)
}

fn address(v6: bool, bits: u128) -> u128 {
    if v6 { bits & BITS } else { bits & 0xe001_0303 }
}

fn prefix() -> impl Strategy<Value = Prefix> {
    (any::<bool>(), any::<u128>(), 0u8..=128).prop_map(|(v6, bits, depth)| {
        let depth = if v6 { depth } else { depth.min(64) / 2 };
        Prefix { v6, bits: cut(v6, address(v6, bits), depth), depth }
    })
}

fn text(p: &Prefix) -> String {
    match p.v6 {
        true => format!("{}/{}", Ipv6Addr::from(p.bits), p.depth),
        false => format!("{}/{}", Ipv4Addr::from(p.bits as u32), p.depth),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_longest_match_wins(
        prefixes in proptest::collection::vec(prefix(), 1..40),
        packets in proptest::collection::vec((any::<bool>(), any::<u128>(), 0u8..4), 1..300),
    ) {
        let table: BTreeMap<Prefix, u8> = prefixes.iter().enumerate().map(|(i, p)| (*p, i as u8)).collect();
        let line = |(p, i): (&Prefix, &u8)| format!("{} via 02:00:00:00:01:{i:02x} src 02:00:00:00:02:{i:02x}", text(p));
        let lines: Vec<String> = table.iter().map(line).collect();
        let mut host = Host::new(&nf_l3fwd::KIND, json!({"routes_inline": lines}));
        let frame = |(v6, dst, ttl): &(bool, u128, u8)| match v6 {
            true => ipv6(7, address(true, *dst), 17, *ttl, &l4(17, 1, 2)),
            false => ipv4(7, address(false, *dst) as u32, 17, *ttl, &l4(17, 1, 2)),
        };
        let mut frames: Vec<_> = packets.iter().map(frame).collect();
        let before = frames.clone();
        let verdicts: Vec<String> = host.play(0, &mut frames).into_iter().map(str::to_owned).collect();
        for (((v6, dst, ttl), verdict), (old, new)) in packets.iter().zip(&verdicts).zip(before.iter().zip(&frames)) {
            let dst = address(*v6, *dst);
            let best = table.iter().filter(|(p, _)| p.v6 == *v6 && cut(*v6, dst, p.depth) == p.bits).max_by_key(|(p, _)| p.depth);
            let mut expected = old.clone();
            let outcome = match best {
                _ if *ttl <= 1 => "ttl_expired",
                None => "no_route",
                Some((_, hop)) => {
                    expected[..12].copy_from_slice(&[2, 0, 0, 0, 1, *hop, 2, 0, 0, 0, 2, *hop]);
                    expected[if *v6 { 21 } else { 22 }] -= 1;
                    if !v6 {
                        expected[24..26].fill(0);
                        let sum = checksum::checksum(&expected[14..34]);
                        expected[24..26].copy_from_slice(&sum.to_be_bytes());
                    }
                    "next"
                }
            };
            prop_assert_eq!(verdict, outcome);
            prop_assert_eq!(new, &expected);
        }
    }

    #[test]
    fn hostile_frames_get_a_verdict_and_what_goes_on_is_right(mut frames in hostile_frames()) {
        let routes = ["0.0.0.0/0 via 02:00:00:00:00:03", "::/0 via 02:00:00:00:00:03"];
        let mut host = Host::new(&nf_l3fwd::KIND, json!({"routes_inline": routes}));
        let before = frames.clone();
        let verdicts: Vec<String> = host.play(0, &mut frames).into_iter().map(str::to_owned).collect();
        for ((verdict, old), new) in verdicts.iter().zip(&before).zip(&frames) {
            let l = parse(new);
            if verdict != "next" || !l.tuple.is_ip() {
                prop_assert_eq!(old, new);
            } else {
                prop_assert_eq!(&new[6..12], &old[..6]);
                if l.tuple.version() == 4 {
                    prop_assert!(Ipv4::new(&new[usize::from(l.l3)..]).unwrap().checksum_ok());
                }
            }
        }
    }
}
