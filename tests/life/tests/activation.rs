//! How NFs wait for packets. In each mode every packet gets out, on a core of one's own and on one that three share.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_manager::Report;
use life_tests::Scene;
use life_tests::scene::{assert_lossless, shown, silent};

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");
const NFS: [&str; 3] = ["a", "b", "c"];

/// The last core of this process: the manager has the first.
fn last_core() -> usize {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).rfind(|c| set.is_set(*c)).unwrap()
}

fn run(defaults: &str, generator: &str, path: &[&str]) -> Report {
    let scene = Scene::new(HOST);
    let nfs: Vec<String> = path.iter().map(|n| format!("{n}: {{kind: pass}}")).collect();
    let spec = format!(
        "
  defaults: {{cores: [{}], {defaults}}}
  ports: {{in: {{generator: {{frame_bytes: 64, flows: 9, {generator}}}}}, out: {{sink: {{}}}}}}
  nfs: {{{}}}
  chains:
    - {{name: all, path: [in, {}, out]}}
",
        last_core(),
        nfs.join(", "),
        path.join(", ")
    );
    let report = scene.run(&spec, &mut silent());
    assert_lossless(&report, "all");
    report
}

/// Three on one core, as fast as they can: nobody starves, since who finds nothing gives the core up.
#[test]
fn three_share_a_core_in_each_mode() {
    const COUNT: u64 = 200_000;
    for (mode, defaults) in [
        ("wake", "activation: wake"),
        ("hybrid", "activation: hybrid, spin_us: 20"),
        ("poll", "activation: poll"),
        ("poll", "activation: poll, isolation: thread"),
        ("poll", "activation: poll, sched: {policy: other}"),
    ] {
        let report = run(defaults, &format!("count: {COUNT}"), &NFS);
        assert_eq!(report.chains["all"].transmitted, COUNT, "{defaults}");
        for nf in NFS {
            let n = &report.nfs[nf];
            assert_eq!((n.received, n.activation.as_str()), (COUNT, mode), "{defaults}: {}", shown(&report));
            assert!(n.voluntary_switches > 0, "{defaults}: {nf} never gave up the core: {}", shown(&report));
        }
        let said = report.happenings.iter().filter(|h| h.what.contains("polls on cores that it shares")).count();
        assert_eq!(said, if mode == "poll" { NFS.len() } else { 0 }, "{defaults}: {}", shown(&report));
        let n = &report.nfs["b"];
        println!(
            "{defaults}: {:.0} pps, {} switches of its own, {} by others",
            report.chains["all"].pps, n.voluntary_switches, n.involuntary_switches
        );
    }
}

/// Half a millisecond between two packets. Who polls alone on its core is there when one comes; who is woken sleeps
/// before nearly each of them.
#[test]
fn who_polls_alone_never_sleeps() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: needs two cores");
        return;
    }
    const COUNT: u64 = 1_000;
    let switches = |defaults: &str, mode: &str| {
        let report = run(defaults, &format!("rate: 2kpps, count: {COUNT}"), &["a"]);
        let n = &report.nfs["a"];
        assert_eq!((n.received, n.activation.as_str()), (COUNT, mode), "{}", shown(&report));
        n.voluntary_switches
    };
    assert!(switches("activation: poll", "poll") < COUNT / 40);
    assert!(switches("activation: hybrid, spin_us: 100000", "hybrid") < COUNT / 40);
    assert!(switches("activation: wake", "wake") > COUNT / 10);
    // What nobody asked for: alone on its core it looks for a while.
    let _ = switches("batch: 32", "hybrid");
}
