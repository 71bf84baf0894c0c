//! NFs that lie about packets, scribble over shared memory, or do not keep to the protocol. Each lies once in a chain
//! of its own tenant, between two honest NFs, while another tenant's chain carries a capture.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_manager::Report;
use life_tests::scene::{assert_lossless, shown, silent, stop};
use life_tests::{Scene, Seen, Watch, frames, processes};

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");
/// Packets of the liar's chain, at a rate that leaves time to catch it.
const COUNT: u64 = 20_000;
/// Packets of its neighbour's, of the same tenant.
const NEAR: u64 = 60_000;
/// Frames of the other tenant's capture.
const FAR: usize = 3_000;
/// Packets that one lie may cost: what it made away with, and a queue and a burst for each death.
const COST: u64 = 4_000;

/// Three chains: the liar's, one of its tenant without it, one of another tenant.
fn spec() -> String {
    format!(
        "
  defaults: {{queue: 256}}
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}, rate: 300kpps, lossless: true}}}}
    near: {{generator: {{frame_bytes: 64, flows: 9, count: {NEAR}}}}}
    far: {{pcap: {{read: far.pcap}}}}
    out: {{sink: {{}}}}
    out2: {{sink: {{}}}}
    out3: {{pcap: {{write: out.pcap}}}}
  nfs: {{before: {{kind: pass}}, liar: {{kind: pass}}, after: {{kind: pass}}, near-nf: {{kind: pass}}, far-nf: {{kind: pass}}}}
  chains:
    - {{name: lies, path: [in, before, liar, after, out]}}
    - {{name: near, path: [near, near-nf, out2]}}
    - {{name: far, tenant: other, path: [far, far-nf, out3]}}
"
    )
}

/// Runs with a liar that has these lives, and judges what must hold whatever it does.
fn run(lives: &[&str]) -> Report {
    let scene = Scene::new(HOST);
    scene.script("liar", lives);
    let sent = frames::random(FAR, 7);
    frames::write(&scene.join("far.pcap"), &sent);
    let report = scene.run(&spec(), &mut silent());
    let lies = &report.chains["lies"];
    assert_eq!(lies.received, COUNT, "{lives:?}: {}", shown(&report));
    assert!(lies.transmitted >= COUNT - COST, "{lives:?}: {}", shown(&report));
    assert_lossless(&report, "near");
    assert_lossless(&report, "far");
    for innocent in ["before", "near-nf", "far-nf"] {
        assert_eq!(report.nfs[innocent].restarts, 0, "{lives:?}: {}", shown(&report));
    }
    frames::assert_same(&sent, &frames::read(&scene.join("out.pcap")));
    report
}

fn restarts(report: &Report, nf: &str) -> u64 {
    report.nfs[nf].restarts
}

#[test]
fn descriptors_that_cannot_be() {
    for lie in ["lie-index 500", "lie-far 500", "lie-long 500"] {
        let report = run(&[lie]);
        assert!(restarts(&report, "liar") > 0, "{lie}: {}", shown(&report));
        assert!(report.happenings.iter().any(|h| h.what.contains("refused")), "{lie}: {}", shown(&report));
    }
}

#[test]
fn descriptors_of_no_packet_inside() {
    // The honest NF behind the liar passes these on, as it cannot tell; the manager refuses them.
    for lie in ["lie-twice 500", "lie-stale 500", "lie-others 500"] {
        let report = run(&[lie]);
        let killed = restarts(&report, "liar") + restarts(&report, "after");
        assert!(killed > 0, "{lie}: {}", shown(&report));
        assert!(report.happenings.iter().any(|h| h.what.contains("the manager refused")), "{lie}: {}", shown(&report));
    }
}

#[test]
fn garbage_among_the_dropped() {
    let report = run(&["lie-back 500"]);
    assert!(restarts(&report, "liar") > 0, "{}", shown(&report));
    let report = run(&["lie-place 500"]);
    assert_eq!(report.chains["lies"].dropped["bad_verdict"], 8, "{}", shown(&report));
}

#[test]
fn packets_that_never_come_back() {
    for (lie, dies) in [("lie-swallow 500", true), ("lie-swallow-on 500", false)] {
        let report = run(&[lie]);
        assert_eq!(restarts(&report, "liar") > 0, dies, "{lie}: {}", shown(&report));
        assert!(report.chains["lies"].dropped["nf_died"] >= 300, "{lie}: {}", shown(&report));
    }
}

#[test]
fn scribbled_indexes() {
    for lie in ["lie-indexes 500", "lie-heads 500", "lie-tails 500", "lie-slots 500"] {
        let report = run(&[lie, "lie-indexes 500"]);
        assert!(restarts(&report, "liar") > 0, "{lie}: {}", shown(&report));
    }
}

#[test]
fn scribbled_bells_and_page() {
    for (lie, dies) in
        [("lie-bells 500", true), ("lie-bells-on 500", false), ("lie-page 500", true), ("lie-page-on 500", true)]
    {
        let report = run(&[lie]);
        assert_eq!(restarts(&report, "liar") > 0, dies, "{lie}: {}", shown(&report));
    }
}

/// What an instance may say or leave unsaid after its first life.
#[test]
fn bad_manners_after_a_restart() {
    let manners = [
        "dies-building",
        "could-not-be-built",
        "closes",
        "garbage",
        "no-json",
        "begins-with-running",
        "builds-twice",
        "declares-none",
        "declares-many",
        "ends-untold",
    ];
    for word in manners {
        let report = run(&["lie-index 500", word]);
        assert!(restarts(&report, "liar") >= 2, "{word}: {}", shown(&report));
    }
}

/// Who is rude at the start ends the run before it begins: one message, nobody left.
#[test]
fn bad_manners_at_the_start() {
    for (word, says) in [
        ("dies-building", "exited with code 3"),
        ("could-not-be-built", "no table today"),
        ("closes", "liar"),
        ("garbage", "malformed"),
        ("no-json", "malformed"),
        ("begins-with-running", "out of turn"),
        ("declares-none", "declared"),
    ] {
        let scene = Scene::new(HOST);
        frames::write(&scene.join("far.pcap"), &frames::random(10, 7));
        scene.script("liar", &[word]);
        let error = scene.try_run(&spec(), &mut silent()).expect_err(word).to_string();
        assert!(error.contains("liar") || error.contains(says), "{word}: {error}");
        assert!(error.contains(says), "{word}: {error}");
        assert_eq!(processes::nfs_of(std::process::id()), [], "{word}");
    }
}

/// One that never says anything is waited for, but not against the operator's will.
#[test]
fn mute_at_the_start() {
    let scene = Scene::new(HOST);
    frames::write(&scene.join("far.pcap"), &frames::random(10, 7));
    scene.script("liar", &["mute"]);
    let error = std::thread::scope(|s| {
        // Asked while it waits: its processes are there, and one will never answer.
        s.spawn(|| {
            processes::until("the NFs are started", || processes::nfs_of(std::process::id()).len() == 5);
            stop();
        });
        scene.try_run(&spec(), &mut silent()).expect_err("a run without an NF").to_string()
    });
    assert!(error.contains("interrupted"), "{error}");
    assert_eq!(processes::nfs_of(std::process::id()), []);
}

/// One that says nothing more holds up its own chain, not the end of the run.
#[test]
fn mute_after_a_restart() {
    let scene = Scene::new(HOST).drain(std::time::Duration::from_millis(500));
    scene.script("liar", &["lie-index 500", "mute"]);
    let sent = frames::random(FAR, 7);
    frames::write(&scene.join("far.pcap"), &sent);
    let mut empty = 0;
    let report = scene
        .try_run(
            &spec(),
            &mut Watch(|seen: Seen<'_>| {
                if let Seen::Interval(i) = seen {
                    // With room, and nothing comes: the other chains have carried all that there was.
                    let over = i.chains[1..].iter().all(|c| c.received_pps == 0.0 && c.held == 0);
                    empty = if over { empty + 1 } else { 0 };
                    if empty == 5 {
                        stop();
                    }
                }
            }),
        )
        .unwrap();
    let (ledger, lies) = (&report.ledger, &report.chains["lies"]);
    // What waits for the mute one is still inside.
    assert!(ledger.balanced && ledger.held == lies.held && lies.held > 0, "{}", shown(&report));
    assert_lossless(&report, "near");
    assert_lossless(&report, "far");
    frames::assert_same(&sent, &frames::read(&scene.join("out.pcap")));
    assert_eq!(processes::nfs_of(std::process::id()), []);
}

/// Who talks without end is heard a few times, on one line each, and nobody waits for it.
#[test]
fn who_talks_without_end_is_heard_now_and_then() {
    let scene = Scene::new(HOST);
    let spec = "
  defaults: {isolation: fused}
  ports:
    in: {generator: {frame_bytes: 64, flows: 9, rate: 100kpps, lossless: true}}
    out: {sink: {}}
  nfs: {a: {kind: pass}, talks: {kind: chatty}}
  chains: [{name: all, path: [in, a, talks, out]}]
";
    // Long enough for many times as much.
    let (mut heard, mut intervals) = (0, 0);
    let report = scene.run(
        spec,
        &mut Watch(|seen: Seen<'_>| match seen {
            Seen::Happened(_) => heard += 1,
            Seen::Interval(_) if heard >= 8 => {
                intervals += 1;
                if intervals == 100 {
                    stop();
                }
            }
            _ => {}
        }),
    );
    assert_lossless(&report, "all");
    let ticks: u64 = report.nfs["talks"].report.as_ref().unwrap().parse().unwrap();
    let heard: Vec<_> = report.happenings.iter().filter(|h| h.what.starts_with("talks: news ")).collect();
    // Eight at once, and one each ten seconds; it says something each ten milliseconds.
    let most = 9 + report.duration_s as usize / 10;
    assert!((8..=most).contains(&heard.len()) && ticks > heard.len() as u64, "{ticks}: {}", shown(&report));
    assert!(heard.iter().all(|h| h.what.len() < 1100 && !h.what.contains(char::is_control)), "{}", shown(&report));
}
