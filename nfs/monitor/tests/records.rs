//! Flow records: in number and content what tshark finds in the same packets, and tshark reads them.

#![allow(clippy::unwrap_used)]

#[path = "../../../crates/packet/tests/support/mod.rs"]
mod captures;
#[path = "../../forward/tests/support/mod.rs"]
mod frames;
mod support;

use chainline_packet::parse;
use frames::{ipv4, ipv6, l4};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use support::{Dir, Host};

const SECOND: u64 = 1_000_000_000;

/// Protocol, source, destination: `10.0.0.1:53`.
type Flow = (u8, String, String);

fn flow(record: &Value) -> Flow {
    let end = |side: &str| format!("{}:{}", record[side].as_str().unwrap(), record[format!("{side}_port")]);
    (record["proto"].as_u64().unwrap() as u8, end("src"), end("dst"))
}

/// Packets and bytes by flow.
fn sums(records: &[Value]) -> BTreeMap<Flow, (u64, u64)> {
    let mut sums = BTreeMap::<_, (u64, u64)>::new();
    for r in records {
        let sum = sums.entry(flow(r)).or_default();
        *sum = (sum.0 + r["packets"].as_u64().unwrap(), sum.1 + r["bytes"].as_u64().unwrap());
    }
    sums
}

fn udp(src: u32, port: u16, payload: usize) -> Vec<u8> {
    let mut datagram = l4(17, port, 53);
    datagram.resize(20 + payload, 0);
    ipv4(src, 0x0a00_0001, 17, 64, &datagram)
}

fn ends(records: &[Value]) -> Vec<&str> {
    records.iter().map(|r| r["end"].as_str().unwrap()).collect()
}

#[test]
fn records_end_by_silence_by_age_and_at_the_end() {
    let mut host = Host::new(json!({"flow_records": {"json": "f", "idle_s": 10, "active_s": 30}}));
    for s in 0..=31 {
        host.play(s * SECOND, &mut [udp(1, 1000, 0)]);
        host.tick(s * SECOND, false);
    }
    host.play(31 * SECOND, &mut [udp(2, 1000, 100)]);
    // Silent: told by the next packet, or by the sweep.
    host.play(45 * SECOND, &mut [udp(2, 1000, 100)]);
    (45..50).for_each(|s| host.tick(s * SECOND, false));
    host.tick(50 * SECOND, true);
    let records = host.lines(0);
    assert_eq!(ends(&records), ["active", "idle", "idle", "stopped"]);
    let packets: Vec<_> =
        records.iter().map(|r| (r["src"].as_str().unwrap(), r["packets"].as_u64().unwrap())).collect();
    assert_eq!(packets, [("0.0.0.1", 30), ("0.0.0.2", 1), ("0.0.0.1", 2), ("0.0.0.2", 1)]);
    let ms = |r: &Value| r["last_ms"].as_u64().unwrap() - r["first_ms"].as_u64().unwrap();
    assert_eq!(records.iter().map(ms).collect::<Vec<_>>(), [29_000, 0, 1000, 0]);
    assert_eq!((records[1]["bytes"].as_u64(), records[1]["ip_bytes"].as_u64()), (Some(154), Some(140)));
    assert_eq!((host.counter("records"), host.counter("records_lost")), (4, 0));
}

#[test]
fn who_makes_room_is_written() {
    let mut host = Host::new(json!({"flow_records": {"json": "f", "flows": 100}}));
    for batch in 0..10 {
        let mut burst: Vec<_> = (0..100).map(|i| udp(batch * 100 + i, 7, 0)).collect();
        host.play(u64::from(batch), &mut burst);
    }
    host.tick(10, true);
    let records = host.lines(0);
    assert_eq!(sums(&records).values().map(|s| s.0).sum::<u64>(), 1000);
    assert_eq!(records.len(), 1000);
    assert_eq!(ends(&records).iter().filter(|e| **e == "no_room").count(), 900);
    assert_eq!(host.counter("flows_evicted"), 900);
}

/// What tshark says of conversations, by direction; bytes with what they are rounded to.
fn conversations(path: &Path, name: &str, proto: u8) -> Option<BTreeMap<Flow, (u64, u64, u64)>> {
    let out = Command::new("tshark")
        .args(["-n", "-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE", "-q", "-z"])
        .arg(format!("conv,{name}"))
        .arg("-r")
        .arg(path)
        .output()
        .ok()?;
    assert!(out.status.success() || !out.stdout.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut all = BTreeMap::<_, (u64, u64, u64)>::new();
    for line in String::from_utf8(out.stdout).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [a, "<->", b, ref back @ .., _, _] = words[..] else { continue };
        for (src, dst, n) in [(b, a, &back[..3]), (a, b, &back[3..6])] {
            let unit = match n[2] {
                "bytes" => 1,
                "kB" => 1000,
                "MB" => 1_000_000,
                other => panic!("{other}"),
            };
            let number = |word: &str| word.replace(',', "").parse::<u64>().unwrap();
            if number(n[0]) > 0 {
                let sum = all.entry((proto, src.to_owned(), dst.to_owned())).or_default();
                *sum = (sum.0 + number(n[0]), sum.1 + number(n[1]) * unit, sum.2 + unit);
            }
        }
    }
    Some(all)
}

/// Plays a capture; its records as JSON and IPFIX.
fn recorded(capture: &Path) -> (Vec<Value>, Vec<u8>, Host) {
    let args =
        json!({"flow_records": {"json": "f", "ipfix": "g", "flows": 65536, "idle_s": 1, "active_s": 3, "domain": 7}});
    let mut host = Host::new(args);
    let mut now_ns = 0;
    let mut all = Vec::new();
    captures::packets(&std::fs::read(capture).unwrap(), &mut |p| all.push(p.to_vec()));
    for burst in all.chunks_mut(32) {
        now_ns += 40_000_000;
        host.play(now_ns, burst);
        host.tick(now_ns, false);
    }
    host.tick(now_ns, true);
    assert_eq!((host.counter("records_lost"), host.counter("io_errors")), (0, 0));
    (host.lines(1), host.file(0).to_vec(), host)
}

#[test]
fn records_are_tshark_s_conversations() {
    let Some(data) = std::env::var_os("CHAINLINE_DATA") else { return println!("skipped: CHAINLINE_DATA is not set") };
    let dir = Dir::new();
    // Captures without tunnels, into which tshark looks and the monitor does not.
    for name in ["1kxun", "Facetime", "example2", "gnutella", "emix"] {
        let packed = std::fs::read(Path::new(&data).join(format!("captures/{name}.pcap.xz"))).unwrap();
        let mut plain = Vec::new();
        lzma_rust2::XzReader::new(&packed[..], true).read_to_end(&mut plain).unwrap();
        let capture = dir.0.join(format!("{name}.pcap"));
        std::fs::write(&capture, plain).unwrap();
        let (records, ipfix, host) = recorded(&capture);
        assert_eq!(host.counter("records"), records.len() as u64);
        let mut seen = sums(&records);
        seen.retain(|(proto, ..), _| matches!(proto, 6 | 17));
        let Some(tcp) = conversations(&capture, "tcp", 6) else { return println!("skipped: tshark is not installed") };
        let udp = conversations(&capture, "udp", 17).unwrap();
        let mut wrong = String::new();
        for (flow, (packets, bytes, unit)) in tcp.iter().chain(&udp) {
            match seen.remove(flow) {
                Some((p, b)) if p == *packets && b.abs_diff(*bytes) < *unit => {}
                other => wrong += &format!("{flow:?}: {other:?}, tshark {packets} packets, {bytes} bytes\n"),
            }
        }
        wrong += &seen.iter().map(|s| format!("{s:?}, tshark none\n")).collect::<String>();
        assert!(wrong.is_empty(), "{name}\n{wrong}");
        println!("{name}: {} records, {} flows of TCP, {} of UDP", records.len(), tcp.len(), udp.len());
        ipfix_is_read(&dir.0.join(format!("{name}.ipfix")), &ipfix, &records);
    }
}

/// Tshark reads the same records from the IPFIX file, in the same order.
fn ipfix_is_read(path: &Path, ipfix: &[u8], records: &[Value]) {
    std::fs::write(path, ipfix).unwrap();
    let fields = ["srcport", "dstport", "protocol", "packets", "octets", "flow_end_reason", "od_id"];
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-T", "fields", "-E", "separator=;", "-r"]).arg(path);
    fields.iter().for_each(|f| {
        tshark.args(["-e", &format!("cflow.{f}")]);
    });
    let out = tshark.args(["-e", "_ws.expert.message", "-e", "_ws.malformed"]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut read = Vec::new();
    for line in String::from_utf8(out.stdout).unwrap().lines().skip(1) {
        let columns: Vec<&str> = line.split(';').collect();
        assert_eq!(columns[6..], ["7", "", ""], "{line}");
        let values: Vec<Vec<u64>> =
            columns[..6].iter().map(|c| c.split(',').map(|v| v.parse().unwrap()).collect()).collect();
        read.extend((0..values[0].len()).map(|i| values.iter().map(|v| v[i]).collect::<Vec<_>>()));
    }
    let reason =
        |r: &Value| ["", "idle", "active", "", "stopped", "no_room"].iter().position(|e| r["end"] == *e).unwrap();
    let expected: Vec<Vec<u64>> = records
        .iter()
        .map(|r| {
            let n = |field: &str| r[field].as_u64().unwrap();
            vec![n("src_port"), n("dst_port"), n("proto"), n("packets"), n("ip_bytes"), reason(r) as u64]
        })
        .collect();
    assert!(read == expected, "{}: {} records, tshark reads {}", path.display(), expected.len(), read.len());
}

/// What a file has when its writer was killed at any point goes on: whole records, numbers without a gap.
#[test]
fn a_torn_file_goes_on() {
    let dir = Dir::new();
    let args = || json!({"flow_records": {"json": "f", "ipfix": "g", "domain": 7}});
    // 100 flows more each time: templates, and records in five messages; and as many lines.
    let run = |n: u32| {
        let mut host = Host::in_dir(args(), &dir.0);
        host.play(u64::from(n), &mut (0..100).map(|i| udp(n * 100 + i, 7, 0)).collect::<Vec<_>>());
        host.tick(u64::from(n), true);
        (host.file(0).to_vec(), host.file(1).to_vec(), host.lines(1))
    };
    let (ipfix, lines, records) = run(0);
    assert_eq!(records.len(), 100);
    let mut seen_lens = std::collections::BTreeSet::new();
    for cut in (0..ipfix.len()).step_by(97).chain([ipfix.len()]) {
        std::fs::write(dir.0.join("g"), &ipfix[..cut]).unwrap();
        std::fs::write(dir.0.join("f"), &lines[..cut.min(lines.len())]).unwrap();
        let (again, _, records) = run(1);
        let kept = cut.min(lines.len());
        let kept = lines[..kept].iter().filter(|b| **b == b'\n').count();
        assert_eq!(records.len(), kept + 100, "{cut}");
        let starts = sequence(&again);
        let whole = sequence(&ipfix[..cut]).len();
        // Templates, then messages of data; each begins where those before it ended.
        assert_eq!(starts.len(), whole + 6, "{cut}");
        seen_lens.insert(starts.len());
        if cut % 7 == 0 || cut == ipfix.len() {
            tshark_has_no_complaint(&dir.0.join("again"), &again);
        }
    }
    assert_eq!(seen_lens.len(), 7, "{seen_lens:?}");
}

/// The sequence numbers of whole messages, each of which must be the number of records before.
fn sequence(ipfix: &[u8]) -> Vec<u32> {
    let (mut at, mut records, mut all) = (0, 0, Vec::new());
    let word = |at: usize| usize::from(u16::from_be_bytes([ipfix[at], ipfix[at + 1]]));
    while ipfix.len() >= at + 16 && ipfix.len() >= at + word(at + 2) {
        let number = u32::from_be_bytes(ipfix[at + 8..at + 12].try_into().unwrap());
        assert_eq!((number, word(at)), (records, 10), "message {} at {at}", all.len());
        all.push(number);
        // All are IPv4: 59 bytes.
        if word(at + 16) == 256 {
            records += (word(at + 18) as u32 - 4) / 59;
        }
        at += word(at + 2);
    }
    all
}

fn tshark_has_no_complaint(path: &Path, ipfix: &[u8]) {
    std::fs::write(path, ipfix).unwrap();
    let out = Command::new("tshark")
        .args(["-n", "-T", "fields", "-e", "_ws.expert.message", "-e", "_ws.malformed", "-r"])
        .arg(path)
        .output();
    let Ok(out) = out else { return println!("skipped: tshark is not installed") };
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && text.trim().is_empty(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(text.lines().count(), sequence(ipfix).len());
}

/// All fields of an IPv4 and an IPv6 record, as tshark reads them.
#[test]
fn tshark_reads_all_fields() {
    let dir = Dir::new();
    let mut host = Host::new(json!({"flow_records": {"ipfix": "g"}}));
    let mut syn = l4(6, 1000, 80);
    syn[13] = 0x12;
    host.play(0, &mut [ipv4(0x0a00_0007, 0x0a00_0001, 6, 64, &syn), ipv6(1 << 96, 2, 17, 64, &l4(17, 9, 53))]);
    host.play(2 * SECOND, &mut [ipv4(0x0a00_0007, 0x0a00_0001, 6, 64, &syn)]);
    host.tick(3 * SECOND, true);
    let path = dir.0.join("g.ipfix");
    std::fs::write(&path, host.file(0)).unwrap();
    let out = Command::new("tshark").args(["-n", "-V", "-r"]).arg(&path).output();
    let Ok(out) = out else { return println!("skipped: tshark is not installed") };
    let text = String::from_utf8(out.stdout).unwrap();
    for line in [
        "SrcAddr: 10.0.0.7",
        "DstAddr: 10.0.0.1",
        "SrcPort: 1000",
        "DstPort: 80",
        "Protocol: TCP (6)",
        "Packets: 2",
        "Octets: 80",
        "Layer2 Octet Delta Count: 108",
        "[Duration: 2.000000000 seconds (milliseconds)]",
        "SrcAddr: 0:1::",
        "DstAddr: ::2",
        "Protocol: UDP (17)",
        "Octets: 60",
        "Flow End Reason: Forced end (4)",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn heavy_hitters_of_real_packets_are_within_their_errors() {
    let mut host = Host::new(json!({"heavy_hitters": {"share": 0.02}}));
    let (mut exact, mut total) = (BTreeMap::<String, u64>::new(), 0);
    let there = captures::captures(&mut |mut all| {
        all.retain(|f| f.len() <= 9018);
        for f in &all {
            if let Some(src) = parse(f).tuple.src() {
                *exact.entry(src.to_canonical().to_string()).or_default() += f.len() as u64;
                total += f.len() as u64;
            }
        }
        host.play(0, &mut all);
    });
    let report = host.report();
    let rows = report.lines().skip_while(|l| !l.starts_with("heavy hitters")).skip(2);
    let rows: BTreeMap<String, (u64, u64)> = rows
        .map(|l| l.split_whitespace().collect::<Vec<_>>())
        .map(|w| (w[0].to_owned(), (w[1].parse().unwrap(), w[2].parse().unwrap())))
        .collect();
    for (name, (least, most)) in &rows {
        assert!((*least..=*most).contains(&exact[name]) && most - least <= total / 500, "{name}");
    }
    let large = exact.iter().filter(|(_, bytes)| **bytes * 50 >= total);
    for (name, bytes) in large {
        assert!(rows.contains_key(name), "{name} has {bytes} of {total}\n{report}");
    }
    assert!(!there || !rows.is_empty(), "{report}");
}
