//! Real and malformed captures: each packet gets a verdict.

#[path = "../../../crates/packet/tests/support/mod.rs"]
mod captures;
#[path = "../../forward/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use support::Host;

#[test]
fn every_capture_is_processed() {
    play(
        serde_json::json!({"rules_inline": ["deny tcp from any to any port 23", "allow udp from 10.0.0.0/8 to any port 53"]}),
    );
}

#[test]
fn every_capture_is_tracked() {
    // Small, so that connections are evicted as well.
    let stateful = serde_json::json!({"connections": 4096, "connections6": 1024});
    let outcomes = play(serde_json::json!({"default": "allow", "stateful": stateful}));
    // All may begin connections, so what is dropped did not fit one.
    for reason in outcomes.keys() {
        assert!(["next", "malformed", "invalid_state", "fragment"].contains(&reason.as_str()), "{reason}");
    }
}

fn play(args: serde_json::Value) -> BTreeMap<String, usize> {
    let mut host = Host::new(&nf_firewall::KIND, args);
    let (mut seen, mut outcomes) = (0, BTreeMap::<String, usize>::new());
    let there = captures::captures(&mut |mut frames| {
        // Longer ones cannot be received: a buffer holds 9,018 bytes.
        frames.retain(|f| f.len() <= 9018);
        seen += frames.len();
        for verdict in host.play(0, &mut frames) {
            *outcomes.entry(verdict.to_owned()).or_default() += 1;
        }
    });
    if there {
        println!("{seen} packets: {outcomes:?}");
        assert_eq!(outcomes.values().sum::<usize>(), seen);
        assert!(outcomes["next"] > 0);
    }
    outcomes
}
