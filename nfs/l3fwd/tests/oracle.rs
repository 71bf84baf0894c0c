//! A slow oracle: the longest of all prefixes that match; and checksums computed anew.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/prefixes.rs"]
mod prefixes;
#[path = "../../forward/tests/support/mod.rs"]
mod support;

use chainline_packet::{checksum, ipv4::Ipv4, parse};
use prefixes::{Prefix, Space, longest};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use support::{Host, hostile_frames, ipv4, ipv6, l4};

const SPACE: Space = Space { base4: 0, bits4: 0xe001_0303, base6: 0, bits6: 0xe000_0001_0000_0003_0000_0000_0000_0003 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_longest_match_wins(
        prefixes in proptest::collection::vec(SPACE.prefix(), 1..40),
        packets in proptest::collection::vec((any::<bool>(), any::<u128>(), 0u8..4), 1..300),
    ) {
        let table: BTreeMap<Prefix, u8> = prefixes.iter().enumerate().map(|(i, p)| (*p, i as u8)).collect();
        let line = |(p, i): (&Prefix, &u8)| format!("{p} via 02:00:00:00:01:{i:02x} src 02:00:00:00:02:{i:02x}");
        let lines: Vec<String> = table.iter().map(line).collect();
        let mut host = Host::new(&nf_l3fwd::KIND, json!({"routes_inline": lines}));
        let frame = |(v6, dst, ttl): &(bool, u128, u8)| match v6 {
            true => ipv6(7, SPACE.address(true, *dst), 17, *ttl, &l4(17, 1, 2)),
            false => ipv4(7, SPACE.address(false, *dst) as u32, 17, *ttl, &l4(17, 1, 2)),
        };
        let mut frames: Vec<_> = packets.iter().map(frame).collect();
        let before = frames.clone();
        let verdicts: Vec<String> = host.play(0, &mut frames).into_iter().map(str::to_owned).collect();
        for (((v6, dst, ttl), verdict), (old, new)) in packets.iter().zip(&verdicts).zip(before.iter().zip(&frames)) {
            let dst = SPACE.address(*v6, *dst);
            let mut expected = old.clone();
            let outcome = match longest(&table, *v6, dst) {
                _ if *ttl <= 1 => "ttl_expired",
                None => "no_route",
                Some(hop) => {
                    expected[..12].copy_from_slice(&[2, 0, 0, 0, 1, hop, 2, 0, 0, 0, 2, hop]);
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
