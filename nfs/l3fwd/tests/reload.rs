//! Changed route files: the next burst goes by them, and a wrong one changes nothing.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use serde_json::json;
use std::fmt::Write;
use support::{Folder, Host, ipv4, ipv6, l4};

const MS: u64 = 1_000_000;

/// To whom packets for 10.0.0.1, 11.0.0.1 and 2001:db8::1 go: the last byte of the hardware address, 0 to nobody.
fn hops(host: &mut Host, now_ms: u64) -> Vec<u8> {
    let v4 = |dst| ipv4(1, dst, 17, 9, &l4(17, 1, 2));
    let mut frames = [v4(0x0a00_0001), v4(0x0b00_0001), ipv6(1, 0x2001_0db8 << 96 | 1, 17, 9, &l4(17, 1, 2))];
    let verdicts: Vec<String> = host.play(now_ms * MS, &mut frames).iter().map(|v| (*v).to_owned()).collect();
    verdicts.iter().zip(&frames).map(|(v, f)| if v == "next" { f[5] } else { 0 }).collect()
}

#[test]
fn new_routes_take_the_place_of_old_ones() {
    let folder = Folder::new();
    folder.write("routes", "10.0.0.0/8 via 02:00:00:00:00:21\n");
    let args = json!({"routes": "routes", "routes_inline": ["0.0.0.0/0 via 02:00:00:00:00:20"]});
    let mut host = folder.host(&nf_l3fwd::KIND, args);
    assert_eq!(hops(&mut host, 0), [0x21, 0x20, 0]);
    folder.write("routes", "11.0.0.0/8 via 02:00:00:00:00:22\n2001:db8::/32 via 02:00:00:00:00:23\n");
    let now_ms = host.until_reloaded(0);
    assert_eq!(hops(&mut host, now_ms), [0x20, 0x22, 0x23]);
    assert_eq!((host.counter("reloads"), host.counter("reloads_failed")), (1, 0));
    assert_eq!(host.report().unwrap(), "2 IPv4 and 1 IPv6 routes, 3 next hops");
}

#[test]
fn a_wrong_file_leaves_the_old_one_in_force() {
    let folder = Folder::new();
    folder.write("routes", "10.0.0.0/8 via 02:00:00:00:00:21\n");
    let mut host = folder.host(&nf_l3fwd::KIND, json!({"routes": "routes"}));
    folder.write("routes", "11.0.0.0/8 via 02:00:00:00:00:22\n10.0.0.0/8 via 02:03\n");
    let now_ms = host.until_reloaded(0);
    assert_eq!((host.counter("reloads"), host.counter("reloads_failed")), (0, 1));
    let report = host.report().unwrap();
    assert!(report.starts_with("the file of routes has changed and is wrong, the last right one is in force: "));
    assert!(report.contains("routes:2:16: found '02:03'"), "{report}");
    assert_eq!(hops(&mut host, now_ms), [0x21, 0, 0]);
}

#[test]
fn half_a_million_routes_take_the_place_of_as_many() {
    let routes = |hop: u32| {
        let mut text = String::new();
        for i in 0..500_000u32 {
            let bits = (16 << 24) + (i << 8);
            let [a, b, c, _] = bits.to_be_bytes();
            writeln!(text, "{a}.{b}.{c}.0/24 {}", (i + hop) % 2).unwrap();
        }
        text
    };
    let folder = Folder::new();
    folder.write("routes", &routes(0));
    let next_hops = [json!({"mac": "02:00:00:00:00:10"}), json!({"mac": "02:00:00:00:00:11"})];
    let mut host = folder.host(&nf_l3fwd::KIND, json!({"routes": "routes", "next_hops": next_hops}));
    let destination = |i: u32| (16 << 24) + ((i * 7919 % 500_000) << 8) + 9;
    let play = |host: &mut Host, now_ms: u64, hop: u32| {
        let mut frames: Vec<_> = (0..256).map(|i| ipv4(1, destination(i), 17, 9, &l4(17, 1, 2))).collect();
        assert_eq!(host.play(now_ms * MS, &mut frames), ["next"; 256]);
        for (i, frame) in (0..256).zip(&frames) {
            assert_eq!(u32::from(frame[5]), 0x10 + (i * 7919 % 500_000 + hop) % 2);
        }
    };
    play(&mut host, 0, 0);
    folder.write("routes", &routes(1));
    let mut now_ms = 0;
    // Packets go by the old routes until the new ones are there.
    for _ in 0..250 {
        now_ms += 10;
        host.tick(now_ms * MS);
        let reloads = host.counter("reloads");
        play(&mut host, now_ms, reloads as u32);
    }
    if host.counter("reloads") == 0 {
        host.until_reloaded(now_ms);
    }
    play(&mut host, now_ms, 1);
    assert_eq!((host.counter("reloads"), host.counter("reloads_failed")), (1, 0));
}
