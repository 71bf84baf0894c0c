//! Replicas with one table: one dies with its lock, the others go on.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use life_tests::Scene;
use life_tests::scene::{shown, silent};

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");

/// The lock is taken from the dead one: nobody waits until patience is over, which would be told as refused packets. Without
/// a lock there is nothing to take.
#[test]
fn one_dies_with_the_lock() {
    const COUNT: u64 = 20_000;
    const DEATHS: u64 = 3;
    for state in ["shared-locked", "shared-lockfree"] {
        let scene = Scene::new(HOST);
        scene.script("tally", &["grab 100"; DEATHS as usize]);
        let spec = format!(
            "
  defaults: {{batch: 32}}
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 200, hosts: {{count: 10}}, count: {COUNT}}}}}
    out: {{sink: {{}}}}
  nfs: {{t: {{kind: tally, replicas: 3, state: {state}, args: {{script: tally}}}}}}
  chains: [{{name: all, path: [in, t, out]}}]
"
        );
        let report = scene.run(&spec, &mut silent());
        assert_eq!(report.nfs["t/0"].restarts, DEATHS, "{}", shown(&report));
        let all = &report.chains["all"];
        assert_eq!(all.received, COUNT, "{}", shown(&report));
        // What a dead one had in hand was counted before it died. On a busy host one may be down for so long that what is
        // for it is not even let in.
        let uncounted: u64 = all.dropped.iter().filter(|(reason, _)| *reason != "nf_died").map(|(_, n)| n).sum();
        let expected = format!("{} 0", COUNT - uncounted);
        for name in ["t/0", "t/1", "t/2"] {
            let said = report.nfs[name].report.clone().unwrap_or_default();
            assert_eq!(said, expected, "{name}: {}", shown(&report));
        }
    }
}
