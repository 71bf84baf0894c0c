//! NFs that die: killed from outside at random moments, and by their own doing.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use life_tests::scene::{assert_lossless, shown, silent, stop};
use life_tests::{Random, Scene, Seen, Watch, processes};
use std::collections::BTreeSet;

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");
const VICTIMS: [&str; 3] = ["a", "b", "c"];

#[test]
fn killed_at_random_moments_under_load() {
    const ROUNDS: usize = 15;
    let scene = Scene::new(HOST);
    let spec = "
  defaults: {batch: 256}
  ports:
    in: {generator: {frame_bytes: 64, flows: 64, rate: max}}
    in2: {generator: {frame_bytes: 64, flows: 64, rate: 20kpps, lossless: true}}
    out: {sink: {}}
    out2: {sink: {}}
  nfs: {a: {kind: pass}, b: {kind: pass}, c: {kind: pass}, d: {kind: pass}}
  chains:
    - {name: victim, path: [in, a, b, c, out]}
    - {name: bystander, path: [in2, d, out2]}
";
    let mut random = Random(20_261_120);
    let (mut rounds, mut pause, mut down) = (0, 0, BTreeSet::new());
    // Packets of the bystander while an NF of the victim was down, and of the victim after all was over.
    let (mut meanwhile, mut afterwards) = (0.0, 0);
    let report = scene.run(
        spec,
        &mut Watch(|seen: Seen<'_>| match seen {
            Seen::Running => pause = 5,
            Seen::Happened(h) => match (&h.instance, h.what.as_str()) {
                (Some(name), "runs again") => {
                    down.remove(name);
                    pause = random.below(12);
                }
                (Some(name), what) => {
                    assert!(what.contains("SIGKILL"), "{name}: {what}");
                    down.insert(name.clone());
                }
                _ => {}
            },
            Seen::Interval(i) => {
                let sent = |chain: usize| i.chains[chain].transmitted_pps * i.seconds;
                if !down.is_empty() {
                    meanwhile += sent(1);
                } else if pause > 0 {
                    pause -= 1;
                } else if rounds < ROUNDS {
                    // Each in turn, so that none has to wait out a long back-off; sometimes two at once.
                    let first = rounds % 3;
                    assert!(processes::kill(VICTIMS[first]));
                    down.insert(VICTIMS[first].to_owned());
                    if rounds < 6 && random.below(2) == 0 && processes::kill(VICTIMS[(first + 1) % 3]) {
                        down.insert(VICTIMS[(first + 1) % 3].to_owned());
                    }
                    rounds += 1;
                } else if sent(0) > 0.0 {
                    afterwards += 1;
                    if afterwards == 5 {
                        stop();
                    }
                }
            }
            Seen::Draining => {}
        }),
    );
    assert_eq!((rounds, afterwards), (ROUNDS, 5), "the victim carries packets again: {}", shown(&report));
    assert!(meanwhile >= 1.0, "the bystander stood still while others were down: {}", shown(&report));
    assert_lossless(&report, "bystander");
    for name in VICTIMS {
        assert!(report.nfs[name].restarts >= (ROUNDS / 3) as u64, "{name}: {}", shown(&report));
    }
    assert_eq!(report.nfs["d"].restarts, 0);
    let reasons: Vec<_> = report.chains["victim"].dropped.keys().map(String::as_str).collect();
    assert!(reasons.iter().all(|r| ["nf_died", "nf_down"].contains(r)), "{reasons:?}");
    println!("of {} packets were lost: {:?}", report.chains["victim"].received, report.chains["victim"].dropped);
}

/// Its own chain, port and NF for each way to die, so that each must come back on its own.
#[test]
fn every_way_to_die() {
    const COUNT: u64 = 30_000;
    // What the script says, how often, and what the report must say of it.
    let ways = [
        ("abort 500", 3, "SIGABRT"),
        ("panic 500", 3, "panicked as the script says"),
        ("exit 500", 3, "exited with code 7"),
        ("segv 500", 3, "SIGSEGV"),
        ("kill 500", 3, "SIGKILL"),
        ("spin 500", 1, "worked on one burst"),
    ];
    let scene = Scene::new(HOST);
    let (mut ports, mut nfs, mut chains) = (String::new(), String::new(), String::new());
    for (i, (way, times, _)) in ways.iter().enumerate() {
        scene.script(&format!("way{i}"), &vec![*way; *times]);
        ports += &format!(
            "    in{i}: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}}}}}\n    out{i}: {{sink: {{}}}}\n"
        );
        nfs += &format!("    first{i}: {{kind: pass}}\n    nf{i}: {{kind: fault, args: {{script: way{i}}}}}\n");
        chains += &format!("    - {{name: chain{i}, path: [in{i}, first{i}, nf{i}, out{i}]}}\n");
    }
    let report = scene.run(&format!("  ports:\n{ports}  nfs:\n{nfs}  chains:\n{chains}"), &mut silent());
    for (i, (way, times, words)) in ways.iter().enumerate() {
        let (chain, nf) = (&report.chains[&format!("chain{i}")], format!("nf{i}"));
        assert_eq!(chain.received, COUNT, "{way}: {}", shown(&report));
        assert!(chain.transmitted >= COUNT - 256 * *times as u64, "{way}: a death costs a burst: {}", shown(&report));
        assert_eq!(report.nfs[&nf].restarts, *times as u64, "{way}: {}", shown(&report));
        assert_eq!(report.nfs[&format!("first{i}")].restarts, 0, "{way}: {}", shown(&report));
        let said = report.happenings.iter().filter(|h| h.instance.as_ref() == Some(&nf) && h.what.contains(words));
        assert_eq!(said.count(), *times, "{way}: {}", shown(&report));
    }
}

/// The same fault in a thread ends the thread, not the manager.
#[test]
fn a_panic_in_a_thread() {
    const COUNT: u64 = 30_000;
    let scene = Scene::new(HOST);
    scene.script("t", &["panic 500", "panic 500", "honest", "panic 0"]);
    let spec = format!(
        "
  defaults: {{isolation: thread}}
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}}}}}
    in2: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}}}}}
    out: {{sink: {{}}}}
    out2: {{sink: {{}}}}
  nfs: {{p: {{kind: pass}}, t: {{kind: fault, args: {{script: t}}}}, q: {{kind: pass}}}}
  chains:
    - {{name: dies, path: [in, p, t, out]}}
    - {{name: lives, path: [in2, q, out2]}}
"
    );
    let report = scene.run(&spec, &mut silent());
    assert_eq!(report.nfs["t"].restarts, 2, "{}", shown(&report));
    assert_eq!(report.chains["dies"].received, COUNT);
    assert!(report.happenings.iter().any(|h| h.what.contains("panicked as the script says")), "{}", shown(&report));
    assert_lossless(&report, "lives");
}

/// An NF that cannot be started again: its chain sheds, the others go on, even one that shares the port.
#[test]
fn dead_for_good() {
    const COUNT: u64 = 40_000;
    let scene = Scene::new(HOST);
    scene.script("x", &["exit 1000"; 1]);
    let lives = [&["honest"][..], &["could-not-be-built"; 40]].concat();
    scene.script("nf", &lives);
    let spec = format!(
        "
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 200, count: {COUNT}, dst_port: 1-2}}}}
    out: {{sink: {{}}}}
    out2: {{sink: {{}}}}
  nfs: {{p: {{kind: pass}}, nf: {{kind: fault, args: {{script: x}}}}, q: {{kind: pass}}}}
  chains:
    - {{name: dead, match: {{dst_port: 1}}, path: [in, p, nf, out]}}
    - {{name: alive, path: [in, q, out2]}}
"
    );
    let report = scene.run(&spec, &mut silent());
    assert_lossless(&report, "alive");
    let dead = &report.chains["dead"];
    assert_eq!(dead.received + report.chains["alive"].received, COUNT);
    assert!(dead.shed > 0 && dead.transmitted > 0, "{}", shown(&report));
    let said = report.happenings.iter().filter(|h| h.what.contains("no table today"));
    assert!(said.count() > 1, "{}", shown(&report));
}
