//! The same chain as processes, as threads and fused: the same bytes out, the same counts.

use crate::capture::{self, assert_routed};
use crate::command::{Dir, repository, run, sum};
use serde_json::{Value, json};
use std::path::Path;

pub const ISOLATIONS: [&str; 3] = ["process", "thread", "fused"];

/// Sends a capture through `forward → firewall → monitor → l3fwd` into `output`, and returns the report.
pub fn through(dir: &Dir, input: &Path, output: &Path, isolation: &str) -> Value {
    let spec = format!(
        "  defaults: {{isolation: {isolation}}}
  ports:
    in: {{pcap: {{read: {input:?}}}}}
    out: {{pcap: {{write: {output:?}}}}}
  nfs:
    fwd: {{kind: forward}}
    fw:
      kind: firewall
      args:
        rules_inline:
          - deny udp from any to any port 137-139
          - deny tcp from any to any port 23
          - deny udp from 10.20.0.0/24 port 53 to any
          - deny icmp type 8
          - default allow
    mon: {{kind: monitor, args: {{top: 20}}}}
    rt:
      kind: l3fwd
      args:
        routes_inline:
          - 10.10.0.0/24 via 02:00:00:00:0a:02 src 02:00:00:00:0a:01
          - 0.0.0.0/1 via 02:00:00:00:0d:02
          - 128.0.0.0/1 via 02:00:00:00:0e:02
          - 2000::/3 via 02:00:00:00:0d:02
  chains:
    - {{name: all, path: [in, fwd, fw, mon, rt, out]}}
"
    );
    run(&dir.chain_file(&format!("{isolation}.yaml"), &spec), &[])
}

/// What must not depend on how NFs are kept apart.
pub fn counts(report: &Value) -> Value {
    let only =
        |value: &Value, keys: &[&str]| -> Value { keys.iter().map(|k| (k.to_string(), value[*k].clone())).collect() };
    let each = |of: &str, keys: &[&str]| -> Value {
        report[of].as_object().unwrap().iter().map(|(name, v)| (name.clone(), only(v, keys))).collect()
    };
    json!({
        "ledger": report["ledger"],
        "chains": each("chains", &["received", "transmitted", "shed", "dropped", "held"]),
        "nfs": each("nfs", &["received", "transmitted", "dropped", "wasted", "restarts", "report"]),
    })
}

/// Sends a capture through in each isolation. Returns the report of the first.
pub fn assert_equal_in_all(dir: &Dir, input: &Path) -> Value {
    let expected = capture::read(input);
    let mut first: Option<(Value, Vec<Vec<u8>>)> = None;
    for isolation in ISOLATIONS {
        let output = dir.path(&format!("{isolation}.pcap"));
        let report = through(dir, input, &output, isolation);
        let frames = capture::read(&output).frames;
        assert_instances(&report, isolation);
        match &first {
            None => {
                let ledger = &report["ledger"];
                assert_eq!(ledger["received"], expected.frames.len() as u64 + expected.too_long, "{report:#}");
                assert_eq!(ledger["transmitted"], frames.len(), "{report:#}");
                assert_eq!(ledger["dropped"]["too_long"].as_u64().unwrap_or(0), expected.too_long, "{report:#}");
                assert_eq!(ledger["dropped"].get("no_buffer"), None, "a source that waits lost packets: {report:#}");
                let dropped = (expected.frames.len() - frames.len()) as u64 + expected.too_long;
                assert_eq!((&ledger["held"], sum(&ledger["dropped"])), (&0.into(), dropped), "{report:#}");
                assert_routed(&expected.frames, &frames);
                first = Some((report, frames));
            }
            Some((one, one_frames)) => {
                assert_eq!(counts(one), counts(&report), "{}: {isolation}", input.display());
                let other = one_frames.iter().zip(&frames).position(|(a, b)| a != b);
                assert_eq!((one_frames.len(), None), (frames.len(), other), "{}: {isolation}", input.display());
            }
        }
    }
    first.unwrap().0
}

/// The isolation that was asked for is the one that ran.
fn assert_instances(report: &Value, isolation: &str) {
    let nfs = report["nfs"].as_object().unwrap();
    let mut instances: Vec<&str> = nfs.values().map(|nf| nf["instance"].as_str().unwrap()).collect();
    instances.sort_unstable();
    instances.dedup();
    assert_eq!(instances.len(), if isolation == "fused" { 1 } else { nfs.len() }, "{isolation}: {instances:?}");
}

#[test]
fn the_committed_capture_comes_out_the_same_in_all_three() {
    let dir = Dir::new();
    let report = assert_equal_in_all(&dir, &repository().join("examples/captures/quickstart.pcap"));
    let drops = report["ledger"]["dropped"].as_object().unwrap();
    for reason in ["denied", "ttl_expired"] {
        assert!(drops.contains_key(reason), "the capture has packets to be dropped as {reason}: {report:#}");
    }
}

#[test]
fn a_capture_without_packets_is_a_run_without_packets() {
    let dir = Dir::new();
    capture::write(&dir.path("empty.pcap"), &[]);
    let report = assert_equal_in_all(&dir, &dir.path("empty.pcap"));
    assert_eq!(report["ledger"]["received"], 0);
}
