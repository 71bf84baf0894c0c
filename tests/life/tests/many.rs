//! Very many NFs.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use life_tests::Scene;
use life_tests::scene::{assert_lossless, shown, silent};

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");
const CHAINS: usize = 16;
const HOPS: usize = 8;

/// 128 instances: what the control loop needs of a core for all of them is printed, and `docs/scheduling.md` has it.
#[test]
fn a_hundred_and_twenty_eight() {
    const COUNT: u64 = 2_000;
    let scene = Scene::new(HOST);
    let (mut ports, mut nfs, mut chains) = (String::new(), String::new(), String::new());
    for c in 0..CHAINS {
        ports += &format!(
            "    in{c}: {{generator: {{frame_bytes: 64, flows: 9, rate: 1kpps, count: {COUNT}}}}}\n    out{c}: {{sink: {{}}}}\n"
        );
        let path: Vec<String> = (0..HOPS).map(|h| format!("n{c}-{h}")).collect();
        path.iter().for_each(|n| nfs += &format!("    {n}: {{kind: pass}}\n"));
        chains += &format!("    - {{name: chain{c}, path: [in{c}, {}, out{c}]}}\n", path.join(", "));
    }
    let spec =
        format!("  defaults: {{isolation: thread, queue: 256}}\n  ports:\n{ports}  nfs:\n{nfs}  chains:\n{chains}");
    let report = scene.run(&spec, &mut silent());
    for c in 0..CHAINS {
        assert_lossless(&report, &format!("chain{c}"));
        assert_eq!(report.chains[&format!("chain{c}")].transmitted, COUNT);
    }
    assert_eq!(report.nfs.len(), CHAINS * HOPS);
    let control = &report.control;
    assert!(control.readings > 100, "{}", shown(&report));
    println!(
        "control loop with {} NFs: {:.2} % of a core, {} readings, {} missed",
        report.nfs.len(),
        control.cpu_share * 100.0,
        control.readings,
        control.missed
    );
}
