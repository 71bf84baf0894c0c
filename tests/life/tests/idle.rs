//! Chains with little to do: every packet gets out, though everybody sleeps in between.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use life_tests::scene::{assert_lossless, shown, silent};
use life_tests::{Scene, frames};

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");
const NFS: &str = "nfs: {a: {kind: pass}, b: {kind: pass}, c: {kind: pass}}";

#[test]
fn a_single_packet() {
    for isolation in ["process", "thread", "fused"] {
        let scene = Scene::new(HOST);
        let sent = frames::random(1, 3);
        frames::write(&scene.join("in.pcap"), &sent);
        let spec = format!(
            "
  defaults: {{isolation: {isolation}}}
  ports: {{in: {{pcap: {{read: in.pcap}}}}, out: {{pcap: {{write: out.pcap}}}}}}
  {NFS}
  chains:
    - {{name: all, path: [in, a, b, c, out]}}
"
        );
        let report = scene.run(&spec, &mut silent());
        assert_lossless(&report, "all");
        frames::assert_same(&sent, &frames::read(&scene.join("out.pcap")));
    }
}

/// Half a millisecond between two packets: longer than any NF looks for work, shorter than any fallback's time, and
/// each hand-over is below the number that is worth a wake-up. A lost one would leave its packet to a sweep.
#[test]
fn one_packet_at_a_time() {
    const COUNT: u64 = 2_000;
    for isolation in ["process", "thread"] {
        let scene = Scene::new(HOST);
        let spec = format!(
            "
  defaults: {{isolation: {isolation}}}
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 9, rate: 2kpps, count: {COUNT}}}}}
    out: {{sink: {{}}}}
  {NFS}
  chains:
    - {{name: all, path: [in, a, b, c, out]}}
"
        );
        let report = scene.run(&spec, &mut silent());
        assert_lossless(&report, "all");
        assert_eq!(report.chains["all"].transmitted, COUNT);
        for nf in ["a", "b", "c"] {
            let n = &report.nfs[nf];
            // How often depends on who else uses the host.
            assert!(n.received == COUNT && n.voluntary_switches > COUNT / 40, "{nf} slept: {}", shown(&report));
        }
        let latency = report.chains["all"].latency_ns;
        println!("{isolation}: median {} ns, at most {} ns", latency.p50, latency.max);
    }
}
