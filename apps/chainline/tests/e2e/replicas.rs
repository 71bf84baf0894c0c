//! NFs with replicas: each flow as if there were one, byte by byte and in order, in every isolation.

use crate::capture;
use crate::command::{Dir, chainline, outcome, repository, run};
use crate::ctl::{Desk, assert_nothing_lost};
use crate::isolation::{ISOLATIONS, counts};
use chainline_packet::{FiveTuple, parse, toeplitz};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Sends a capture through a firewall and a router, both with replicas, around an NF without.
fn through(dir: &Dir, input: &Path, isolation: &str, replicas: usize, dispatch: &str) -> (Value, Vec<Vec<u8>>) {
    let output = dir.path("out.pcap");
    // Fused, all three are one run, whose replicas are the same number.
    let alone = if isolation == "fused" { replicas } else { 1 };
    let spec = format!(
        "  defaults: {{isolation: {isolation}}}
  ports:
    in: {{pcap: {{read: {input:?}}}}}
    out: {{pcap: {{write: {output:?}}}}}
  nfs:
    fw:
      kind: firewall
      replicas: {replicas}
      dispatch: {dispatch}
      args: {{rules_inline: [deny udp from any to any port 137-139, deny icmp type 8, default allow]}}
    mid: {{kind: forward, replicas: {alone}, queue: 64}}
    rt:
      kind: l3fwd
      replicas: {replicas}
      dispatch: {dispatch}
      queue: 64
      args: {{routes_inline: [0.0.0.0/1 via 02:00:00:00:0d:02, 128.0.0.0/1 via 02:00:00:00:0e:02, 2000::/3 via 02:00:00:00:0d:02]}}
  chains:
    - {{name: all, path: [in, fw, mid, rt, out]}}
"
    );
    let report = run(&dir.chain_file("chain.yaml", &spec), &[]);
    (report, capture::read(&output).frames)
}

/// Frames by flow, as packets are dealt out: of fragments by addresses.
fn by_flow(frames: &[Vec<u8>]) -> HashMap<FiveTuple, Vec<&[u8]>> {
    let mut flows: HashMap<FiveTuple, Vec<&[u8]>> = HashMap::new();
    frames.iter().for_each(|f| flows.entry(toeplitz::key(&parse(f))).or_default().push(f));
    flows
}

/// What all replicas of an NF counted together.
fn sum(report: &Value, nf: &str, what: &str) -> u64 {
    let nfs = report["nfs"].as_object().unwrap();
    let own = nfs.iter().filter(|(name, _)| name.split('/').next() == Some(nf));
    own.map(|(_, v)| v[what].as_u64().unwrap()).sum()
}

fn assert_as_one(dir: &Dir, input: &Path, cases: &[(&str, usize, &str)]) {
    let (one, one_frames) = through(dir, input, "process", 1, "flow");
    let one_flows = by_flow(&one_frames);
    let input_frames = capture::read(input).frames;
    for (isolation, replicas, dispatch) in cases {
        let what = format!("{}: {isolation}, {replicas} by {dispatch}", input.display());
        let (report, frames) = through(dir, input, isolation, *replicas, dispatch);
        assert_eq!(report["ledger"], one["ledger"], "{what}: {report:#}");
        assert_eq!(counts(&report)["chains"], counts(&one)["chains"], "{what}");
        let flows = by_flow(&frames);
        assert_eq!((frames.len(), flows.len()), (one_frames.len(), one_flows.len()), "{what}");
        for (flow, packets) in &one_flows {
            assert!(flows.get(flow) == Some(packets), "{what}: {flow:?}");
        }
        for (nf, count) in [("fw", "received"), ("fw", "transmitted"), ("mid", "received"), ("rt", "transmitted")] {
            assert_eq!(sum(&report, nf, count), sum(&one, nf, count), "{what}: {nf} {count}: {report:#}");
        }
        // Each replica has what its hash says, as a network card would have dealt it out.
        let mut expected = vec![0; *replicas];
        for frame in &input_frames {
            let layers = parse(frame);
            let hash = match *dispatch {
                "flow" => toeplitz::flow(&toeplitz::key(&layers)),
                "connection" => toeplitz::connection(&toeplitz::key(&layers)),
                _ => toeplitz::source_host(&layers.tuple),
            };
            expected[hash as usize % 512 % replicas] += 1;
        }
        let received: Vec<u64> = replica_names("fw", *replicas)
            .map(|name| report["nfs"][name].as_object().unwrap()["received"].as_u64().unwrap())
            .collect();
        assert_eq!(received, expected, "{what}");
    }
}

fn replica_names(nf: &str, replicas: usize) -> impl Iterator<Item = String> {
    (0..replicas).map(move |k| if replicas == 1 { nf.to_owned() } else { format!("{nf}/{k}") })
}

#[test]
fn each_flow_is_as_with_one_replica() {
    let dir = Dir::new();
    let input = repository().join("examples/captures/quickstart.pcap");
    let mut cases = Vec::new();
    for isolation in ISOLATIONS {
        cases.extend((1..=4).map(|n| (isolation, n, "flow")));
        cases.extend([(isolation, 3, "host"), (isolation, 2, "connection")]);
    }
    assert_as_one(&dir, &input, &cases);
}

/// Real traffic with fragments, tunnels and several tens of thousands of packets.
#[test]
fn each_flow_of_real_captures_is_as_with_one_replica() {
    let Some(data) = std::env::var_os("CHAINLINE_DATA").map(PathBuf::from) else {
        println!("skipped: CHAINLINE_DATA is not set");
        return;
    };
    let dir = Dir::new();
    for name in ["1kxun", "ip-frag", "emix"] {
        let bytes = std::fs::read(data.join("captures").join(format!("{name}.pcap.xz"))).unwrap();
        let mut plain = Vec::new();
        lzma_rust2::XzReader::new(&bytes[..], true).read_to_end(&mut plain).unwrap();
        let input = dir.write(&format!("{name}.pcap"), plain);
        assert_as_one(&dir, &input, &[("process", 4, "flow"), ("thread", 3, "host"), ("fused", 2, "flow")]);
    }
}

#[test]
fn packets_go_round_and_none_is_lost() {
    let dir = Dir::new();
    let spec = "  ports: {in: {generator: {frame_bytes: 64, flows: 5, count: 30000}}, out: {sink: {}}}
  nfs:
    a: {kind: forward, replicas: 3, dispatch: packet}
    b: {kind: forward, isolation: thread, replicas: 2, dispatch: packet}
  chains: [{name: all, path: [in, a, b, out]}]\n";
    let report = run(&dir.chain_file("chain.yaml", spec), &[]);
    assert_nothing_lost(&report);
    for k in 0..3 {
        assert_eq!(report["nfs"][format!("a/{k}")]["received"], 10_000, "{report:#}");
    }
    assert_eq!(report["nfs"]["b/0"]["received"], report["nfs"]["b/1"]["received"], "{report:#}");
}

/// Sinks that check find no frame behind a later one of its flow, with more replicas than cores, at any fullness of short
/// queues.
#[test]
fn no_flow_is_reordered_at_full_speed() {
    let dir = Dir::new();
    for (isolation, dispatch) in [("process", "flow"), ("thread", "host"), ("fused", "connection")] {
        let spec = format!(
            "  defaults: {{isolation: {isolation}, queue: 64}}
  ports:
    in: {{generator: {{frame_bytes: 90, flows: 500, count: 200000, stamp: true}}}}
    out: {{sink: {{check: true}}}}
  nfs:
    a: {{kind: forward, replicas: 3, dispatch: {dispatch}}}
    b: {{kind: l3fwd, replicas: 3, dispatch: {dispatch}, args: {{routes_inline: [0.0.0.0/0 via 02:00:00:00:0d:02]}}}}
  chains: [{{name: all, path: [in, a, b, out]}}]\n"
        );
        let report = run(&dir.chain_file("chain.yaml", &spec), &[]);
        assert_nothing_lost(&report);
        let check = &report["checks"]["out"];
        assert_eq!(
            (&check["received"], &check["reordered"], &check["duplicated"]),
            (&json!(200_000), &json!(0), &json!(0)),
            "{isolation}: {report:#}"
        );
    }
}

#[test]
fn the_number_of_replicas_changes_under_load() {
    let desk = Desk::new();
    let spec = |replicas: usize| {
        format!(
            "  ports: {{in: {{generator: {{rate: 50kpps, lossless: true, flows: 64}}}}, out: {{sink: {{}}}}}}
  nfs: {{a: {{kind: forward, replicas: {replicas}}}, b: {{kind: forward}}}}
  chains: [{{name: web, path: [in, a, b, out]}}]\n"
        )
    };
    let mut run = desk.start(&desk.0.chain_file("chain.yaml", &spec(2)));
    for (replicas, started) in
        [(3, json!(["a/0", "a/1", "a/2", "b"])), (1, json!(["a", "b"])), (2, json!(["a/0", "a/1", "b"]))]
    {
        let other = desk.0.chain_file("other.yaml", &spec(replicas));
        let changed = desk.json(&format!("apply {}", other.display()));
        assert_eq!((&changed["started"], &changed["reconfigured"]), (&started, &json!(0)), "{changed}");
        let then = desk.received("web");
        run.until("packets", || (desk.received("web") > then + 1000).then_some(()));
    }
    // All replicas of an NF are scheduled alike, under its name.
    let changed = desk.json("set-priority a 4");
    assert_eq!(changed["changed"], json!(["a/0: priority 4", "a/1: priority 4"]));
    let refused = desk.ctl("set-priority a/1 4");
    assert!(
        refused.stderr.contains("found the replica `a/1`") && refused.stderr.contains("say `a`"),
        "{}",
        refused.stderr
    );
    let list = desk.json("list");
    assert_eq!(list["chains"][0]["path"], json!(["in", "a", "b", "out"]));
    let names: Vec<&Value> = list["nfs"].as_array().unwrap().iter().map(|n| &n["name"]).collect();
    assert_eq!(names, ["a/0", "a/1", "b"]);
    assert_nothing_lost(&run.finish());
}

#[test]
fn replicas_that_would_write_one_file_are_refused() {
    let dir = Dir::new();
    let log = dir.path("log.pcap");
    let spec = format!(
        "  ports: {{in: {{generator: {{count: 10}}}}, out: {{sink: {{}}}}}}
  nfs: {{log: {{kind: logger, replicas: 2, args: {{file: {log:?}}}}}}}
  chains: [{{name: all, path: [in, log, out]}}]\n"
    );
    let refused = outcome(chainline().args(["run", "--quiet"]).arg(dir.chain_file("chain.yaml", &spec)));
    refused.assert_refused(1, "two loggers");
    assert!(refused.stderr.contains("2 replicas that would all write"), "{}", refused.stderr);
    assert!(!log.exists(), "nothing was written");
}

/// A firewall that knows connections judges each as if it were alone: both directions come to one replica.
#[test]
fn connections_stay_whole() {
    let dir = Dir::new();
    let through = |replicas: usize| {
        let (input, output) = (repository().join("examples/captures/quickstart.pcap"), dir.path("out.pcap"));
        let spec = format!(
            "  ports:
    in: {{pcap: {{read: {input:?}}}}}
    out: {{pcap: {{write: {output:?}}}}}
  nfs:
    fw:
      kind: firewall
      replicas: {replicas}
      dispatch: connection
      args: {{rules_inline: [\"allow tcp to any port 53,80\", allow udp to any port 53], default: deny, stateful: {{}}}}
  chains: [{{name: all, path: [in, fw, out]}}]\n"
        );
        run(&dir.chain_file("chain.yaml", &spec), &[]);
        capture::read(&output).frames
    };
    // Errors quote connections, but have other addresses.
    let judged = |frames: &[Vec<u8>]| -> HashMap<FiveTuple, Vec<Vec<u8>>> {
        let flows = by_flow(frames).into_iter().filter(|(flow, _)| matches!(flow.proto(), 6 | 17));
        flows.map(|(flow, frames)| (flow, frames.into_iter().map(<[u8]>::to_vec).collect())).collect()
    };
    let one = judged(&through(1));
    assert!(one.keys().any(|flow| one.contains_key(&flow.reversed())), "answers passed");
    for replicas in 2..=4 {
        assert!(judged(&through(replicas)) == one, "{replicas}");
    }
}
