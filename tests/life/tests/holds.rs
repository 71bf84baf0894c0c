//! Packets that NFs keep, let go, and send elsewhere, in all three isolations; and NFs that die with some in hand.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use life_tests::scene::{assert_lossless, shown, silent, stop};
use life_tests::{Scene, Seen, Watch, frames};

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");
const ISOLATIONS: [&str; 3] = ["process", "thread", "fused"];

#[test]
fn held_and_released() {
    for isolation in ISOLATIONS {
        let scene = Scene::new(HOST);
        // More than there are places for: the rest passes by.
        let sent = frames::random(1_500, 11);
        frames::write(&scene.join("in.pcap"), &sent);
        let spec = format!(
            "
  defaults: {{isolation: {isolation}}}
  ports: {{in: {{pcap: {{read: in.pcap}}}}, out: {{pcap: {{write: out.pcap}}}}}}
  nfs: {{a: {{kind: pass}}, h: {{kind: hold, args: {{ticks: 2}}}}, b: {{kind: pass}}}}
  chains:
    - {{name: all, path: [in, a, h, b, out]}}
"
        );
        let report = scene.run(&spec, &mut silent());
        assert_lossless(&report, "all");
        let released = report.nfs["h"].report.as_deref().and_then(|r| r.strip_prefix("released ")?.parse::<u64>().ok());
        assert!(released.is_some_and(|n| n >= 1_000), "{isolation}: {}", shown(&report));
        let mut got = frames::read(&scene.join("out.pcap"));
        let mut sent = sent;
        // Those that passed by have overtaken the others.
        got.sort();
        sent.sort();
        frames::assert_same(&sent, &got);
    }
}

/// Of every three held packets one is diverted, one dropped, one goes on.
#[test]
fn released_in_three_directions() {
    const COUNT: u64 = 900;
    for isolation in ISOLATIONS {
        let scene = Scene::new(HOST);
        let spec = format!(
            "
  defaults: {{isolation: {isolation}}}
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}}}}}
    none: {{generator: {{frame_bytes: 64, flows: 9, count: 1}}}}
    out: {{sink: {{}}}}
    out2: {{sink: {{}}}}
  nfs: {{h: {{kind: hold, args: {{ticks: 2, thirds: other}}, divert: [other]}}, b: {{kind: pass}}, c: {{kind: pass}}}}
  chains:
    - {{name: main, path: [in, h, b, out]}}
    - {{name: other, path: [none, c, out2]}}
"
        );
        let report = scene.run(&spec, &mut silent());
        let main = &report.chains["main"];
        // Diverted packets stay on the account of the chain that admitted them.
        assert_eq!((main.received, main.transmitted), (COUNT, COUNT * 2 / 3), "{isolation}: {}", shown(&report));
        assert_eq!(main.dropped["third"], COUNT / 3, "{isolation}: {}", shown(&report));
        assert_eq!(report.nfs["b"].received, COUNT / 3, "{isolation}: {}", shown(&report));
        assert_eq!(report.nfs["c"].received, COUNT / 3 + 1, "{isolation}: {}", shown(&report));
    }
}

#[test]
fn every_second_is_diverted() {
    const COUNT: u64 = 20_000;
    for isolation in ISOLATIONS {
        let scene = Scene::new(HOST);
        let spec = format!(
            "
  defaults: {{isolation: {isolation}}}
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}}}}}
    out: {{sink: {{}}}}
    aside: {{sink: {{}}}}
  nfs: {{a: {{kind: pass}}, s: {{kind: split, args: {{to: aside}}, divert: [aside]}}, b: {{kind: pass}}}}
  chains:
    - {{name: all, path: [in, a, s, b, out]}}
"
        );
        let report = scene.run(&spec, &mut silent());
        assert_lossless(&report, "all");
        assert_eq!(report.nfs["b"].received, COUNT / 2, "{isolation}: {}", shown(&report));
    }
}

/// What a dead NF held comes back as a counted drop; what its neighbour holds does not.
#[test]
fn dies_while_holding() {
    const COUNT: u64 = 5_000;
    let scene = Scene::new(HOST);
    scene.script("held", &["kill 200", "kill 300"]);
    let spec = format!(
        "
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}, rate: 50kpps, lossless: true}}}}
    in2: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}, rate: 50kpps, lossless: true}}}}
    out: {{sink: {{}}}}
    out2: {{sink: {{}}}}
  nfs:
    h: {{kind: hold, args: {{ticks: 3, script: held}}}}
    keeps: {{kind: hold, args: {{ticks: 3}}}}
    alone: {{kind: hold, args: {{ticks: 3}}}}
  chains:
    - {{name: dies, path: [in, keeps, h, out]}}
    - {{name: lives, path: [in2, alone, out2]}}
"
    );
    let report = scene.run(&spec, &mut silent());
    assert_lossless(&report, "lives");
    let dies = &report.chains["dies"];
    let lost = dies.dropped["nf_died"];
    assert!((500..=500 + 2 * 64).contains(&lost), "{}", shown(&report));
    assert_eq!((dies.received, dies.transmitted, report.nfs["h"].restarts), (COUNT, COUNT - lost, 2));
}

/// At the end of an endless run, NFs let go of what they hold and it still leaves.
#[test]
fn the_end_finds_packets_held() {
    for isolation in ["process", "thread"] {
        let scene = Scene::new(HOST);
        let spec = format!(
            "
  defaults: {{isolation: {isolation}}}
  ports: {{in: {{generator: {{frame_bytes: 64, flows: 9, rate: 20kpps}}}}, out: {{sink: {{}}}}}}
  nfs: {{h: {{kind: hold, args: {{ticks: 1}}}}}}
  chains:
    - {{name: all, path: [in, h, out]}}
"
        );
        let mut held = false;
        let report = scene.run(
            &spec,
            &mut Watch(|seen: Seen<'_>| {
                if let Seen::Interval(i) = seen
                    && i.nfs[0].held > 0
                    && !held
                {
                    held = true;
                    stop();
                }
            }),
        );
        assert!(held);
        assert_lossless(&report, "all");
    }
}
