//! The end of a manager: asked for once, twice, or not asked at all.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use life_tests::command::Desk;
use life_tests::processes::{self, lives, nfs_of, until};
use life_tests::scene::{shown, stop};
use life_tests::{Scene, Seen, Watch};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");
const RUNS: &str = "Ctrl-C ends";

/// An endless source through two processes and a thread.
const ENDLESS: &str = "
  ports:
    in: {generator: {frame_bytes: 64, flows: 9, rate: 50kpps}}
    out: {sink: {}}
  nfs: {a: {kind: forward}, b: {kind: forward, isolation: thread}, c: {kind: forward}}
  chains:
    - {name: all, path: [in, a, b, c, out]}
";

/// As [`ENDLESS`], with DPDK devices, and a source that ends.
const DEVICES: &str = "
  ports:
    in: {generator: {frame_bytes: 64, flows: 9, rate: 100kpps, lossless: true, count: 30000}}
    out: {vdev: net_null0}
  nfs: {a: {kind: forward}, b: {kind: forward}}
  chains:
    - {name: all, path: [in, a, b, out]}
";

fn number(report: &Value, key: &str) -> u64 {
    report["ledger"][key].as_u64().unwrap()
}

/// Once is enough, for each of the two signals: what is inside leaves.
#[test]
fn asked_once() {
    for signal in [Signal::INT, Signal::TERM] {
        let desk = Desk::new(HOST);
        let mut run = desk.start("once", ENDLESS, &["--drain", "60s"]);
        run.until_says(RUNS);
        let nfs = nfs_of(run.id());
        assert_eq!(nfs.len(), 2, "{nfs:?}");
        run.signal(signal);
        let report = run.end().report();
        assert_eq!((number(&report, "held"), &report["ledger"]["dropped"]), (0, &serde_json::json!({})), "{report:#}");
        assert_eq!(number(&report, "received"), number(&report, "transmitted"), "{report:#}");
        assert!(nfs.iter().all(|(pid, _)| !lives(*pid)), "{nfs:?}");
    }
}

/// The second ends it with packets inside, long before they have left; the report is whole all the same.
#[test]
fn asked_twice() {
    let desk = Desk::new(HOST);
    // Tenths of a second for each packet: draining takes far longer than this test waits.
    let spec = "
  defaults: {batch: 1}
  ports:
    in: {generator: {frame_bytes: 64, flows: 9, rate: 10kpps}}
    out: {sink: {}}
  nfs: {slow: {kind: synthetic, args: {cost_cycles: 200000000, tsc_hz: 1000000000, iteration_cycles: 1.0}}, fast: {kind: forward}}
  chains:
    - {name: all, path: [in, slow, fast, out]}
";
    let mut run = desk.start("twice", spec, &["--drain", "3600s"]);
    run.until_says(RUNS);
    let nfs = nfs_of(run.id());
    run.signal(Signal::TERM);
    run.signal(Signal::INT);
    let report = run.end().report();
    assert!(number(&report, "held") + number(&report, "transmitted") > 0, "{report:#}");
    assert!(nfs.len() == 2 && nfs.iter().all(|(pid, _)| !lives(*pid)), "{nfs:?}");
}

/// The second comes while the first is obeyed, and an NF is on its way back that never comes.
#[test]
fn asked_again_while_draining() {
    let scene = Scene::new(HOST).drain(Duration::from_secs(3600));
    scene.script("nf", &["honest", "mute"]);
    let spec = "
  ports:
    in: {generator: {frame_bytes: 64, flows: 9, rate: 20kpps}}
    out: {sink: {}}
  nfs: {before: {kind: pass}, nf: {kind: pass}}
  chains:
    - {name: all, path: [in, before, nf, out]}
";
    let (mut killed, mut drained) = (false, false);
    let report = scene
        .try_run(
            spec,
            &mut Watch(|seen: Seen<'_>| match seen {
                // On a busy host as many may wait for the living one.
                Seen::Interval(i) if killed && i.chains[0].held >= 64 => stop(),
                Seen::Interval(_) => killed |= !killed && processes::kill("nf"),
                Seen::Draining => {
                    drained = true;
                    stop();
                }
                _ => {}
            }),
        )
        .unwrap();
    assert!(drained && report.ledger.balanced && report.ledger.held > 0, "{}", shown(&report));
    assert_eq!(nfs_of(std::process::id()), []);
}

/// A killed manager takes its NFs with it; nothing is left that others could see, nor after the next start.
#[test]
fn killed() {
    let desk = Desk::new(HOST);
    let before = processes::traces();
    for round in 0..3 {
        let mut run = desk.start(&format!("killed{round}"), &DEVICES.replace(", count: 30000", ""), &[]);
        run.until_says(RUNS);
        let nfs = nfs_of(run.id());
        assert_eq!(nfs.len(), 2, "{nfs:?}");
        run.signal(Signal::KILL);
        assert!(run.end().status.code().is_none());
        until("its NFs are gone", || nfs.iter().all(|(pid, _)| !lives(*pid)));
        let report = desk.start(&format!("next{round}"), DEVICES, &[]).end().report();
        assert_eq!((number(&report, "transmitted"), number(&report, "held")), (30_000, 0), "{report:#}");
        assert_eq!(processes::traces(), before);
    }
}

#[test]
fn two_side_by_side() {
    let desk = Desk::new(HOST);
    let before = processes::traces();
    let runs: Vec<_> = (0..2).map(|i| desk.start(&format!("side{i}"), DEVICES, &[])).collect();
    for run in runs {
        let report = run.end().report();
        assert_eq!((number(&report, "transmitted"), number(&report, "held")), (30_000, 0), "{report:#}");
        assert!(report["nfs"].as_object().unwrap().values().all(|nf| nf["restarts"] == 0), "{report:#}");
    }
    assert_eq!(processes::traces(), before);
}

/// An NF that cannot be built: one message that says where, and nobody left.
#[test]
fn a_wrong_file() {
    for isolation in ["process", "thread", "fused"] {
        let desk = Desk::new(HOST);
        desk.dir.write("bad.rules", "allow tcp from any to any port 80\nallow tcp from any to any port eighty\n");
        let spec = format!(
            "
  defaults: {{isolation: {isolation}}}
  ports:
    in: {{generator: {{frame_bytes: 64}}}}
    out: {{sink: {{}}}}
  nfs: {{before: {{kind: forward}}, wrong-file: {{kind: firewall, args: {{rules: bad.rules}}}}, after: {{kind: forward}}}}
  chains:
    - {{name: all, path: [in, before, wrong-file, after, out]}}
"
        );
        let run = desk.start("wrong", &spec, &[]);
        let id = run.id();
        let outcome = run.end();
        let said = &outcome.stderr;
        assert!(outcome.status.code().is_some_and(|c| c != 0), "{isolation}: {said}");
        assert!(outcome.stdout.is_empty(), "{isolation}: {}", outcome.stdout);
        assert_eq!(said.lines().filter(|l| l.starts_with("error")).count(), 1, "{isolation}: {said}");
        assert!(said.contains("wrong-file") && said.contains("bad.rules:2:32: "), "{isolation}: {said}");
        for word in ["panicked", "backtrace", ".rs:"] {
            assert!(!said.contains(word), "{isolation}: {said}");
        }
        assert_eq!(nfs_of(id), []);
        // Their parent is gone: a survivor would have another one by now.
        let name = |p: procfs::ProcResult<procfs::process::Process>| p.ok()?.cmdline().ok();
        let all = procfs::process::all_processes().unwrap().filter_map(name);
        let left: Vec<_> = all.filter(|c| c.iter().any(|word| word == "wrong-file")).collect();
        assert!(left.is_empty(), "{isolation}: {left:?}");
    }
}
