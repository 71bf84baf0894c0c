//! Real and malformed captures: each packet gets a verdict.

#[path = "../../../crates/packet/tests/support/mod.rs"]
mod captures;
#[path = "../../forward/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use support::Host;

#[test]
fn every_capture_is_processed() {
    let mut host = Host::new(&nf_monitor::KIND, serde_json::json!({"hosts": 65536}));
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
}
