//! The same packets through the kernel's connection tracking (nftables) and through the stateful mode: the same verdict
//! on each. Needs root, for a network namespace of its own.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use serde_json::json;
use std::io::Write;
use std::process::{Command, Stdio};
use support::{Host, ipv4, ipv6, l4};

/// A packet of an exchange: from side a or b, and what it is.
type Sent = (char, Vec<u8>);

const A4: u32 = 0x0a01_000a;
const B4: u32 = 0x0a02_000a;
const A6: u128 = 0x2001_0db8_0001_0000_0000_0000_0000_0010;
const B6: u128 = 0x2001_0db8_0002_0000_0000_0000_0000_0010;

fn packet(v6: bool, from: char, proto: u8, payload: &[u8]) -> Sent {
    let frame = match (v6, from) {
        (false, 'a') => ipv4(A4, B4, proto, 9, payload),
        (false, _) => ipv4(B4, A4, proto, 9, payload),
        (true, 'a') => ipv6(A6, B6, proto, 9, payload),
        (true, _) => ipv6(B6, A6, proto, 9, payload),
    };
    (from, frame)
}

/// A TCP connection of port `port` at a to 80 at b, in words: `a:S b:SA a:A`. Sequence numbers go on as they should.
fn tcp(v6: bool, port: u16, script: &str) -> Vec<Sent> {
    let mut next = [1000u32, 5000];
    let sent = script.split_whitespace().map(|word| {
        let (from, flags) = word.split_once(':').unwrap();
        let me = usize::from(from == "b");
        let ports = if me == 0 { (port, 80) } else { (80, port) };
        let mut header = l4(6, ports.0, ports.1);
        header[13] = flags.bytes().filter(|c| *c != b'-').map(|c| 1 << "FSRPAU".find(char::from(c)).unwrap()).sum();
        // What was sent first is where the numbers start.
        let seq = if flags.starts_with('S') { [1000, 5000][me] } else { next[me] };
        header[4..8].copy_from_slice(&seq.to_be_bytes());
        let ack = if flags.contains('A') { next[1 - me] } else { 0 };
        header[8..12].copy_from_slice(&ack.to_be_bytes());
        header[14..16].copy_from_slice(&60_000u16.to_be_bytes());
        if flags.contains(['S', 'F']) {
            next[me] = seq.wrapping_add(1);
        }
        packet(v6, if me == 0 { 'a' } else { 'b' }, 6, &header)
    });
    sent.collect()
}

fn udp(v6: bool, from: char, ports: (u16, u16)) -> Sent {
    packet(v6, from, 17, &l4(17, ports.0, ports.1))
}

fn ping(v6: bool, from: char, request: bool, id: u16) -> Sent {
    let mut message = vec![0; 16];
    message[0] = match (v6, request) {
        (false, true) => 8,
        (false, false) => 0,
        (true, true) => 128,
        (true, false) => 129,
    };
    message[4..6].copy_from_slice(&id.to_be_bytes());
    packet(v6, from, if v6 { 58 } else { 1 }, &message)
}

/// Port or hop unreachable, about `about`.
fn error(v6: bool, from: char, kind: u8, about: &Sent) -> Sent {
    let mut message = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    message.extend(&about.1[14..]);
    packet(v6, from, if v6 { 58 } else { 1 }, &message)
}

fn exchanges() -> Vec<(String, Vec<Sent>)> {
    let mut all = Vec::new();
    let scripts = [
        "a:S b:SA a:A a:PA b:A b:PA a:A a:FA b:A b:FA a:A",
        "a:S b:SA a:A b:FA a:A a:FA b:A a:A",
        "a:S a:S b:SA b:SA a:A b:SA a:A a:FA b:FA a:A b:A",
        "a:S b:RA a:S b:SA a:A",
        "a:S b:SA a:A b:R a:A b:A a:S b:SA a:A",
        "a:S b:A a:R a:S b:SA a:A",
        "a:A b:A a:S",
        "b:SA a:S b:SA a:A",
        "b:S a:SA b:A",
        "a:SF a:- a:FPU a:S a:SR b:SA a:A a:SRA b:A",
        "a:S a:A b:FA b:SA a:A",
        "a:R b:R a:FA b:FA a:RA",
        "a:S b:S a:SA b:SA a:A b:A",
        "a:S b:SA a:A a:S b:A a:R a:S",
        "a:S b:SA a:A b:S a:PA",
        "a:S b:SA a:FA b:A b:FA a:A a:S b:SA a:A b:PA",
        "a:S b:SA b:FA a:A a:FA b:A b:FA a:A",
        "a:S b:SA a:A a:SA b:PA a:PA b:SA",
    ];
    for (n, script) in scripts.iter().enumerate() {
        for v6 in [false, true] {
            all.push((format!("{script} v6={v6}"), tcp(v6, 2000 + n as u16, script)));
        }
    }
    // And at random, the same each time.
    let mut random = 1u64;
    for n in 0..16 {
        let mut word = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let flags = ["S", "SA", "A", "A", "PA", "FA", "FA", "R"][(random >> 40) as usize % 8];
            format!("{}:{flags} ", if random >> 60 & 1 == 0 { 'a' } else { 'b' })
        };
        let script = "a:S b:SA a:A ".repeat(n % 2) + &(0..10).map(|_| word()).collect::<String>();
        all.push((script.clone(), tcp(false, 4000 + n as u16, &script)));
    }
    for v6 in [false, true] {
        let (reach, hops) = if v6 { (1, 3) } else { (3, 11) };
        let asked = udp(v6, 'a', (1000, 53));
        let syn = tcp(v6, 3000, "a:S").remove(0);
        let question = ping(v6, 'a', true, 7);
        let stray = udp(v6, 'a', (1002, 53));
        let (unreachable, expired) = (error(v6, 'b', reach, &asked), error(v6, 'b', hops, &asked));
        let (of_syn, of_ping) = (error(v6, 'b', reach, &syn), error(v6, 'b', hops, &question));
        let (of_stray, of_answer) = (error(v6, 'b', reach, &stray), error(v6, 'a', reach, &udp(v6, 'b', (53, 1000))));
        let name = |what: &str| format!("{what} v6={v6}");
        all.push((
            name("datagrams"),
            vec![
                udp(v6, 'b', (53, 1000)),
                asked.clone(),
                udp(v6, 'b', (53, 1000)),
                udp(v6, 'b', (53, 1001)),
                udp(v6, 'a', (1000, 54)),
                udp(v6, 'b', (54, 1000)),
                asked.clone(),
                unreachable.clone(),
                expired,
                of_answer,
            ],
        ));
        all.push((name("errors"), vec![of_syn.clone(), syn, of_syn, of_stray, unreachable]));
        all.push((
            name("pings"),
            vec![
                ping(v6, 'b', false, 7),
                of_ping.clone(),
                question.clone(),
                ping(v6, 'b', false, 7),
                ping(v6, 'b', false, 8),
                of_ping,
                ping(v6, 'b', true, 7),
                ping(v6, 'a', false, 7),
                question,
                ping(v6, 'b', false, 7),
            ],
        ));
    }
    all
}

/// What the kernel does; `None` where it cannot be asked.
fn kernel(frames: &[Sent]) -> Option<Vec<String>> {
    let runs =
        |program: &str, args: &[&str]| Command::new(program).args(args).output().is_ok_and(|o| o.status.success());
    if !runs("unshare", &["-n", "nft", "add table inet x"]) || !runs("python3", &["-c", "0"]) {
        return None;
    }
    let mut child = Command::new("unshare")
        .args(["-n", "python3", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conntrack.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text: String = frames
        .iter()
        .map(|(side, f)| format!("{side} {}\n", f.iter().map(|b| format!("{b:02x}")).collect::<String>()))
        .collect();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "conntrack.py failed");
    writer.join().unwrap().unwrap();
    Some(String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn verdicts_are_those_of_nftables() {
    let exchanges = exchanges();
    let frames: Vec<Sent> = exchanges.iter().flat_map(|(_, sent)| sent.clone()).collect();
    let Some(expected) = kernel(&frames) else {
        println!("skipped: verdicts_are_those_of_nftables: needs root, unshare, nft and python3");
        return;
    };
    let rules = ["allow tcp to any port 80", "allow udp to any port 53", "allow icmp type 8", "allow icmp6 type 128"];
    let mut host = Host::new(&nf_firewall::KIND, json!({"rules_inline": rules, "stateful": {}}));
    let mut plain: Vec<Vec<u8>> = frames.into_iter().map(|(_, f)| f).collect();
    let seen: Vec<&str> = host.play(0, &mut plain).iter().map(|v| if *v == "next" { *v } else { "dropped" }).collect();
    assert_eq!(seen.len(), expected.len());
    let mut at = 0;
    let mut wrong = String::new();
    for (name, sent) in exchanges {
        let range = at..at + sent.len();
        at = range.end;
        if seen[range.clone()] != expected[range.clone()] {
            wrong += &format!("{name}\n  ours   {:?}\n  kernel {:?}\n", &seen[range.clone()], &expected[range]);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    println!("{at} packets, {} of them pass", seen.iter().filter(|v| **v == "next").count());
}
