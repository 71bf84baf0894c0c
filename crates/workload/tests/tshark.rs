//! Wireshark's dissectors as the judge of the frames: lengths, flows, both checksums.
#![allow(clippy::unwrap_used)]

use chainline_workload::{Mix, Order, Proto, Space, Spec, Workload};
use pcap::{Capture, Linktype, Packet, PacketHeader};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn write_capture(path: &Path, workload: &mut Workload, n: usize) -> BTreeMap<(usize, u32), usize> {
    let capture = Capture::dead(Linktype::ETHERNET).unwrap();
    let mut file = capture.savefile(path).unwrap();
    let ts = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut counts = BTreeMap::new();
    workload.burst(n, |frame| {
        let mut bytes = vec![0; 9100];
        let len = frame.write(&mut bytes).unwrap();
        let header = PacketHeader { ts, caplen: len as u32, len: len as u32 };
        file.write(&Packet::new(&header, &bytes[..len]));
        *counts.entry((len, frame.flow)).or_default() += 1;
    });
    counts
}

#[test]
fn tshark_reads_what_the_spec_says() {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("skipped: tshark is not installed");
        return;
    }
    let imix = Mix::weighted(&[(64, 7), (594, 4), (1518, 1)]).unwrap();
    let jumbo = Mix::weighted(&[(64, 3), (65, 1), (1518, 1), (9018, 1)]).unwrap();
    for (name, mix, proto) in
        [("imix", imix, Proto::Udp), ("jumbo", jumbo.clone(), Proto::Udp), ("jumbo-tcp", jumbo, Proto::Tcp)]
    {
        let space = Space { proto, dst_ports: 1..=65_535, ..Space::default() };
        let spec = Spec { flows: 50, order: Order::Random, seed: 9, space, ..Spec::new(mix) };
        let mut workload = Workload::new(&spec).unwrap();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pcap"));
        let wanted = write_capture(&path, &mut workload, 600);

        let flow_of: BTreeMap<String, u32> = (0..50)
            .map(|i| {
                let f = workload.flow(i).unwrap();
                (format!("{}\t{}\t{}\t{}", f.src, f.dst, f.src_port, f.dst_port), i)
            })
            .collect();
        let mut got = BTreeMap::new();
        for line in tshark_fields(&path, if proto == Proto::Udp { "udp" } else { "tcp" }) {
            let fields = line.strip_suffix("\t1\t1").unwrap_or_else(|| panic!("{name}: checksum: {line}"));
            let (len, flow) = fields.split_once('\t').unwrap();
            let flow = *flow_of.get(flow).unwrap_or_else(|| panic!("{name}: no such flow: {line}"));
            *got.entry((len.parse().unwrap(), flow)).or_default() += 1;
        }
        assert_eq!(got, wanted, "{name}");
    }
}

/// Length, 5-tuple and the status of both checksums (1 is "good"), a line for each packet.
fn tshark_fields(path: &Path, proto: &str) -> Vec<String> {
    let l4 = |field: &str| format!("{proto}.{field}");
    let out = Command::new("tshark")
        .args(["-n", "-r"])
        .arg(path)
        .args(["-o", "ip.check_checksum:TRUE", "-o", &l4("check_checksum:TRUE"), "-T", "fields"])
        .args(["-e", "frame.len", "-e", "ip.src", "-e", "ip.dst", "-e", &l4("srcport"), "-e", &l4("dstport")])
        .args(["-e", "ip.checksum.status", "-e", &l4("checksum.status")])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}
