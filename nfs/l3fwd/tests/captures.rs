//! Real and malformed captures: each packet gets a verdict.

#[path = "../../../crates/packet/tests/support/mod.rs"]
mod captures;
#[path = "../../forward/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use support::Host;

#[test]
fn every_capture_is_processed() {
    let mut host = Host::new(
        &nf_l3fwd::KIND,
        serde_json::json!({
            "routes_inline": ["0.0.0.0/0 via 02:00:00:00:00:03", "64.0.0.0/2 via 02:00:00:00:00:04"],
            "flows_inline": ["udp 10.0.0.1:53 10.0.0.2:53 via 02:00:00:00:00:05"],
        }),
    );
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
