//! Every built-in dataplane carries packets, with each kind of port that it has, and counts them as we do.

use crate::command::Dir;
use chainline_bench::dataplane::DataplaneError;
use chainline_bench::rivals::adapter::PortKind;
use chainline_bench::rivals::builtin;
use chainline_bench::rivals::lab::Lab;
use chainline_bench::rivals::started::{Started, check};
use std::path::Path;

/// Frames that are sent through each, so slowly that a busy host loses few.
const FRAMES: u64 = 5_000;

/// A lab, or a word why there is none.
fn lab(kind: PortKind) -> Option<Lab> {
    match Lab::new(kind) {
        Ok(lab) => Some(lab),
        Err(e @ DataplaneError::Unavailable { .. }) => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn carries(name: &str, kind: PortKind) {
    let spec = builtin::get(name).unwrap();
    if let Err(e) = check(name, &spec) {
        println!("skipped: {e}");
        return;
    }
    let Some(lab) = lab(kind) else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_chainline"));
    let mut dataplane = Started::new(name, &spec, &lab, 0, program).unwrap_or_else(|e| panic!("{e}"));
    assert!(dataplane.version().is_some_and(|v| v.contains('.')), "{:?}", dataplane.version());
    let dir = Dir::new();
    let [to, from] = lab.tester_ports();
    let spec = format!(
        "  ports:
    gen: {{generator: {{frame_bytes: 64, flows: 100, rate: 10kpps, count: {FRAMES}}}}}
    to: {to}
    from: {from}
    sink: {{sink: {{}}}}
  chains:
    - {{name: go, path: [gen, to]}}
    - {{name: come, path: [from, sink]}}
"
    );
    let before = dataplane.counters().unwrap().unwrap_or_default();
    let mut tester = lab.inside(&lab.tester());
    tester.arg(program).args(["run", "--quiet", "-o", "json", "--duration", "2s"]);
    let out = tester.arg(dir.chain_file("tester.yaml", &spec)).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["ledger"]["balanced"], true, "{report:#}");
    let count = |chain: &str| report["chains"][chain]["transmitted"].as_u64().unwrap();
    let (sent, received) = (count("go"), count("come"));
    println!("{name} over {}: {sent} sent, {received} received, {:?}", kind.word(), dataplane.counters());
    assert!(received <= sent && received * 2 > sent, "{name}: {report:#}");
    dataplane.alive().unwrap();
    // A memif forgets its counters with its connection, which is over.
    if kind != PortKind::Memif
        && let Some(after) = dataplane.counters().unwrap()
    {
        let near = |a: u64, b: u64| a.abs_diff(b) * 100 <= b;
        assert!(near(after.transmitted - before.transmitted, received), "{after:?}, {received} received");
        assert!(after.received - before.received >= received && after.received - before.received <= sent, "{after:?}");
    }
    drop(dataplane);
    let left = std::process::Command::new("ip").args(["netns", "pids", &lab.dataplane()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "processes stay");
}

macro_rules! built_in {
    ($($test:ident: $name:literal over $kind:ident,)*) => {
        $(#[test] fn $test() { carries($name, PortKind::$kind); })*

        #[test]
        fn all_are_tested_with_all_their_ports() {
            let tested = [$(($name, PortKind::$kind)),*];
            for (name, _) in builtin::FILES {
                for kind in builtin::get(name).unwrap().ports {
                    assert!(tested.contains(&(name, kind)), "{name} over {}", kind.word());
                }
            }
        }
    };
}

built_in! {
    chainline_over_veth: "chainline" over Veth,
    chainline_over_memif: "chainline" over Memif,
    chainline_forward_over_veth: "chainline-forward" over Veth,
    chainline_forward_over_memif: "chainline-forward" over Memif,
    kernel: "kernel" over Veth,
    bridge: "bridge" over Veth,
    nftables: "nftables" over Veth,
    ovs: "ovs" over Veth,
    testpmd_io_over_veth: "testpmd-io" over Veth,
    testpmd_io_over_memif: "testpmd-io" over Memif,
    testpmd_macswap_over_veth: "testpmd-macswap" over Veth,
    testpmd_macswap_over_memif: "testpmd-macswap" over Memif,
    testpmd_5tswap_over_veth: "testpmd-5tswap" over Veth,
    testpmd_5tswap_over_memif: "testpmd-5tswap" over Memif,
}
