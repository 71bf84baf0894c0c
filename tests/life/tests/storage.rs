//! NFs that write to disk: nothing is lost, whatever the isolation, when the disk is full, and when they are killed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use life_tests::scene::{assert_lossless, assert_settled, shown, silent, stop};
use life_tests::{Scene, Seen, Watch, frames, processes};
use std::path::{Path, PathBuf};
use std::process::Command;

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");
const ISOLATIONS: [&str; 3] = ["process", "thread", "fused"];

/// A file as it would be had all packets come at the same time.
fn without_times(path: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).unwrap();
    let mut at = 0;
    while at < bytes.len() {
        let word = |i: usize| u32::from_le_bytes(bytes[at + i..at + i + 4].try_into().unwrap());
        let (kind, len) = (word(0), word(4) as usize);
        if kind == 6 {
            bytes[at + 12..at + 20].fill(0);
        }
        at += len;
    }
    bytes
}

/// With buffers of two packets, so that the NF waits for them again and again.
#[test]
fn the_file_is_the_same_in_all_isolations() {
    for (sync, count) in [("none", 5_000), ("async", 300), ("hold", 300)] {
        let sent = frames::random(count, 7);
        let mut files = Vec::new();
        for isolation in ISOLATIONS {
            let scene = Scene::new(HOST);
            frames::write(&scene.join("in.pcap"), &sent);
            let spec = format!(
                "
  defaults: {{isolation: {isolation}}}
  ports: {{in: {{pcap: {{read: in.pcap}}}}, out: {{pcap: {{write: out.pcap}}}}}}
  nfs:
    a: {{kind: pass}}
    log: {{kind: logger, args: {{file: log.pcapng, sync: {sync}, snaplen: 500, batch_bytes: 1100}}}}
    b: {{kind: pass}}
  chains:
    - {{name: all, path: [in, a, log, b, out]}}
"
            );
            let report = scene.run(&spec, &mut silent());
            assert_lossless(&report, "all");
            let storage = report.nfs["log"].storage.as_ref().unwrap_or_else(|| panic!("{}", shown(&report)));
            let bytes: usize = sent.iter().map(|f| 32 + f.len().next_multiple_of(4)).sum();
            assert_eq!((storage.files[0].bytes_written, storage.files[0].errors), (bytes as u64, 0), "{isolation}");
            frames::assert_same(&sent, &frames::read(&scene.join("log.pcapng")));
            frames::assert_same(&sent, &frames::read(&scene.join("out.pcap")));
            files.push(without_times(&scene.join("log.pcapng")));
        }
        assert!(files.iter().all(|f| *f == files[0]), "{sync}");
    }
}

/// A file system of a few pages. Unmounted with its value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(path: PathBuf) -> Option<Self> {
        std::fs::create_dir(&path).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&path).output();
        mount.is_ok_and(|o| o.status.success()).then_some(Self(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|s| s.success()) || std::thread::panicking());
    }
}

#[test]
fn a_full_disk_is_counted_and_packets_go_on_or_are_dropped() {
    const COUNT: usize = 1_000;
    for (sync, on_error) in [("none", "pass"), ("hold", "pass"), ("hold", "drop")] {
        let scene = Scene::new(HOST);
        let Some(disk) = SmallDisk::at(scene.join("disk")) else {
            return println!("skipped: nothing can be mounted here");
        };
        let sent = frames::random(COUNT, 3);
        frames::write(&scene.join("in.pcap"), &sent);
        let spec = format!(
            "
  ports: {{in: {{pcap: {{read: in.pcap}}}}, out: {{pcap: {{write: out.pcap}}}}}}
  nfs:
    log:
      kind: logger
      args: {{file: disk/log.pcapng, sync: {sync}, on_error: {on_error}, snaplen: 500, batch_bytes: 5000, flush_ms: 1}}
  chains:
    - {{name: all, path: [in, log, out]}}
"
        );
        let report = scene.run(&spec, &mut silent());
        let file = &report.nfs["log"].storage.as_ref().unwrap().files[0];
        assert!(file.errors > 0 && file.bytes_lost > 100_000, "{}", shown(&report));
        assert_eq!(file.last_error.as_deref(), Some("No space left on device (os error 28)"));
        assert_eq!(report.nfs["log"].report.as_deref(), Some("last error: No space left on device (os error 28)"));
        // What is there is whole.
        let logged = frames::read(&disk.0.join("log.pcapng"));
        assert!(logged.len() > 50 && logged.iter().all(|f| sent.contains(f)), "{}", logged.len());
        let passed = frames::read(&scene.join("out.pcap"));
        if on_error == "drop" {
            assert_eq!(report.chains["all"].dropped["not_logged"], (COUNT - logged.len()) as u64);
            frames::assert_same(&logged, &passed);
        } else {
            assert_lossless(&report, "all");
            assert_eq!(passed.len(), COUNT);
        }
    }
}

#[test]
fn a_file_that_cannot_be_begun_refuses_the_chain() {
    let scene = Scene::new(HOST);
    let spec = "
  ports: {in: {generator: {frame_bytes: 64, count: 1}}, out: {sink: {}}}
  nfs: {log: {kind: logger, args: {file: /dev/full}}}
  chains: [{name: all, path: [in, log, out]}]
";
    let why = scene.try_run(spec, &mut silent()).unwrap_err().to_string();
    assert!(why.contains("log: cannot begin /dev/full: No space left on device (os error 28)"), "{why}");
}

/// What a dead NF held comes back as a counted drop, and its file goes on in a new section.
#[test]
fn killed_while_packets_wait_for_the_disk() {
    const COUNT: u64 = 3_000;
    let scene = Scene::new(HOST);
    scene.script("waits", &["kill 100", "kill 150"]);
    let spec = format!(
        "
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}, rate: 20kpps, lossless: true}}}}
    in2: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}, rate: 20kpps, lossless: true}}}}
    out: {{sink: {{}}}}
    out2: {{sink: {{}}}}
  nfs:
    log: {{kind: dying_logger, args: {{script: waits, logger: {{file: log.pcapng, sync: hold, flush_ms: 200}}}}}}
    other: {{kind: logger, args: {{file: other.pcapng, sync: hold, flush_ms: 1}}}}
  chains:
    - {{name: dies, path: [in, log, out]}}
    - {{name: lives, path: [in2, other, out2]}}
"
    );
    let report = scene.run(&spec, &mut silent());
    assert_lossless(&report, "lives");
    let dies = &report.chains["dies"];
    let lost = dies.dropped["nf_died"];
    assert!(lost >= 200, "{}", shown(&report));
    assert_eq!((dies.received, dies.transmitted, report.nfs["log"].restarts), (COUNT, COUNT - lost, 2));
    // Whoever went on had been written; who died may have been.
    let logged = frames::read(&scene.join("log.pcapng")).len() as u64;
    assert!((dies.transmitted..=COUNT).contains(&logged), "{logged}: {}", shown(&report));
    assert_eq!(frames::read(&scene.join("other.pcapng")).len() as u64, COUNT);
}

/// Flow records of an NF that is killed again and again: what was half written is cut off, and the messages' numbers are
/// those of the records in the file, without a gap.
#[test]
fn flow_records_go_on_after_a_kill() {
    const KILLS: u64 = 3;
    let scene = Scene::new(HOST);
    // Nearly each packet is of a flow that is not known any more.
    let spec = "
  ports: {in: {generator: {frame_bytes: 64, flows: 5000, rate: 20kpps, lossless: true}}, out: {sink: {}}}
  nfs: {mon: {kind: monitor, args: {flow_records: {ipfix: flows.ipfix, json: flows.json, flows: 64}}}}
  chains: [{name: all, path: [in, mon, out]}]
";
    let (mut kills, mut again, mut enough) = (0, 0, 20_000);
    let path = scene.join("flows.ipfix");
    let report = scene.run(
        spec,
        &mut Watch(|seen: Seen<'_>| match seen {
            Seen::Happened(h) if h.what == "runs again" => again += 1,
            Seen::Interval(_) if kills == again => {
                let len = std::fs::metadata(&path).map_or(0, |m| m.len());
                if len >= enough && kills == KILLS {
                    stop();
                } else if len >= enough && processes::kill("mon") {
                    (kills, enough) = (kills + 1, len + 20_000);
                }
            }
            _ => {}
        }),
    );
    assert_eq!((report.nfs["mon"].restarts, report.ledger.balanced), (KILLS, true), "{}", shown(&report));
    let ipfix = std::fs::read(&path).unwrap();
    let word = |at: usize| u16::from_be_bytes([ipfix[at], ipfix[at + 1]]);
    let (mut at, mut records, mut starts) = (0, 0, 0);
    while at < ipfix.len() {
        let sequence = u32::from_be_bytes(ipfix[at + 8..at + 12].try_into().unwrap());
        assert_eq!((word(at), sequence), (10, records), "the message at {at}");
        let end = at + usize::from(word(at + 2));
        let mut set = at + 16;
        while set < end {
            // Templates; else records of IPv4 flows, 59 bytes each.
            starts += u64::from(word(set) == 2);
            records += if word(set) == 256 { u32::from(word(set + 2) - 4) / 59 } else { 0 };
            set += usize::from(word(set + 2));
        }
        at = end;
    }
    assert_eq!((at, starts), (ipfix.len(), KILLS + 1));
    assert!(records > 1000, "{records}");
    let json = std::fs::read_to_string(scene.join("flows.json")).unwrap();
    assert!(json.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "a line is torn");
}

/// At the end of an endless run, what is in a buffer that would not have been written for long reaches the file, and
/// the packets that wait for it go on.
#[test]
fn the_end_finds_packets_that_wait() {
    for isolation in ["process", "thread"] {
        let scene = Scene::new(HOST);
        let spec = format!(
            "
  defaults: {{isolation: {isolation}}}
  ports: {{in: {{generator: {{frame_bytes: 64, flows: 9, rate: 20kpps}}}}, out: {{sink: {{}}}}}}
  nfs: {{log: {{kind: logger, args: {{file: log.pcapng, sync: hold, flush_ms: 50}}}}}}
  chains: [{{name: all, path: [in, log, out]}}]
"
        );
        let mut held = false;
        let report = scene.run(
            &spec,
            &mut Watch(|seen: Seen<'_>| {
                if let Seen::Interval(i) = seen
                    && i.nfs[0].held > 0
                    && !held
                {
                    held = true;
                    stop();
                }
            }),
        );
        assert!(held);
        assert_settled(&report);
        assert_lossless(&report, "all");
        let logged = frames::read(&scene.join("log.pcapng")).len() as u64;
        assert_eq!(logged, report.chains["all"].transmitted, "{isolation}");
    }
}
