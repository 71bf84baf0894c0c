//! What is promised of flows, against a map of where each one went.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use chainline_packet::{checksum, parse};
use proptest::prelude::*;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use support::{Folder, Host, hostile_frames, ipv4, ipv6, l4};

const MS: u64 = 1_000_000;
const VIP: u32 = 0xc000_020a;
const VIP6: u128 = 0x2001_0db8_0000_0000_0000_0000_0000_0010;

/// The file of services.
const FILE: &str = "lb.services";

fn balancer(folder: &Folder, mut args: serde_json::Value) -> Host {
    args["services"] = FILE.into();
    folder.host(&nf_lb::KIND, args)
}

/// Services over both IP versions with these backends: number and what is said of it.
fn services(backends: &[(u8, &str)]) -> String {
    let mut text = String::new();
    for (head, prefix) in [
        ("service a udp 192.0.2.10 port 1-65535 nat", "10.0.0."),
        ("service b tcp 192.0.2.10 port 1-65535 nat", "10.0.0."),
        ("service c udp 2001:db8::10 port 53 nat", "2001:db8:1::"),
    ] {
        writeln!(text, "{head}").unwrap();
        for (n, words) in backends {
            writeln!(text, "backend {prefix}{n} {words}").unwrap();
        }
    }
    text
}

/// A client's packet of flow `i`: UDP over IPv4, TCP, UDP over IPv6 in turns.
fn frame(i: u32, flags: u8) -> Vec<u8> {
    let (source, port) = (0xc633_6400 + (i >> 14), 1024 + (i & 0x3fff) as u16);
    let mut tcp = l4(6, port, 80);
    tcp[13] = flags;
    match i % 3 {
        0 => ipv4(source, VIP, 17, 64, &l4(17, port, 53)),
        1 => ipv4(source, VIP, 6, 64, &tcp),
        _ => ipv6(0x2001_0db8_000c << 80 | u128::from(source), VIP6, 17, 64, &l4(17, port, 53)),
    }
}

/// The number of the backend that a packet went to.
fn backend(frame: &[u8]) -> u8 {
    match parse(frame).tuple.dst().unwrap() {
        std::net::IpAddr::V4(a) => a.octets()[3],
        // 2001:db8:1::17 is number 17: digits as they are written.
        std::net::IpAddr::V6(a) => format!("{:x}", a.octets()[15]).parse().unwrap(),
    }
}

/// One packet of each flow; where it went, or why it did not.
fn send(host: &mut Host, now_ms: u64, flows: impl Iterator<Item = u32>, flags: u8) -> Vec<(u32, Result<u8, String>)> {
    let flows: Vec<u32> = flows.collect();
    let mut frames: Vec<_> = flows.iter().map(|i| frame(*i, flags)).collect();
    let verdicts: Vec<String> = host.play(now_ms * MS, &mut frames).iter().map(|v| (*v).to_owned()).collect();
    let outcome = |(i, (v, f)): (u32, (String, &Vec<u8>))| (i, if v == "next" { Ok(backend(f)) } else { Err(v) });
    flows.into_iter().zip(verdicts.into_iter().zip(&frames)).map(outcome).collect()
}

/// Ticks until a changed file is in force.
fn settle(host: &mut Host, now_ms: &mut u64) {
    *now_ms = host.until_reloaded(*now_ms);
    // And tables are filled, a part at a time.
    for _ in 0..400 {
        *now_ms += 2;
        host.tick(*now_ms * MS);
    }
}

const ACK: u8 = 16;
const SYN: u8 = 2;

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is reloaded: a flow moves only if its backend is down or gone, and then to one that is up.
    #[test]
    fn flows_stay_where_they_are(
        rounds in prop::collection::vec(
            (prop::collection::vec((1u8..10, 0usize..4), 1..9), prop::collection::vec(0u32..600, 1..300)), 1..8)
    ) {
        let folder = Folder::new();
        folder.write(FILE, &services(&[(1, ""), (2, "weight 3"), (3, "")]));
        let mut host = balancer(&folder, json!({"flows": 4096, "flows6": 4096, "table_size": 251}));
        let (mut now_ms, mut went) = (0u64, HashMap::<u32, u8>::new());
        let mut moved = 0;
        for (backends, flows) in rounds {
            let words = ["", "weight 5", "drain", "down"];
            let known: HashMap<u8, usize> = backends.into_iter().collect();
            let list: Vec<(u8, &str)> = known.iter().map(|(n, w)| (*n, words[*w])).collect();
            folder.write(FILE, &services(&list));
            settle(&mut host, &mut now_ms);
            let up: HashSet<u8> = known.iter().filter(|(_, w)| **w < 2).map(|(n, _)| *n).collect();
            let alive: HashSet<u8> = known.iter().filter(|(_, w)| **w < 3).map(|(n, _)| *n).collect();
            for (flow, outcome) in send(&mut host, now_ms, flows.into_iter(), ACK) {
                match (went.get(&flow), outcome) {
                    (Some(old), Ok(new)) if alive.contains(old) => prop_assert_eq!(*old, new, "flow {}", flow),
                    (old, Ok(new)) => {
                        prop_assert!(up.contains(&new), "{new} of {up:?}");
                        moved += u64::from(old.is_some());
                        went.insert(flow, new);
                    }
                    (old, Err(why)) => {
                        prop_assert!(why == "no_backend" && up.is_empty());
                        prop_assert!(old.is_none_or(|old| !alive.contains(old)));
                    }
                }
            }
            prop_assert_eq!(host.counter("flows"), went.len() as u64);
            prop_assert_eq!(host.counter("flows_moved"), moved);
        }
    }

    /// Anything at all: a verdict for each, and right checksums stay right and wrong ones wrong.
    #[test]
    fn hostile_frames_are_counted_and_keep_their_sums(mut frames in hostile_frames(), bypass: bool) {
        let folder = Folder::new();
        folder.write(FILE, &services(&[(1, ""), (2, "")]));
        let on_full = if bypass { "bypass" } else { "drop_new" };
        let mut host = balancer(&folder, json!({"flows": 64, "flows6": 64, "on_full": on_full}));
        // Half of them to a service.
        for frame in frames.iter_mut().step_by(2) {
            if parse(frame).tuple.version() == 4 && frame.len() >= 34 {
                frame[30..34].copy_from_slice(&VIP.to_be_bytes());
            }
        }
        let before = frames.clone();
        let verdicts: Vec<String> = host.play(0, &mut frames).iter().map(|v| (*v).to_owned()).collect();
        for ((old, new), verdict) in before.iter().zip(&frames).zip(&verdicts) {
            prop_assert_eq!(old.len(), new.len());
            prop_assert_eq!(old[..old.len().min(12)].to_vec(), new[..new.len().min(12)].to_vec());
            if verdict == "next" {
                prop_assert_eq!(sums(old), sums(new));
            }
        }
        let dropped = verdicts.iter().filter(|v| *v != "next").count() as u64;
        let passed = ["balanced", "returned", "other", "icmp_related"].map(|c| host.counter(c)).iter().sum::<u64>();
        prop_assert_eq!(passed + dropped, frames.len() as u64);
    }
}

/// Whether the IP header's and layer 4's checksums are right, computed anew over all bytes.
fn sums(frame: &[u8]) -> (Option<bool>, Option<bool>) {
    let layers = parse(frame);
    if layers.malformed.is_some() || !layers.tuple.is_ip() {
        return (None, None);
    }
    let (l3, l4, end) = (usize::from(layers.l3), usize::from(layers.l4), usize::from(layers.end));
    let v4 = layers.tuple.version() == 4;
    let ip = v4.then(|| checksum::checksum(&frame[l3..l3 + usize::from(frame[l3] & 15) * 4]) == 0);
    if l4 == 0 || layers.fragment != chainline_packet::Fragment::Whole {
        return (ip, None);
    }
    let (proto, len) = (layers.tuple.proto(), end - l4);
    let part = |a: usize, b: usize| frame[l3 + a..l3 + b].to_vec();
    let pseudo = if v4 {
        checksum::pseudo_ipv4(part(12, 16).try_into().unwrap(), part(16, 20).try_into().unwrap(), proto, len as u16)
    } else {
        checksum::pseudo_ipv6(&part(8, 24).try_into().unwrap(), &part(24, 40).try_into().unwrap(), proto, len as u32)
    };
    let payload = &frame[l4..end];
    match proto {
        17 if payload[6..8] == [0, 0] => (ip, None),
        6 | 17 | 58 => (ip, Some(pseudo.bytes(payload).fold() == 0xffff)),
        1 => (ip, Some(checksum::checksum(payload) == 0)),
        _ => (ip, None),
    }
}

fn hundred(without: u8) -> Vec<(u8, &'static str)> {
    (1..=100).filter(|n| *n != without).map(|n| (n, "")).collect()
}

#[test]
fn one_of_a_hundred_leaves() {
    let folder = Folder::new();
    // Numbers that are hexadecimal digits as well as decimal ones are not needed: IPv4 alone.
    let flows = || (0..60_000u32).filter(|i| i % 3 != 2);
    folder.write(FILE, &services(&hundred(0)));
    let mut host = balancer(&folder, json!({"flows": 65_536, "flows6": 64}));
    let mut now_ms = 0;
    let before = send(&mut host, now_ms, flows(), ACK);
    folder.write(FILE, &services(&hundred(42)));
    // A load balancer that knows no flows yet: what the tables alone say.
    let mut fresh = balancer(&folder, json!({"flows": 65_536, "flows6": 64}));
    settle(&mut host, &mut now_ms);
    let (after, alone) = (send(&mut host, now_ms, flows(), ACK), send(&mut fresh, 0, flows(), ACK));
    let (mut others, mut left, mut moved) = (0u64, 0, 0);
    for ((old, new), table) in before.iter().zip(&after).zip(&alone) {
        if old.1 == Ok(42) {
            left += 1;
            assert_ne!(new.1, Ok(42));
            // It goes where every load balancer of this file sends it.
            assert_eq!(new.1, table.1);
        } else {
            others += 1;
            assert_eq!(old.1, new.1, "flow {} moved", old.0);
            moved += u64::from(old.1 != table.1);
        }
    }
    assert!((300..500).contains(&left), "{left} of 40,000 flows were at one of a hundred backends");
    assert!(moved * 100 <= others, "{moved} of {others} flows would move");
    assert_eq!(host.counter("flows_moved"), left);
}

#[test]
fn a_flood_moves_no_established_flow() {
    for on_full in ["evict_oldest", "drop_new", "bypass"] {
        let folder = Folder::new();
        folder.write(FILE, &services(&[(1, ""), (2, ""), (3, "")]));
        let mut host = balancer(&folder, json!({"flows": 8192, "flows6": 64, "on_full": on_full}));
        let tcp = |from: u32, n: u32| (from..from + 3 * n).filter(|i| i % 3 == 1);
        // A thousand established connections: two packets each.
        let first = send(&mut host, 0, tcp(0, 1000), SYN);
        assert_eq!(first, send(&mut host, 1, tcp(0, 1000), ACK));
        // A hundred thousand SYNs, and a new backend meanwhile.
        let mut dropped = 0;
        let mut now_ms = 10;
        for round in 0..10u32 {
            let flood = send(&mut host, now_ms, tcp(1_000_000 + round * 30_000, 10_000), SYN);
            dropped += flood.iter().filter(|(_, b)| *b == Err("table_full".into())).count() as u64;
            if round == 5 {
                folder.write(FILE, &services(&[(1, ""), (2, ""), (3, ""), (4, "weight 9")]));
                settle(&mut host, &mut now_ms);
            }
        }
        assert_eq!(first, send(&mut host, now_ms, tcp(0, 1000), ACK), "{on_full}");
        let counts = ["flows", "flows_evicted", "flows_refused", "stateless"].map(|c| host.counter(c));
        match on_full {
            "evict_oldest" => assert_eq!((counts, dropped), ([8192, 101_000 - 8192, 0, 0], 0)),
            "drop_new" => assert_eq!((counts, dropped), ([8192, 0, 101_000 - 8192, 0], 101_000 - 8192)),
            _ => assert_eq!((counts, dropped), ([8192, 0, 101_000 - 8192, 101_000 - 8192], 0)),
        }
    }
}

#[test]
fn a_wrong_file_leaves_the_old_one_in_force() {
    let folder = Folder::new();
    folder.write(FILE, &services(&[(1, "")]));
    let mut host = balancer(&folder, json!({"flows": 64, "flows6": 64}));
    let mut now_ms = 0;
    folder.write(FILE, "service a udp 192.0.2.10 port 53 nat\nbackend 10.0.0.2 wait 3\n");
    settle(&mut host, &mut now_ms);
    assert_eq!((host.counter("reloads"), host.counter("reloads_failed")), (0, 1));
    let report = host.report().unwrap();
    assert!(report.contains("lb.services:2:18: found 'wait', expected weight, mac, up, drain or down"), "{report}");
    assert!(send(&mut host, now_ms, 0..30, ACK).iter().all(|(_, b)| *b == Ok(1)));
    folder.write(FILE, &services(&[(2, "")]));
    settle(&mut host, &mut now_ms);
    assert_eq!((host.counter("reloads"), host.counter("reloads_failed")), (1, 1));
    assert!(!host.report().unwrap().contains("wrong"));
    assert!(send(&mut host, now_ms, 0..30, ACK).iter().all(|(_, b)| *b == Ok(2)));
    assert_eq!(host.counter("flows_moved"), 30);
}

#[test]
fn a_silent_backend_gets_no_new_flows_for_a_while() {
    let folder = Folder::new();
    folder.write(FILE, &services(&[(1, ""), (2, "")]));
    let args = json!({"flows": 8192, "flows6": 64, "table_size": 251, "reload_s": 0,
        "passive": {"failures": 5, "silent_ms": 1000, "retry_s": 10}});
    let mut host = balancer(&folder, args);
    let tcp = |from: u32| (from..from + 300).filter(|i| i % 3 == 1);
    let answer = |host: &mut Host, now_ms: u64| {
        let mut syn_ack = l4(6, 80, 1024);
        (syn_ack[13], syn_ack[4]) = (SYN | ACK, 1);
        host.play(now_ms * MS, &mut [ipv4(0x0a00_0002, 0xc633_6400, 6, 64, &syn_ack)]);
    };
    let ticks = |host: &mut Host, now_ms: u64| (0..20).for_each(|i| host.tick((now_ms + i) * MS));
    let to = |sent: &[(u32, Result<u8, String>)]| sent.iter().map(|s| s.1.clone().unwrap()).collect::<HashSet<_>>();
    for now_ms in [0, 500, 1100] {
        assert_eq!(to(&send(&mut host, now_ms, tcp(now_ms as u32 * 300), SYN)), [1, 2].into());
        answer(&mut host, now_ms + 1);
    }
    assert_eq!(host.counter("backends_suspected"), 1);
    ticks(&mut host, 1200);
    assert_eq!(to(&send(&mut host, 2000, tcp(1_000_000), SYN)), [2].into());
    assert!(host.report().unwrap().contains("silent"));
    // Flows that it has stay.
    assert_eq!(to(&send(&mut host, 2000, tcp(0), ACK)), [1, 2].into());
    // Another chance; and with nobody else left, it is asked all the same.
    answer(&mut host, 11_000);
    ticks(&mut host, 11_200);
    assert_eq!(to(&send(&mut host, 11_300, tcp(2_000_000), SYN)), [1, 2].into());
    for now_ms in [12_000, 14_000] {
        send(&mut host, now_ms, tcp(3_000_000 + now_ms as u32 * 300), SYN);
    }
    assert_eq!(host.counter("backends_suspected"), 3);
    ticks(&mut host, 14_100);
    assert_eq!(to(&send(&mut host, 14_200, tcp(9_000_000), SYN)), [1, 2].into());
}

#[test]
fn the_burst_of_a_flow_is_one_flow() {
    let folder = Folder::new();
    folder.write(FILE, &services(&hundred(0)));
    let mut host = balancer(&folder, json!({"flows": 64, "flows6": 64}));
    let sent = send(&mut host, 0, std::iter::repeat_n(3, 100), ACK);
    assert!(sent.iter().all(|s| s.1 == sent[0].1));
    assert_eq!((host.counter("flows"), host.counter("flows_added"), host.counter("balanced")), (1, 1, 100));
}
