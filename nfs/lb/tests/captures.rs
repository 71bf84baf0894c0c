//! Real and malformed captures, their own destinations made services: each packet gets a verdict, and tshark finds the
//! checksums as right and as wrong as they were.

#![allow(clippy::unwrap_used)]

#[path = "../../../crates/packet/tests/support/mod.rs"]
mod captures;
#[path = "../../forward/tests/support/mod.rs"]
mod support;

use chainline_packet::{parse, proto};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use support::Host;

/// Frames that one load balancer gets: several captures, as a new one for each takes its time.
const TOGETHER: usize = 20_000;
/// Its services, at most.
const SERVICES: usize = 2000;
/// Frames that tshark looks at, at most: it takes its time.
const JUDGED: usize = 20_000;

/// The frames' destinations as services, with ports from 1 to 65535 and three backends each.
fn services(frames: &[Vec<u8>]) -> String {
    let mut seen: BTreeSet<(u8, IpAddr)> = BTreeSet::new();
    for frame in frames {
        let flow = parse(frame).tuple;
        let Some(dst) = flow.dst() else { continue };
        if matches!(flow.proto(), proto::TCP | proto::UDP) && !dst.is_multicast() && !dst.is_unspecified() {
            seen.insert((flow.proto(), dst));
        }
    }
    // One that nobody asks for, so that the file is never empty.
    let mut text = "service none udp 192.0.2.255 port 1 nat\nbackend 10.255.255.1\n".to_owned();
    for (n, (p, dst)) in seen.into_iter().take(SERVICES).enumerate() {
        let name = if p == proto::TCP { "tcp" } else { "udp" };
        writeln!(text, "service s{n} {name} {dst} port 1-65535 nat").unwrap();
        for b in 1..=3 {
            match dst {
                IpAddr::V4(_) => writeln!(text, "backend 10.{}.{}.{b}", 100 + n / 200, n % 200),
                IpAddr::V6(_) => writeln!(text, "backend fd00:{n:x}::{b}"),
            }
            .unwrap();
        }
    }
    text
}

/// A capture file in the format of old.
fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    std::fs::write(path, file).unwrap();
}

/// For each frame, what tshark says of its checksums: 1 is right, 0 wrong, 2 cannot be said.
fn judge(path: &Path) -> Vec<String> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(path).args(["-T", "fields"]);
    for layer in ["ip", "tcp", "udp"] {
        tshark.args(["-o", &format!("{layer}.check_checksum:TRUE")]);
    }
    for layer in ["ip", "tcp", "udp", "icmp", "icmpv6"] {
        tshark.args(["-e", &format!("{layer}.checksum.status")]);
    }
    let out = tshark.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_capture_is_balanced() {
    let has_tshark = Command::new("tshark").arg("-v").output().is_ok_and(|o| o.status.success());
    let folder = std::env::temp_dir().join(format!("chainline-lb-captures-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (mut seen, mut outcomes) = (0, BTreeMap::<String, usize>::new());
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut balanced = 0;
    let mut play = |frames: &mut Vec<Vec<u8>>| {
        seen += frames.len();
        std::fs::write(folder.join("services"), services(frames)).unwrap();
        let args = json!({"services": "services", "flows": 65536, "flows6": 16384, "table_size": 251});
        let mut host = Host::in_dir(&nf_lb::KIND, args, &folder).unwrap();
        let old = frames.clone();
        let verdicts: Vec<String> = host.play(0, frames).iter().map(|v| (*v).to_owned()).collect();
        for ((old, new), verdict) in old.into_iter().zip(frames.drain(..)).zip(&verdicts) {
            if verdict == "next" && before.len() < JUDGED {
                before.push(old);
                after.push(new);
            }
        }
        balanced += host.counter("balanced");
        for verdict in verdicts {
            *outcomes.entry(verdict).or_default() += 1;
        }
    };
    let mut waiting = Vec::new();
    let there = captures::captures(&mut |frames| {
        // Longer ones cannot be received: a buffer holds 9,018 bytes.
        waiting.extend(frames.into_iter().filter(|f| f.len() <= 9018));
        if waiting.len() >= TOGETHER {
            play(&mut waiting);
        }
    });
    play(&mut waiting);
    if there {
        println!("{seen} packets, {balanced} to backends: {outcomes:?}");
        assert_eq!(outcomes.values().sum::<usize>(), seen);
        assert!(balanced > 100_000);
        if has_tshark {
            let (old, new) = (folder.join("before.pcap"), folder.join("after.pcap"));
            write(&old, &before);
            write(&new, &after);
            let changed: Vec<bool> = before.iter().zip(&after).map(|(b, a)| b != a).collect();
            let (old, new) = (judge(&old), judge(&new));
            assert_eq!((old.len(), new.len()), (changed.len(), changed.len()));
            let mut right = 0;
            for (n, ((old, new), changed)) in old.iter().zip(&new).zip(changed).enumerate() {
                assert_eq!(old, new, "frame {} of {}", n + 1, folder.join("after.pcap").display());
                right += usize::from(changed && new.contains('1'));
            }
            println!("tshark: {right} rewritten packets have right checksums");
            assert!(right > 5_000);
        } else {
            println!("skipped: tshark is not installed");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
