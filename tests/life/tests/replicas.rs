//! Replicas that die: the others go on, and the flows of the dead one do when it is back.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use life_tests::scene::{assert_lossless, shown, silent, stop};
use life_tests::{Scene, Seen, Watch, processes};
use std::collections::BTreeMap;

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");

/// Kills replicas in turn: of the first NF, which the manager deals to, and of one behind it, which an NF deals to.
#[test]
fn killed_under_load() {
    const ROUNDS: usize = 12;
    const VICTIMS: [&str; 4] = ["a/0", "b/1", "a/1", "b/0"];
    let scene = Scene::new(HOST);
    let spec = "
  defaults: {batch: 64}
  ports:
    in: {generator: {frame_bytes: 90, flows: 64, rate: 50kpps, lossless: true, stamp: true}}
    out: {sink: {check: true}}
  nfs: {a: {kind: pass, replicas: 2}, b: {kind: pass, replicas: 2, dispatch: host}}
  chains: [{name: all, path: [in, a, b, out]}]
";
    let (mut rounds, mut victim, mut pause, mut afterwards) = (0, None::<&str>, 0, 0);
    // What each replica received while its twin was down, and after the last death.
    let (mut meanwhile, mut after): (BTreeMap<&str, f64>, BTreeMap<String, f64>) = Default::default();
    let twin = |name: &str| VICTIMS.into_iter().find(|v| v[..1] == name[..1] && *v != name).unwrap();
    let report = scene.run(
        spec,
        &mut Watch(|seen: Seen<'_>| match seen {
            Seen::Running => pause = 5,
            Seen::Happened(h) => match (h.instance.as_deref(), h.what.as_str()) {
                (Some(name), "runs again") => {
                    assert_eq!(Some(name), victim.take());
                    pause = 5;
                }
                (Some(name), what) => assert!(Some(name) == victim && what.contains("SIGKILL"), "{name}: {what}"),
                _ => {}
            },
            Seen::Interval(i) => {
                let received = |name: &str| i.nfs.iter().find(|n| n.name == name).unwrap().pps * i.seconds;
                if let Some(dead) = victim {
                    *meanwhile.entry(twin(dead)).or_default() += received(twin(dead));
                } else if pause > 0 {
                    pause -= 1;
                } else if rounds < ROUNDS {
                    victim = Some(VICTIMS[rounds % 4]);
                    assert!(processes::kill(VICTIMS[rounds % 4]));
                    rounds += 1;
                } else {
                    VICTIMS.iter().for_each(|name| *after.entry((*name).to_owned()).or_default() += received(name));
                    afterwards += usize::from(after.values().all(|n| *n >= 1.0));
                    if afterwards == 5 {
                        stop();
                    }
                }
            }
            Seen::Draining => {}
        }),
    );
    assert_eq!((rounds, afterwards), (ROUNDS, 5), "all replicas carry packets again: {after:?} {}", shown(&report));
    for name in VICTIMS {
        assert!(meanwhile[name] >= 1.0, "{name} stood still while its twin was down: {}", shown(&report));
        assert_eq!(report.nfs[name].restarts, (ROUNDS / 4) as u64, "{name}: {}", shown(&report));
    }
    // What the dead had in hand, and nothing else.
    let dropped = &report.chains["all"].dropped;
    assert!(dropped.keys().all(|r| r == "nf_died"), "{dropped:?}");
    let lost: u64 = dropped.values().sum();
    assert!(lost <= 64 * ROUNDS as u64, "a death costs a burst: {dropped:?}");
    let check = &report.checks["out"];
    assert_eq!((check.reordered, check.duplicated), (0, 0), "{}", shown(&report));
    assert_eq!(check.received, report.chains["all"].received - lost);
}

/// A replica that cannot be started again: its flows are shed, the others' pass, whole.
#[test]
fn dead_for_good() {
    const COUNT: u64 = 40_000;
    let scene = Scene::new(HOST);
    std::fs::create_dir(scene.join("a")).unwrap();
    scene.script("a/0", &[&["honest"][..], &["could-not-be-built"; 40]].concat());
    let spec = format!(
        "
  ports:
    in: {{generator: {{frame_bytes: 90, flows: 200, count: {COUNT}, rate: 200kpps, lossless: true, stamp: true}}}}
    out: {{sink: {{check: true}}}}
  nfs: {{a: {{kind: fault, replicas: 3, args: {{script: x}}}}}}
  chains: [{{name: all, path: [in, a, out]}}]
"
    );
    scene.script("x", &[]);
    let mut killed = false;
    let report = scene.run(
        &spec,
        &mut Watch(|seen: Seen<'_>| {
            if matches!(seen, Seen::Running) {
                killed = processes::kill("a/0");
            }
        }),
    );
    assert!(killed);
    let all = &report.chains["all"];
    assert_eq!(all.received, COUNT, "{}", shown(&report));
    assert!(
        all.shed > 0 && all.dropped.keys().all(|r| ["shed", "nf_down", "nf_died"].contains(&r.as_str())),
        "{}",
        shown(&report)
    );
    // Each flow has as many packets as any other: none of the living ones' is missing.
    let of = |name: &str| report.nfs[name].transmitted;
    assert_eq!(of("a/0") + of("a/1") + of("a/2"), all.transmitted, "{}", shown(&report));
    assert!(of("a/1") > COUNT / 10 && (of("a/1") + of("a/2")) % (COUNT / 200) == 0, "{}", shown(&report));
    assert_eq!(report.checks["out"].reordered, 0);
}

/// Threads of the manager, fused: a panic of one ends this one.
#[test]
fn a_panic_of_one_thread() {
    const COUNT: u64 = 30_000;
    let scene = Scene::new(HOST);
    // The first of both that begins has this life.
    scene.script("t", &["panic 500"]);
    let spec = format!(
        "
  defaults: {{isolation: thread}}
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}}}}}
    in2: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}}}}}
    out: {{sink: {{}}}}
    out2: {{sink: {{}}}}
  nfs: {{t: {{kind: fault, replicas: 2, args: {{script: t}}}}, q: {{kind: pass, replicas: 2}}}}
  chains:
    - {{name: dies, path: [in, t, out]}}
    - {{name: lives, path: [in2, q, out2]}}
"
    );
    let report = scene.run(&spec, &mut silent());
    assert_eq!(report.nfs["t/0"].restarts + report.nfs["t/1"].restarts, 1, "{}", shown(&report));
    let dies = &report.chains["dies"];
    assert!(dies.received == COUNT && dies.transmitted >= COUNT - 256, "{}", shown(&report));
    assert_lossless(&report, "lives");
}
