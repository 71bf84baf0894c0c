//! Real ClassBench filter sets from `$CHAINLINE_DATA/acl`: packets made from the rules hit the first that matches.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use serde_json::json;
use std::path::PathBuf;
use support::{Host, ipv4, l4};

/// A rule, read here by other means than the firewall's: numbers where they stand in the line.
struct Rule {
    src: (u32, u32),
    dst: (u32, u32),
    ports: [(u16, u16); 2],
    proto: Option<u8>,
    flags: (u16, u16),
}

fn read(line: &str) -> Rule {
    let words: Vec<&str> = line.trim_start_matches('@').split_whitespace().collect();
    let prefix = |w: &str| {
        let (address, len) = w.split_once('/').unwrap();
        let bits = u32::from(address.parse::<std::net::Ipv4Addr>().unwrap());
        let mask = u32::MAX.checked_shl(32 - len.parse::<u32>().unwrap()).unwrap_or(0);
        (bits & mask, mask)
    };
    let hex = |w: &str| u16::from_str_radix(w.trim_start_matches("0x"), 16).unwrap();
    let pair = |w: &str| w.split_once('/').map(|(a, b)| (hex(a), hex(b))).unwrap();
    let port = |i: usize| words[i].parse().unwrap();
    let proto = pair(words[8]);
    Rule {
        src: prefix(words[0]),
        dst: prefix(words[1]),
        ports: [(port(2), port(4)), (port(5), port(7))],
        proto: (proto.1 != 0).then_some(proto.0 as u8),
        flags: words.get(9).map_or((0, 0), |w| pair(w)),
    }
}

impl Rule {
    fn matches(&self, src: u32, dst: u32, ports: [u16; 2], proto: u8, detail: u16) -> bool {
        src & self.src.1 == self.src.0
            && dst & self.dst.1 == self.dst.0
            && self.ports.iter().zip(ports).all(|((low, high), p)| (*low..=*high).contains(&p))
            && self.proto.is_none_or(|p| p == proto)
            && detail & self.flags.1 == self.flags.0 & self.flags.1
    }
}

#[test]
fn filter_sets_classify_as_their_rules_say() {
    let Some(data) = std::env::var_os("CHAINLINE_DATA") else {
        println!("skipped: CHAINLINE_DATA is not set");
        return;
    };
    let folder = PathBuf::from(data).join("acl");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.ends_with("_1k"))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    for name in names {
        let args = json!({"rules": name, "classbench_action": "alternate", "default": "deny"});
        let mut host = Host::in_dir(&nf_firewall::KIND, args, &folder).unwrap();
        let text = std::fs::read_to_string(folder.join(&name)).unwrap();
        let rules: Vec<Rule> = text.lines().filter(|l| l.starts_with('@')).map(read).collect();
        let (mut frames, mut expected) = (Vec::new(), Vec::new());
        let mut counts = vec![0u64; rules.len() + 1];
        for (i, rule) in rules.iter().enumerate() {
            // A packet from the rule's corner, and one that differs in an address bit.
            for flip in [0, 1u32 << (i % 32)] {
                let proto = rule.proto.unwrap_or(17);
                let has_ports = matches!(proto, 6 | 17);
                let (src, dst) = (rule.src.0 ^ flip, rule.dst.0);
                let ports = if has_ports { [rule.ports[0].0, rule.ports[1].1] } else { [0, 0] };
                let mut payload = l4(proto, ports[0], ports[1]);
                let detail = match proto {
                    6 => {
                        payload[13] = (rule.flags.0 >> 8) as u8;
                        rule.flags.0 & 0xff00
                    }
                    1 => {
                        payload[..2].copy_from_slice(&rule.flags.0.to_be_bytes());
                        rule.flags.0
                    }
                    _ => 0,
                };
                let hit = rules.iter().position(|r| r.matches(src, dst, ports, proto, detail)).map_or(0, |i| i + 1);
                counts[hit] += 1;
                expected.push(match hit {
                    0 => "denied_by_default",
                    n if n % 2 == 1 => "next",
                    _ => "denied",
                });
                frames.push(ipv4(src, dst, proto, 64, &payload));
            }
        }
        let verdicts = host.play(0, &mut frames);
        assert_eq!(verdicts, expected, "{name}");
        assert_eq!(host.counters_from("default"), counts, "{name}");
        println!("{name}: {} rules, {} packets", rules.len(), frames.len());
    }
}

#[test]
fn test_acl_sets_of_dpdk_are_read() {
    let Some(data) = std::env::var_os("CHAINLINE_DATA") else {
        println!("skipped: CHAINLINE_DATA is not set");
        return;
    };
    let folder = PathBuf::from(data).join("acl");
    for name in ["dpdk_test-acl_acl1v4_5_rule", "dpdk_test-acl_acl1v6_1_rule"] {
        Host::in_dir(&nf_firewall::KIND, json!({"rules": name}), &folder).unwrap();
    }
}
