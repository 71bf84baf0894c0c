//! Real and malformed captures: what is written is what came, read by a reader that is not ours.

#![allow(clippy::unwrap_used)]

#[path = "../../../crates/packet/tests/support/mod.rs"]
mod captures;
mod support;

use chainline_storage::Choice;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::path::Path;
use std::process::Command;
use support::{Dir, Host};

fn written(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(p) = block.unwrap() {
            assert_eq!(p.original_len as usize, p.data.len());
            frames.push(p.data.into_owned());
        }
    }
    frames
}

#[test]
fn every_capture_is_written_and_read_again() {
    for (choice, sync) in [(Choice::Auto, "none"), (Choice::Thread, "hold")] {
        let (mut files, mut packets) = (0, 0);
        captures::captures(&mut |mut frames| {
            // Longer ones cannot be received: a buffer holds 9,018 bytes. Few of each: it is about their variety.
            frames.retain(|f| f.len() <= 9018);
            frames.truncate(if sync == "hold" { 200 } else { 2000 });
            let dir = Dir::new();
            let args = serde_json::json!({"file": "log.pcapng", "sync": sync, "batch_bytes": 65536});
            let mut host = Host::new(&dir.0, args, choice);
            let sent = frames.clone();
            let next = host.play(&mut frames);
            host.drain();
            assert_eq!(next, if sync == "hold" { 0 } else { sent.len() });
            assert_eq!(host.counter("packets_logged"), sent.len() as u64);
            assert!(written(&dir.0.join("log.pcapng")) == sent);
            assert!(frames == sent, "a packet was changed");
            (files, packets) = (files + 1, packets + sent.len());
        });
        println!("{files} files, {packets} packets");
    }
}

/// Tshark sees the same packets, also in a file of several sections, one of which was cut off in the middle.
#[test]
fn tshark_reads_it() {
    let dir = Dir::new();
    let path = dir.0.join("log.pcapng");
    let frame = |i: u16| {
        let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
        f.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        f.extend([i.to_be_bytes(), 53u16.to_be_bytes(), [0, 8], [0, 0]].concat());
        f
    };
    let mut expected = String::new();
    for section in 0..3u16 {
        let args = serde_json::json!({"file": "log.pcapng"});
        let mut host = Host::new(&dir.0, args, Choice::Auto);
        let mut frames: Vec<_> = (0..100).map(|i| frame(1000 * (section + 1) + i)).collect();
        host.play(&mut frames);
        host.drain();
        // The last block of the second section is torn; the writer of the third cuts it off.
        let last = if section == 1 { 99 } else { 100 };
        expected.extend((0..last).map(|i| format!("{}\t42\n", 1000 * (section + 1) + i)));
        drop(host);
        if section == 1 {
            let len = path.metadata().unwrap().len();
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len - 9).unwrap();
        }
    }
    let out = Command::new("tshark")
        .args(["-n", "-T", "fields", "-e", "udp.srcport", "-e", "frame.len", "-r"])
        .arg(&path)
        .output();
    let Ok(out) = out else { return println!("skipped: tshark is not installed") };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8_lossy(&out.stdout), expected);
}
