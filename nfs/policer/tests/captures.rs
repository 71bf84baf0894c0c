//! Real and malformed captures, all of their packets marked: each gets a verdict, and tshark reads the new DSCP and finds
//! the checksums as right and as wrong as they were.

#![allow(clippy::unwrap_used)]

#[path = "../../../crates/packet/tests/support/mod.rs"]
mod captures;
#[path = "../../forward/tests/support/mod.rs"]
mod support;

use chainline_packet::parse;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use support::Host;

/// Frames that tshark looks at, at most: it takes its time.
const JUDGED: usize = 20_000;
/// What becomes of green and of yellow packets: AF11 and AF12.
const DSCPS: [&str; 2] = ["10", "12"];

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

/// For each frame: its outermost DSCP, its ECN bits, and what tshark says of the checksum of its first IPv4 header (1 is
/// right, 0 wrong, 2 cannot be said).
fn judge(path: &Path) -> Vec<[String; 3]> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(path).args(["-T", "fields", "-E", "occurrence=f", "-o", "ip.check_checksum:TRUE"]);
    for field in ["ip.dsfield.dscp", "ipv6.tclass.dscp", "ip.dsfield.ecn", "ipv6.tclass.ecn", "ip.checksum.status"] {
        tshark.args(["-e", field]);
    }
    let out = tshark.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let read = |line: &str| {
        let f: Vec<&str> = line.split('\t').collect();
        let either = |a: usize, b: usize| if f[a].is_empty() { f[b].to_owned() } else { f[a].to_owned() };
        [either(0, 1), either(2, 3), f[4].to_owned()]
    };
    String::from_utf8(out.stdout).unwrap().lines().map(read).collect()
}

#[test]
fn every_capture_is_metered_and_marked() {
    let has_tshark = Command::new("tshark").arg("-v").output().is_ok_and(|o| o.status.success());
    // A flow's first bytes are green, the rest is yellow.
    let meter = json!({"srtcm": {"cir_bytes_s": 1_000_000, "cbs_bytes": 1000, "ebs_bytes": 100_000_000_000u64}});
    let class = json!({"name": "all", "per": "flow", "meter": meter, "green": {"dscp": 10}, "yellow": {"dscp": 12}});
    let mut host = Host::new(&nf_policer::KIND, json!({"classes": [class], "flows": 4096, "flows6": 1024}));
    let (mut seen, mut outcomes) = (0, BTreeMap::<String, usize>::new());
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let there = captures::captures(&mut |mut frames| {
        // Longer ones cannot be received: a buffer holds 9,018 bytes.
        frames.retain(|f| f.len() <= 9018);
        seen += frames.len();
        let old = frames.clone();
        let verdicts: Vec<String> = host.play(0, &mut frames).iter().map(|v| (*v).to_owned()).collect();
        for ((old, new), verdict) in old.into_iter().zip(frames).zip(&verdicts) {
            if verdict == "next" && before.len() < JUDGED {
                before.push(old);
                after.push(new);
            }
        }
        for verdict in verdicts {
            *outcomes.entry(verdict).or_default() += 1;
        }
    });
    if !there {
        return;
    }
    let counters: Vec<u64> = ["all_green", "all_yellow", "all_red", "other"].iter().map(|c| host.counter(c)).collect();
    println!("{seen} packets: {outcomes:?}; green, yellow, red, not IP: {counters:?}");
    assert_eq!(outcomes.values().sum::<usize>(), seen);
    assert_eq!(counters.iter().sum::<u64>() as usize + outcomes.get("malformed").unwrap_or(&0), seen);
    assert!(counters[0] > 1000 && counters[1] > 1000);
    assert!(host.counter("flows_evicted") > 0, "fewer flows than places");
    if !has_tshark {
        println!("skipped: tshark is not installed");
        return;
    }
    let folder = std::env::temp_dir().join(format!("chainline-policer-captures-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (old, new) = (folder.join("before.pcap"), folder.join("after.pcap"));
    write(&old, &before);
    write(&new, &after);
    let (old, new) = (judge(&old), judge(&new));
    assert_eq!((old.len(), new.len()), (before.len(), after.len()));
    let (mut right, mut six) = (0, 0);
    for (n, (old, new)) in old.iter().zip(&new).enumerate() {
        let at = format!("frame {} of {}", n + 1, folder.join("after.pcap").display());
        let version = parse(&after[n]).tuple.version();
        assert_eq!(old[1..], new[1..], "{at}: ECN or checksum");
        if version == 0 {
            assert_eq!(before[n], after[n], "{at}: not IP");
        } else {
            assert!(DSCPS.contains(&new[0].as_str()), "{at}: DSCP {}", new[0]);
            right += usize::from(new[2] == "1");
            six += usize::from(version == 6);
        }
    }
    println!("tshark: {right} marked IPv4 packets with right checksums, {six} marked IPv6 packets");
    assert!(right > 5_000 && six > 100);
    std::fs::remove_dir_all(&folder).unwrap();
}
