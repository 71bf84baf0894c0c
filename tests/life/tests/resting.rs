//! The manager rests for NFs that have its core and no other (ADR 0019), and for nobody else.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_manager::Report;
use life_tests::Scene;
use life_tests::scene::{assert_lossless, shown, silent};

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");
const COUNT: u64 = 20_000;

/// The first core and the last one of this process.
fn cores() -> (usize, usize) {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    let mut all = (0..rustix::thread::CpuSet::MAX_CPU).filter(|c| set.is_set(*c));
    let first = all.next().unwrap();
    (first, all.next_back().unwrap_or(first))
}

/// A chain of NFs with these cores. Nothing is lost, in whatever way the manager and they share a core.
fn run(defaults: &str, source: &str, nfs: &[(&str, &[usize])]) -> Report {
    let scene = Scene::new(HOST);
    let kinds: Vec<String> = nfs.iter().map(|(n, cores)| format!("{n}: {{kind: pass, cores: {cores:?}}}")).collect();
    let path: Vec<&str> = nfs.iter().map(|(n, _)| *n).collect();
    let spec = format!(
        "
  defaults: {{manager_core: {}{defaults}}}
  ports: {{in: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}, {source}}}}}, out: {{sink: {{}}}}}}
  nfs: {{{}}}
  chains:
    - {{name: all, path: [in, {}, out]}}
",
        cores().0,
        kinds.join(", "),
        path.join(", ")
    );
    let report = scene.run(&spec, &mut silent());
    assert_lossless(&report, "all");
    assert_eq!(report.chains["all"].transmitted, COUNT, "{}", shown(&report));
    assert_eq!(report.manager.core, cores().0);
    report
}

/// Below capacity a rest begins when a pass found nothing and the NF has packets; flat out, when it has enough of them for
/// a turn. Both happen again and again: no rest is longer than 100 µs, and a turn is at most a queue.
#[test]
fn the_manager_rests_for_who_has_its_core_alone() {
    let (first, _) = cores();
    for source in ["rate: 20kpps, lossless: true", "rate: max"] {
        let report = run("", source, &[("near", &[first])]);
        assert!(report.manager.rests > 1, "{source}: {}", shown(&report));
        println!("{source}: {} rests", report.manager.rests);
        // Two neighbours on one path.
        let report = run("", source, &[("near", &[first]), ("next", &[first])]);
        assert!(report.manager.rests > 1, "{source}: {}", shown(&report));
    }
}

#[test]
fn it_does_not_rest_for_others() {
    let (first, last) = cores();
    // A stock platform knows no such thing.
    for mechanisms in [", mechanisms: default", ", mechanisms: weights"] {
        let report = run(mechanisms, "rate: 20kpps, lossless: true", &[("near", &[first])]);
        assert_eq!(report.manager.rests, 0, "{mechanisms}: {}", shown(&report));
    }
    if first == last {
        println!("skipped: an NF with a core of its own needs two cores");
        return;
    }
    for far in [&[last][..], &[first, last]] {
        for source in ["rate: 20kpps, lossless: true", "rate: max"] {
            let report = run("", source, &[("far", far)]);
            assert_eq!(report.manager.rests, 0, "{far:?}, {source}: {}", shown(&report));
        }
    }
}
