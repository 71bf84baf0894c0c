//! Changed rule files: the next burst is judged by them, connections stay, and a wrong one changes nothing.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use serde_json::json;
use std::fmt::Write;
use support::{Folder, Host, ipv4, l4};

const MS: u64 = 1_000_000;
const ALICE: u32 = 0x0a00_0001;
const BOB: u32 = 0xc633_6401;

fn udp(port: u16) -> Vec<u8> {
    ipv4(ALICE, BOB, 17, 9, &l4(17, 1000, port))
}

fn tcp(from: (u32, u16), to: (u32, u16), flags: u8) -> Vec<u8> {
    let mut header = l4(6, from.1, to.1);
    header[13] = flags;
    ipv4(from.0, to.0, 6, 9, &header)
}

/// The verdicts on UDP to ports 1, 2 and 3.
fn asked(host: &mut Host, now_ms: u64) -> Vec<&str> {
    host.play(now_ms * MS, &mut [udp(1), udp(2), udp(3)])
}

fn reloads(host: &Host) -> (u64, u64) {
    (host.counter("reloads"), host.counter("reloads_failed"))
}

#[test]
fn new_rules_take_the_place_of_old_ones() {
    let folder = Folder::new();
    folder.write("rules", "allow udp to any port 1\nallow udp to any port 2\n");
    let args = json!({"rules": "rules", "rules_inline": ["deny udp from 10.9.0.0/16"]});
    let mut host = folder.host(&nf_firewall::KIND, args);
    assert_eq!(asked(&mut host, 0), ["next", "next", "denied_by_default"]);
    folder.write(
        "rules",
        "# port 1 no longer\nallow udp to any port 3\nallow udp to any port 2\ndefault allow\ndeny udp to any port 1\n",
    );
    let now_ms = host.until_reloaded(0);
    assert_eq!(asked(&mut host, now_ms), ["denied", "next", "next"]);
    assert_eq!((reloads(&host), host.report()), ((1, 0), None));
    // Who was there before counts on, wherever it stands; others count as one.
    assert_eq!(["rule_1", "rule_2", "rule_3", "later_rules"].map(|c| host.counter(c)), [0, 1, 2, 2]);
    // All of it was right when it was read again: the default is what the file now says.
    assert_eq!(host.play(now_ms * MS, &mut [udp(9)]), ["next"]);
    assert_eq!(host.counter("default"), 2);
}

#[test]
fn a_wrong_file_leaves_the_old_one_in_force() {
    let folder = Folder::new();
    folder.write("rules", "allow udp to any port 1\n");
    let mut host = folder.host(&nf_firewall::KIND, json!({"rules": "rules"}));
    folder.write("rules", "allow udp to any port 2\nallow udp to any port x\n");
    let now_ms = host.until_reloaded(0);
    assert_eq!(reloads(&host), (0, 1));
    let report = host.report().unwrap();
    assert!(report.starts_with("the file of rules has changed and is wrong, the last right one is in force: "));
    assert!(report.contains("rules:2:23: found 'x'"), "{report}");
    assert_eq!(asked(&mut host, now_ms), ["next", "denied_by_default", "denied_by_default"]);
    folder.write("rules", "allow udp to any port 2\n");
    let now_ms = host.until_reloaded(now_ms);
    assert_eq!((reloads(&host), host.report()), ((1, 1), None));
    assert_eq!(asked(&mut host, now_ms), ["denied_by_default", "next", "denied_by_default"]);
}

/// As with nftables, where `ct state established accept` stands before all other rules: the rules are for first packets.
#[test]
fn connections_outlive_the_rules_that_let_them_begin() {
    let folder = Folder::new();
    folder.write("rules", "allow tcp to any port 80\n");
    let mut host = folder.host(&nf_firewall::KIND, json!({"rules": "rules", "stateful": {"connections": 64}}));
    let (client, server) = ((ALICE, 1000), (BOB, 80));
    let mut opening = [tcp(client, server, 2), tcp(server, client, 18), tcp(client, server, 16)];
    assert_eq!(host.play(0, &mut opening), ["next"; 3]);
    folder.write("rules", "deny tcp to any port 80\nallow tcp to any port 443\n");
    let now_ms = host.until_reloaded(0);
    let mut more = [
        tcp(client, server, 16),
        tcp(server, client, 16),
        tcp((ALICE, 1001), server, 2),
        tcp((ALICE, 1001), (BOB, 443), 2),
    ];
    assert_eq!(host.play(now_ms * MS, &mut more), ["next", "next", "denied", "next"]);
    // It ends, and does not begin again.
    let mut ends = [tcp(client, server, 4), tcp(client, server, 2)];
    assert_eq!(host.play(now_ms * MS, &mut ends), ["next", "denied"]);
}

#[test]
fn ten_thousand_rules_take_the_place_of_as_many() {
    let rules = |action: &str| {
        let mut text = String::new();
        for i in 0..10_000 {
            writeln!(text, "{action} udp from 10.{}.{}.0/24 to any port {}", i / 250, i % 250, i % 50).unwrap();
        }
        text + "default deny\n"
    };
    let folder = Folder::new();
    folder.write("rules", &rules("allow"));
    let mut host = folder.host(&nf_firewall::KIND, json!({"rules": "rules"}));
    let mut frames: Vec<_> = (0..10_000u32)
        .step_by(7)
        .map(|i| ipv4(10 << 24 | (i / 250) << 16 | (i % 250) << 8 | 9, BOB, 17, 9, &l4(17, 1, (i % 50) as u16)))
        .collect();
    assert!(host.play(0, &mut frames).iter().all(|v| *v == "next"));
    folder.write("rules", &rules("deny"));
    let mut now_ms = 0;
    // Packets are judged by the old rules until the new ones are there.
    for _ in 0..200 {
        now_ms += 10;
        host.tick(now_ms * MS);
        let expected = if reloads(&host) == (0, 0) { "next" } else { "denied" };
        assert_eq!(host.play(now_ms * MS, &mut frames[..32]), vec![expected; 32]);
    }
    if reloads(&host) == (0, 0) {
        host.until_reloaded(now_ms);
    }
    assert!(host.play(now_ms * MS, &mut frames).iter().all(|v| *v == "denied"));
    assert_eq!(reloads(&host), (1, 0));
}
