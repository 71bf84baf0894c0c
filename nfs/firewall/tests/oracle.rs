//! A slow oracle: rules one after the other, against the compiled tables.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use serde_json::json;
use std::net::{Ipv4Addr, Ipv6Addr};
use support::{Host, hostile_frames, ipv4, ipv6, l4};

/// A rule as the oracle understands it. Addresses are of the family that `v6` says.
#[derive(Clone, Debug)]
struct Rule {
    allow: bool,
    v6: bool,
    proto: Option<u8>,
    src: (u128, u8),
    dst: (u128, u8),
    dst_ports: Vec<(u16, u16)>,
}

#[derive(Clone, Debug)]
struct Probe {
    v6: bool,
    proto: u8,
    src: u128,
    dst: u128,
    dst_port: u16,
    later: bool,
}

/// Few addresses and ports, so that rules and packets meet.
const BITS: u128 = 0x8000_0001_0000_0000_0000_0000_4000_0003;

fn address(v6: bool, bits: u128) -> u128 {
    if v6 { bits & BITS } else { bits & 0xc000_0003 }
}

fn cut(v6: bool, bits: u128, len: u8) -> u128 {
    let width = if v6 { 128 } else { 32 };
    let all = if v6 { u128::MAX } else { u32::MAX.into() };
    bits & all & all.checked_shl(width - u32::from(len)).unwrap_or(0)
}

fn rule() -> impl Strategy<Value = Rule> {
    let proto = prop_oneof![Just(None), Just(Some(6u8)), Just(Some(17)), Just(Some(89))];
    let len = prop_oneof![Just(0u8), Just(1), 0u8..=32, 30u8..=32];
    let ports = proptest::collection::vec((0u16..6, 0u16..4).prop_map(|(low, more)| (low, low + more)), 0..3);
    (any::<bool>(), any::<bool>(), proto, any::<[u128; 2]>(), [len.clone(), len], ports).prop_map(
        |(allow, v6, proto, addresses, lens, ports)| {
            let side = |i: usize| {
                let len = if v6 && lens[i] > 1 { lens[i] + 96 } else { lens[i] };
                (cut(v6, address(v6, addresses[i]), len), len)
            };
            let dst_ports = if matches!(proto, Some(6 | 17)) { ports } else { Vec::new() };
            Rule { allow, v6, proto, src: side(0), dst: side(1), dst_ports }
        },
    )
}

fn probe() -> impl Strategy<Value = Probe> {
    let proto = prop_oneof![Just(6u8), Just(17), Just(89)];
    (any::<bool>(), proto, any::<[u128; 2]>(), 0u16..9, prop::bool::weighted(0.2)).prop_map(
        |(v6, proto, [src, dst], dst_port, later)| Probe {
            v6,
            proto,
            src: address(v6, src),
            dst: address(v6, dst),
            dst_port,
            later,
        },
    )
}

fn text(r: &Rule) -> String {
    let side = |(bits, len): (u128, u8)| match (r.v6, len) {
        (true, _) => format!("{}/{len}", Ipv6Addr::from(bits)),
        (false, 32) => Ipv4Addr::from(bits as u32).to_string(),
        (false, _) => format!("{}/{len}", Ipv4Addr::from(bits as u32)),
    };
    let proto = match r.proto {
        None => "any".into(),
        Some(6) => "tcp".into(),
        Some(17) => "udp".into(),
        Some(n) => format!("proto {n}"),
    };
    let mut line =
        format!("{} {proto} from {} to {}", if r.allow { "allow" } else { "deny" }, side(r.src), side(r.dst));
    let ports: Vec<String> = r.dst_ports.iter().map(|(low, high)| format!("{low}-{high}")).collect();
    if !ports.is_empty() {
        line += &format!(" port {}", ports.join(","));
    }
    line + "  # what the oracle knows"
}

fn frame(p: &Probe) -> Vec<u8> {
    let mut payload = l4(p.proto, 1000, p.dst_port);
    if p.v6 {
        if p.later {
            payload.splice(0..0, [p.proto, 0, 1, 0, 0, 0, 0, 1]);
        }
        return ipv6(p.src, p.dst, if p.later { 44 } else { p.proto }, 9, &payload);
    }
    let mut frame = ipv4(p.src as u32, p.dst as u32, p.proto, 9, &payload);
    if p.later {
        frame[21] = 32;
    }
    frame
}

/// The first rule that matches, from 1; 0 is the default.
fn first_match(rules: &[Rule], p: &Probe) -> usize {
    let matches = |r: &Rule| {
        let port = match (r.dst_ports.is_empty(), p.later) {
            (true, _) => true,
            (false, true) => r.allow,
            (false, false) => r.dst_ports.iter().any(|(low, high)| (*low..=*high).contains(&p.dst_port)),
        };
        let inside = |(bits, len): (u128, u8), address| cut(p.v6, address, len) == bits;
        r.v6 == p.v6 && r.proto.is_none_or(|n| n == p.proto) && inside(r.src, p.src) && inside(r.dst, p.dst) && port
    };
    rules.iter().position(matches).map_or(0, |i| i + 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_first_match_wins(
        rules in proptest::collection::vec(rule(), 1..30),
        probes in proptest::collection::vec(probe(), 1..300),
        default_allow: bool,
    ) {
        let lines: Vec<String> = rules.iter().map(text).collect();
        let default = if default_allow { "allow" } else { "deny" };
        let mut host = Host::new(&nf_firewall::KIND, json!({"rules_inline": lines, "default": default}));
        let mut frames: Vec<Vec<u8>> = probes.iter().map(frame).collect();
        let before = frames.clone();
        let verdicts = host.play(0, &mut frames).into_iter().map(str::to_owned).collect::<Vec<_>>();
        prop_assert_eq!(&frames, &before);
        let mut counts = vec![0u64; rules.len() + 1];
        for (probe, verdict) in probes.iter().zip(&verdicts) {
            let hit = first_match(&rules, probe);
            counts[hit] += 1;
            let expected = match hit {
                0 if default_allow => "next",
                0 => "denied_by_default",
                n if rules[n - 1].allow => "next",
                _ => "denied",
            };
            prop_assert_eq!(verdict, expected, "{:?} hits rule {}", probe, hit);
        }
        prop_assert_eq!(host.counters_from("default"), counts);
        prop_assert_eq!(host.counter("fragments"), probes.iter().filter(|p| p.later).count() as u64);
    }

    #[test]
    fn hostile_frames_get_a_verdict_and_stay_as_they_are(mut frames in hostile_frames()) {
        let rules = ["deny tcp from any to any port 0-99 flags S/SA", "allow icmp type 8", "allow any"];
        let mut host = Host::new(&nf_firewall::KIND, json!({"rules_inline": rules}));
        let before = frames.clone();
        let n = frames.len();
        prop_assert_eq!(host.play(0, &mut frames).len(), n);
        prop_assert_eq!(frames, before);
    }
}
