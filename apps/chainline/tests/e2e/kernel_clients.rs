//! Real programs of two hosts talk through a chain: pings, a download, names, a bulk transfer; and frames with VLAN
//! tags, judged by tcpdump.

use crate::capture::{self, assert_routed};
use crate::command::{Dir, Running, outcome};
use crate::lab::{Lab, Namespace, ROUTES, serve};
use serde_json::Value;
use std::path::PathBuf;

/// A chain in each direction between the two interfaces of the middle.
fn spec(dir: &Dir, port: &str, isolation: &str) -> PathBuf {
    let spec = format!(
        "  defaults: {{isolation: {isolation}}}
  ports: {{a: {{{port}: {{interface: cl-a}}}}, b: {{{port}: {{interface: cl-b}}}}}}
  nfs:
    fw: {{kind: firewall, args: {{rules_inline: [deny tcp from any to any port 81, default allow]}}}}
    mon: {{kind: monitor}}
    rt: {{kind: l3fwd, args: {{routes_inline: {ROUTES}}}}}
  chains:
    - {{name: up, path: [a, fw, mon, rt, b]}}
    - {{name: down, path: [b, fw, mon, rt, a]}}
"
    );
    dir.chain_file("clients.yaml", &spec)
}

/// None of 20 pings is lost.
fn pings(from: &Namespace, to: &str) {
    let said = from.run(&format!("ping -q -c 20 -i 0.02 -W 5 {to}"));
    assert!(said.contains("20 received, 0% packet loss"), "{said}");
}

fn talk(port: &str, isolation: &str) {
    let Some(lab) = Lab::new(1500) else { return };
    let dir = Dir::new();
    let [client, server] = [&lab.a.host, &lab.b.host];
    let mut chain = Running::start(lab.middle.chainline().arg(spec(&dir, port, isolation)));
    chain.until_running();

    client.until(&format!("ping -c 1 -W 1 {}", lab.b.v4));
    pings(client, lab.b.v4);
    pings(client, lab.b.v6);
    pings(server, lab.a.v4);
    // Fragments, both ways.
    client.run(&format!("ping -q -c 2 -i 0.02 -W 5 -s 4000 {}", lab.b.v4));
    client.run(&format!("ping -q -c 2 -i 0.02 -W 5 -s 4000 {}", lab.b.v6));

    // A download of bytes that do not repeat.
    let body: Vec<u8> =
        (0..4_000_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[..2].to_vec()).collect();
    let www = Dir::new();
    www.write("body", &body);
    let root = www.path("");
    let _http =
        serve(server, "python3", &["-m", "http.server", "--bind", "::", "--directory", root.to_str().unwrap(), "80"]);
    let got = dir.path("got");
    for address in [lab.b.v4.to_owned(), format!("[{}]", lab.b.v6)] {
        let curl =
            format!("curl --silent --show-error --fail --max-time 50 --output {} http://{address}/body", got.display());
        client.until(&curl);
        assert!(std::fs::read(&got).unwrap() == body, "what came from {address} differs");
    }
    let denied = client.output(&format!("curl --silent --max-time 1 http://{}:81/", lab.b.v4));
    assert_eq!(denied.status.code(), Some(28), "port 81: expected no answer, found {denied:?}");

    let _dns = serve(
        server,
        "dnsmasq",
        &[
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--pid-file",
            "--user=root",
            "--address=/www.example.net/10.20.0.2",
            "--address=/www.example.net/2001:db8:b::2",
        ],
    );
    for (kind, address, expected) in [("A", lab.b.v4, "10.20.0.2"), ("AAAA", lab.b.v6, "2001:db8:b::2")] {
        let said = client.until(&format!("dig +short +time=1 +tries=1 @{address} www.example.net {kind}"));
        assert_eq!(said.trim(), expected);
    }

    let _iperf = serve(server, "iperf3", &["--server", "--one-off"]);
    let bulk = format!("iperf3 --json --connect-timeout 1000 --bytes 20M --window 256K --client {}", lab.b.v4);
    // It calls a refused connection a success.
    let said = client.until_it_says(&bulk, |said| !said.contains("\"error\""));
    let said: Value = serde_json::from_str(&said).unwrap();
    // The client does not wait until its last window has come.
    assert!(said["end"]["sum_received"]["bytes"].as_f64() >= Some(18e6), "{said:#}");

    let report = chain.finish();
    for (name, least) in [("up", 1000), ("down", 5000)] {
        let chain = &report["chains"][name];
        assert!(chain["transmitted"].as_u64() > Some(least), "{name}: {report:#}");
        let latency = &chain["latency_ns"];
        assert!(latency["p50"].as_u64() > Some(0) && latency["max"].as_u64() >= latency["p50"].as_u64(), "{report:#}");
    }
    assert!(report["ledger"]["dropped"]["denied"].as_u64() >= Some(1), "{report:#}");
    assert_eq!(report["happenings"], Value::Array(Vec::new()));
}

#[test]
fn through_af_packet() {
    talk("af_packet", "process");
}

#[test]
fn through_af_packet_fused() {
    talk("af_packet", "fused");
}

#[test]
fn through_af_xdp() {
    talk("af_xdp", "process");
}

/// A UDP datagram between the two hosts, behind these tags.
fn tagged(tags: &[[u8; 4]], id: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0x0a, 1, 2, 0, 0, 0, 0x0a, 2];
    tags.iter().for_each(|tag| frame.extend(tag));
    frame.extend([8, 0]);
    let mut ip = [0x45, 0, 0, 48, 0, id, 0, 0, 64, 17, 0, 0, 10, 10, 0, 2, 10, 20, 0, 2];
    let sum: u32 = ip.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    frame.extend([0x30, 0x39, 0, 9, 0, 28, 0, 0]);
    frame.extend([id; 20]);
    frame
}

/// Frames with tags go in at one host and come out at the other, tags and all.
fn tags(port: &str, kinds: &[&[[u8; 4]]]) {
    let Some(lab) = Lab::new(1500) else { return };
    let dir = Dir::new();
    let mut chain = Running::start(lab.middle.chainline().arg(spec(&dir, port, "process")));
    chain.until_running();
    let frames: Vec<_> = (0..40).map(|n| tagged(kinds[n % kinds.len()], n as u8)).collect();
    capture::write(&dir.path("tagged.pcap"), &frames);
    let got = dir.path("got.pcap");
    let dump = ["-Z", "root", "-U", "-i", "eth0", "-c", "40", "-w", got.to_str().unwrap(), "vlan"];
    let mut judge = serve(&lab.b.host, "tcpdump", &dump);
    let words = judge.words();
    judge.until("tcpdump listens", || std::fs::read_to_string(&words).ok().filter(|t| t.contains("listening on")));
    let send = "  ports: {in: {pcap: {read: tagged.pcap}}, out: {af_packet: {interface: eth0}}}
  chains: [{name: all, path: [in, out]}]\n";
    let sent = outcome(lab.a.host.chainline().arg(dir.chain_file("send.yaml", send)));
    assert_eq!(sent.status.code(), Some(0), "{}", sent.stderr);
    assert_eq!(judge.end().status.code(), Some(0));
    let got = capture::read(&got).frames;
    assert_eq!(got.len(), frames.len());
    assert_routed(&frames, &got);
    let report = chain.finish();
    assert_eq!(report["chains"]["up"]["transmitted"], 40, "{report:#}");
}

const VLAN: [u8; 4] = [0x81, 0x00, 0x60, 0x07];
const SERVICE: [u8; 4] = [0x88, 0xa8, 0x00, 0x64];

#[test]
fn tags_pass_af_packet() {
    tags("af_packet", &[&[VLAN], &[VLAN, VLAN]]);
}

#[test]
fn tags_pass_af_xdp() {
    tags("af_xdp", &[&[VLAN], &[SERVICE, VLAN]]);
}
