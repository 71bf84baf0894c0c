//! What a generator sends, beside what `workload make` writes, beside what tshark reads in it.

use crate::command::{Dir, chainline, outcome, run};
use pcap::Capture;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

/// Each says something else of what can be said.
const GENERATORS: &[&str] = &[
    "{frame_bytes: 64, flows: 100, rate: 1Mpps}",
    "{mix: csit-imix, flows: 1000, order: {zipf: 1.1}, rate: 1Mpps, schedule: poisson, seed: 7}",
    "{mix: {genome: '3(ab)g'}, flows: 50, order: {interleave: {flows: 5, packets: 4}}, vlan: [200, 100], rate: 1Gbps}",
    "{mix: datacenter-small, flows: 1100, hosts: {count: 20, times: 10}, vlan: 7, src_port: 40000-40999, rate: 1Mpps,
      schedule: {bursts: {packets: 10, gap_us: 50}}}",
    "{mix: {file: sizes.csv}, proto: tcp, flows: 40, flow_packets: 10, src: '2001:db8:1::/48', dst: '2001:db8:2::/48',
      rate: 1Mpps, schedule: {ramp: {from: 100kpps, over_s: 0.002}}}",
    "{proto: tcp, frame_bytes: 128, flows: 40, flow_packets: {histogram: lengths.csv}, order: random, rate: 1Mpps}",
    "{mix: {capture: sizes.pcap}, flows: 200, working_set: {flows: 20, packets: 100}, order: random, rate: 1Mpps}",
];

fn dir() -> Dir {
    let dir = Dir::new();
    dir.write("sizes.csv", "size,weight\n86,50\n600,30\n1518,20\n");
    dir.write("lengths.csv", "1,2,50\n2,5,30\n5,41,20\n");
    crate::capture::write(&dir.path("sizes.pcap"), &[vec![0; 60], vec![0; 60], vec![0; 996]]);
    dir
}

/// Frames and their times in nanoseconds.
fn frames(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut file = Capture::from_file_with_precision(path, pcap::Precision::Nano).unwrap();
    std::iter::from_fn(|| {
        let packet = file.next_packet().ok()?;
        let ts = packet.header.ts;
        Some((ts.tv_sec as u64 * 1_000_000_000 + ts.tv_usec as u64, packet.data.to_vec()))
    })
    .collect()
}

fn make(dir: &Dir, generator: &str, count: u32) -> Vec<(u64, Vec<u8>)> {
    let spec = format!(
        "  ports: {{in: {{generator: {generator}}}, out: {{sink: {{}}}}}}\n  chains: [{{name: a, path: [in, out]}}]\n"
    );
    let file = dir.chain_file("make.yaml", &spec);
    let (out, count) = (dir.path("made.pcap"), count.to_string());
    let made = outcome(chainline().args(["workload", "make"]).arg(file).args(["-n", &count, "-o"]).arg(&out));
    assert_eq!(made.status.code(), Some(0), "{generator}: {}", made.stderr);
    frames(&out)
}

#[test]
fn a_port_sends_what_workload_make_writes_byte_for_byte() {
    let dir = dir();
    for generator in GENERATORS {
        let made: Vec<_> = make(&dir, generator, 3000).into_iter().map(|(_, frame)| frame).collect();
        let counted = generator.replacen('{', "{count: 3000, lossless: true, ", 1);
        let spec = format!(
            "  ports: {{in: {{generator: {counted}}}, out: {{pcap: {{write: sent.pcap}}}}}}\n  chains: [{{name: a, path: [in, out]}}]\n"
        );
        let report = run(&dir.chain_file("run.yaml", &spec), &[]);
        assert_eq!((&report["ledger"]["transmitted"], &report["ledger"]["balanced"]), (&3000.into(), &true.into()));
        let sent: Vec<_> = frames(&dir.path("sent.pcap")).into_iter().map(|(_, frame)| frame).collect();
        assert!(made == sent, "{generator}: {} made, {} sent, not the same", made.len(), sent.len());
    }
}

/// Fields of each packet as tshark reads them, checksums looked at.
fn tshark(path: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path).args(["-T", "fields"]);
    for layer in ["ip", "udp", "tcp"] {
        command.args(["-o", &format!("{layer}.check_checksum:TRUE")]);
    }
    fields.iter().for_each(|f| _ = command.args(["-e", f]));
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines().map(|l| l.split('\t').map(str::to_owned).collect()).collect()
}

fn no_tshark() -> bool {
    let none = Command::new("tshark").arg("--version").output().is_err();
    if none {
        println!("skipped: tshark is not installed");
    }
    none
}

#[test]
fn tshark_agrees_on_sizes_protocols_tags_and_checksums() {
    if no_tshark() {
        return;
    }
    let dir = dir();
    for generator in GENERATORS {
        make(&dir, generator, 2000);
        let fields =
            ["frame.len", "vlan.id", "ipv6.src", "tcp.checksum.status", "udp.checksum.status", "ip.checksum.status"];
        let read = tshark(&dir.path("made.pcap"), &[&fields[..], &["_ws.malformed", "ieee8021ad.id"]].concat());
        assert_eq!(read.len(), 2000, "{generator}");
        let (v6, tcp) = (generator.contains("2001"), generator.contains("tcp"));
        // tshark reads a service tag as a layer of its own.
        let (outer, vlan) = match () {
            () if generator.contains("[200") => ("200", "100"),
            () if generator.contains("vlan: 7") => ("", "7"),
            () => ("", ""),
        };
        for line in &read {
            let [_, tags, src, tcp_sum, udp_sum, ip_sum, malformed, service] = line.as_slice() else {
                panic!("{line:?}")
            };
            assert_eq!([service, tags, malformed].map(String::as_str), [outer, vlan, ""], "{generator}");
            assert_eq!((src.starts_with("2001:db8:1:"), ip_sum.is_empty()), (v6, v6), "{generator}: {line:?}");
            // 1 is "good".
            let sums = [tcp_sum, udp_sum, ip_sum].map(|s| s == "1");
            assert_eq!(sums, [tcp, !tcp, !v6], "{generator}: {line:?}");
        }
        if generator.contains("csit") {
            let mut sizes = BTreeMap::new();
            read[..1920].iter().for_each(|l| *sizes.entry(l[0].clone()).or_insert(0) += 1);
            let wanted = [("1514", 160), ("566", 640), ("60", 1120)].map(|(size, n)| (size.to_owned(), n));
            assert_eq!(sizes, wanted.into());
        }
        if generator.contains("genome") {
            let order: Vec<_> = read.iter().take(8).map(|l| l[0].as_str()).collect();
            assert_eq!(order, ["60", "124", "60", "124", "60", "124", "1514", "60"]);
        }
    }
}

#[test]
fn tshark_counts_the_conversations_and_hosts_that_were_asked_for() {
    if no_tshark() {
        return;
    }
    let dir = dir();
    make(&dir, GENERATORS[3], 1100);
    let read = tshark(&dir.path("made.pcap"), &["ip.src", "ip.dst", "udp.srcport", "udp.dstport"]);
    assert_eq!(read.iter().collect::<BTreeSet<_>>().len(), 1100);
    let mut hosts = HashMap::<&str, u32>::new();
    read.iter().for_each(|l| *hosts.entry(&l[0]).or_default() += 1);
    let mut loads: Vec<u32> = hosts.into_values().collect();
    loads.sort_unstable();
    assert_eq!(loads, [[10; 10], [100; 10]].concat());
    assert!(read.iter().all(|l| (40000..=40999).contains(&l[2].parse::<u16>().unwrap()) && l[3] == "9"));
}

#[test]
fn tshark_follows_tcp_flows_from_syn_to_fin() {
    if no_tshark() {
        return;
    }
    let dir = dir();
    make(&dir, GENERATORS[4], 4000);
    let fields =
        ["tcp.stream", "tcp.flags.syn", "tcp.flags.fin", "tcp.len", "tcp.nxtseq", "tcp.seq", "tcp.analysis.flags"];
    let read = tshark(&dir.path("made.pcap"), &fields);
    let mut streams = BTreeMap::<&str, Vec<&[String]>>::new();
    read.iter().for_each(|l| streams.entry(&l[0]).or_default().push(&l[1..]));
    assert_eq!(streams.len(), 400);
    for (stream, packets) in streams {
        assert_eq!(packets.len(), 10, "stream {stream}");
        for (i, p) in packets.iter().enumerate() {
            let flags = [p[0] == "1" || p[0] == "True", p[1] == "1" || p[1] == "True"];
            assert_eq!(flags, [i == 0, i == 9], "stream {stream}, packet {i}: {p:?}");
            assert_eq!(p[2] == "0", i == 0 || i == 9, "payload");
            assert!(p.get(5).is_none_or(String::is_empty), "tshark finds fault: {p:?}");
            if i > 0 {
                assert_eq!(p[4], packets[i - 1][3], "sequence numbers leave nothing out");
            }
        }
    }
}

#[test]
fn times_are_those_of_the_schedule() {
    let dir = dir();
    let gaps = |generator: &str, n: u32| -> Vec<u64> {
        let frames = make(&dir, generator, n);
        frames.windows(2).map(|w| w[1].0 - w[0].0).collect()
    };
    assert!(gaps(GENERATORS[0], 1000).iter().all(|g| *g == 1000));
    let bursts = gaps(GENERATORS[3], 100);
    assert!(bursts.iter().enumerate().all(|(i, g)| *g == if i % 10 == 9 { 50_000 } else { 1000 }), "{bursts:?}");
    // The mean of 20,000 exponential gaps lies within five standard errors, their deviation is about the mean.
    let poisson = gaps(GENERATORS[1], 20_001);
    let mean = poisson.iter().sum::<u64>() as f64 / 20_000.0;
    let deviation = (poisson.iter().map(|g| (*g as f64 - mean).powi(2)).sum::<f64>() / 20_000.0).sqrt();
    assert!((mean - 1000.0).abs() < 36.0 && (deviation - 1000.0).abs() < 60.0, "{mean} {deviation}");
    // From 100 to 1000 kpps over 2 ms: 1100 packets.
    let ramp = make(&dir, GENERATORS[4], 2000);
    assert_eq!(ramp.iter().filter(|(ns, _)| *ns < 1_999_999).count(), 1100);
}

#[test]
fn wrong_traffic_is_refused_with_its_place() {
    let dir = dir();
    let make =
        |args: &[&str]| outcome(chainline().args(["workload", "make", "-n", "1", "-o"]).arg(dir.path("x")).args(args));
    let inline = make(&["-g", "{order: {zipf: 99}}"]);
    // Diagnostics end with a line that counts them.
    assert_eq!(inline.status.code(), Some(2));
    inline.assert_no_crash("inline");
    assert!(inline.stderr.contains("order.zipf: found the number 99"), "{}", inline.stderr);
    let several = dir.chain_file("two.yaml", "  ports: {a: {generator: {}}, b: {generator: {}}, out: {sink: {}}}\n  chains: [{name: a, path: [a, out]}, {name: b, path: [b, out]}]\n");
    let several = make(&[several.to_str().unwrap()]);
    several.assert_refused(2, "several");
    assert!(several.stderr.contains("name one of `a`, `b` with --port"), "{}", several.stderr);
    dir.write("bad.csv", "64,1\n63,1\n");
    let spec =
        "  ports: {in: {generator: {mix: {file: bad.csv}}}, out: {sink: {}}}\n  chains: [{name: a, path: [in, out]}]\n";
    let bad = make(&[dir.chain_file("bad.yaml", spec).to_str().unwrap()]);
    bad.assert_refused(1, "a bad distribution");
    assert!(bad.stderr.contains("bad.csv: line 2, field 1: found \"63\""), "{}", bad.stderr);
    let lost = outcome(chainline().args(["workload", "make", "-n", "1", "-g", "{}", "-o", "/nowhere/x.pcap"]));
    lost.assert_refused(1, "no such directory");
    let full = outcome(chainline().args(["workload", "make", "-n", "100000", "-g", "{}", "-o", "/dev/full"]));
    full.assert_refused(1, "a full disk");
}

/// A replayed capture between other addresses: the same packets but for addresses and checksums, and those are right.
#[test]
fn a_capture_is_replayed_between_other_addresses() {
    if no_tshark() {
        return;
    }
    let dir = dir();
    make(&dir, GENERATORS[1], 500);
    let spec = "  ports:
    in: {pcap: {read: made.pcap, rewrite: {src: 10.0.0.0/8, dst: 10.0.0.0/8}}}
    out: {pcap: {write: again.pcap}}
  chains: [{name: a, path: [in, out]}]\n";
    let report = run(&dir.chain_file("again.yaml", spec), &[]);
    assert_eq!(report["ledger"]["transmitted"], 500);
    let fields =
        ["ip.src", "ip.dst", "udp.srcport", "udp.dstport", "frame.len", "ip.checksum.status", "udp.checksum.status"];
    let (before, after) = (tshark(&dir.path("made.pcap"), &fields), tshark(&dir.path("again.pcap"), &fields));
    let mut map = HashMap::new();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before[2..], after[2..]);
        for i in 0..2 {
            assert!(after[i].starts_with("10."), "{after:?}");
            assert_eq!(map.entry(&before[i]).or_insert(&after[i]), &&after[i]);
        }
    }
    assert_eq!(map.values().collect::<BTreeSet<_>>().len(), map.len());
}
