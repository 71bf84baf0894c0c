//! Real and malformed captures, half of all addresses taken for inside: each packet gets a verdict, and tshark finds the
//! checksums as right and as wrong as they were.

#![allow(clippy::unwrap_used)]

#[path = "../../../crates/packet/tests/support/mod.rs"]
mod captures;
#[path = "../../forward/tests/support/mod.rs"]
mod support;

use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use support::Host;

/// Frames that one NAT gets: several captures, as a new one for each takes its time.
const TOGETHER: usize = 20_000;
/// Frames that tshark looks at, at most: it takes its time.
const JUDGED: usize = 20_000;

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
fn every_capture_is_translated() {
    let has_tshark = Command::new("tshark").arg("-v").output().is_ok_and(|o| o.status.success());
    let folder = std::env::temp_dir().join(format!("chainline-nat-captures-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (mut seen, mut outcomes) = (0, BTreeMap::<String, usize>::new());
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut translated = 0;
    let mut play = |frames: &mut Vec<Vec<u8>>| {
        seen += frames.len();
        let args = json!({"inside": ["0.0.0.0/1", "172.16.0.0/12", "192.168.0.0/16"], "pool": ["203.0.113.0/28"],
            "flows": 65536, "subscribers": 65536});
        let mut host = Host::new(&nf_nat::KIND, args);
        let old = frames.clone();
        let verdicts: Vec<String> = host.play(0, frames).iter().map(|v| (*v).to_owned()).collect();
        for ((old, new), verdict) in old.into_iter().zip(frames.drain(..)).zip(&verdicts) {
            if verdict == "next" && old != new && before.len() < JUDGED {
                before.push(old);
                after.push(new);
            }
        }
        translated += host.counter("translated_out");
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
        println!("{seen} packets, {translated} translated: {outcomes:?}");
        assert_eq!(outcomes.values().sum::<usize>(), seen);
        assert!(translated > 10_000);
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
            assert!(right > 1_000);
        } else {
            println!("skipped: tshark is not installed");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
