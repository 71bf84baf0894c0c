//! NFs that die: killed from outside at random moments, and by their own doing.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use life_tests::scene::{assert_lossless, shown, stop};
use life_tests::{Random, Scene, Seen, Watch, processes};
use std::collections::BTreeSet;

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");
const VICTIMS: [&str; 3] = ["a", "b", "c"];

#[test]
fn killed_at_random_moments_under_load() {
    const ROUNDS: usize = 18;
    let scene = Scene::new(HOST);
    let spec = "
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
                    // Each in turn, so that none has to wait out a long back-off; then two at once.
                    let first = rounds % 3;
                    assert!(processes::kill(VICTIMS[first]));
                    down.insert(VICTIMS[first].to_owned());
                    if rounds >= ROUNDS - 6 && random.below(2) == 0 && processes::kill(VICTIMS[(first + 1) % 3]) {
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
