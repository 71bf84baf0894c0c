//! A map as oracle, and the table's limits.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use support::{Host, hostile_frames, ipv4, ipv6, l4};

const SECOND: u64 = 1_000_000_000;

/// The report's rows.
fn rows(host: &Host) -> BTreeMap<IpAddr, (u64, u64)> {
    let report = host.report().unwrap();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[0].parse().unwrap(), (words[1].parse().unwrap(), words[2].parse().unwrap()))
    };
    report.lines().skip(2).map(row).collect()
}

fn source() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0u32..20).prop_map(|i| IpAddr::from(Ipv4Addr::from(0x0a00_0000 + i))),
        (0u128..20).prop_map(|i| IpAddr::from(Ipv6Addr::from(0x0a00_0000_0000_0000_0000_0000_0000_0000 + (i << 96)))),
    ]
}

fn frame(source: IpAddr, payload: usize) -> Vec<u8> {
    let mut udp = l4(17, 1, 2);
    udp.resize(20 + payload, 0);
    match source {
        IpAddr::V4(a) => ipv4(a.into(), 1, 17, 64, &udp),
        IpAddr::V6(a) => ipv6(a.into(), 1, 17, 64, &udp),
    }
}

proptest! {
    #[test]
    fn every_host_is_counted(packets in proptest::collection::vec((source(), 0usize..200), 1..600)) {
        let mut host = Host::new(&nf_monitor::KIND, json!({"hosts": 64, "top": 64}));
        let mut frames: Vec<_> = packets.iter().map(|(s, n)| frame(*s, *n)).collect();
        let before = frames.clone();
        prop_assert!(host.play(0, &mut frames).iter().all(|v| *v == "next"));
        prop_assert_eq!(&frames, &before);
        let mut expected: BTreeMap<IpAddr, (u64, u64)> = BTreeMap::new();
        for ((source, _), frame) in packets.iter().zip(&frames) {
            let e = expected.entry(*source).or_default();
            *e = (e.0 + 1, e.1 + frame.len() as u64);
        }
        prop_assert_eq!(host.counter("hosts"), expected.len() as u64);
        prop_assert_eq!(rows(&host), expected);
        prop_assert_eq!(host.counter("untracked_packets"), 0);
    }

    #[test]
    fn hostile_frames_pass_and_none_is_uncounted(mut frames in hostile_frames()) {
        let mut host = Host::new(&nf_monitor::KIND, json!({"hosts": 100, "top": 100}));
        let before = frames.clone();
        prop_assert!(host.play(0, &mut frames).iter().all(|v| *v == "next"));
        prop_assert_eq!(&frames, &before);
        let tracked: u64 = rows(&host).values().map(|(packets, _)| packets).sum();
        let others = ["untracked_packets", "non_ip", "malformed"].map(|c| host.counter(c));
        prop_assert_eq!(tracked + others.iter().sum::<u64>(), frames.len() as u64);
    }
}

#[test]
fn a_full_table_counts_what_it_cannot_hold() {
    let mut host = Host::new(&nf_monitor::KIND, json!({"hosts": 100, "top": 100}));
    let mut frames: Vec<_> = (0..300).map(|i| frame(Ipv4Addr::from(i).into(), 0)).collect();
    host.play(0, &mut frames);
    assert_eq!((host.counter("hosts"), host.counter("untracked_packets")), (100, 200));
    assert_eq!(host.counter("untracked_bytes"), 200 * frames[0].len() as u64);
    // Those that are in stay in.
    host.play(0, &mut frames);
    assert_eq!((host.counter("hosts"), host.counter("untracked_packets")), (100, 400));
    assert!(rows(&host).values().all(|(packets, _)| *packets == 2));
}

#[test]
fn idle_hosts_are_forgotten_and_make_room() {
    let mut host = Host::new(&nf_monitor::KIND, json!({"hosts": 100, "idle_timeout_s": 10, "top": 100}));
    let old = |i: u32| frame(Ipv4Addr::from(i).into(), 0);
    host.play(0, &mut (0..100).map(old).collect::<Vec<_>>());
    host.play(6 * SECOND, &mut [old(7)]);
    host.tick(10 * SECOND);
    assert_eq!(host.counter("hosts"), 100);
    host.tick(10 * SECOND + 1);
    assert_eq!((host.counter("hosts"), host.counter("hosts_forgotten")), (1, 99));
    host.play(11 * SECOND, &mut (200..299).map(old).collect::<Vec<_>>());
    assert_eq!((host.counter("hosts"), host.counter("untracked_packets")), (100, 0));
    assert_eq!(rows(&host)[&IpAddr::from([0, 0, 0, 7])].0, 2);
}

#[test]
fn the_report_has_the_loudest_in_order() {
    let mut host = Host::new(&nf_monitor::KIND, json!({"top": 2}));
    for (address, packets) in [("10.0.0.1", 3), ("2001:db8::1", 5), ("10.0.0.2", 1)] {
        host.play(0, &mut vec![frame(address.parse().unwrap(), 100); packets]);
    }
    let report = host.report().unwrap();
    let names: Vec<&str> = report.lines().skip(2).filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(names, ["2001:db8::1", "10.0.0.1"]);
    assert!(report.starts_with("3 hosts\n"));
}

#[test]
fn sizes_out_of_range_are_refused() {
    for args in [json!({"hosts": 0}), json!({"hosts": 1 << 25}), json!({"top": 101})] {
        let error = Host::in_dir(&nf_monitor::KIND, args, std::path::Path::new(".")).err().unwrap().to_string();
        assert!(error.contains("expected"), "{error}");
    }
}
