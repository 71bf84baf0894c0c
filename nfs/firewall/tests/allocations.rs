//! Work on a burst allocates nothing, whatever the packets are.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use support::{Host, hostile_frames, ipv4, l4};

#[test]
fn a_burst_allocates_nothing() {
    let rules =
        ["deny tcp from any to any port 23", "allow udp from 10.0.0.0/8 to any port 53", "allow from 0.0.0.0/1"];
    play(serde_json::json!({"rules_inline": rules}));
    play(serde_json::json!({"rules_inline": rules, "stateful": {"connections": 100, "connections6": 100}}));
    play(serde_json::json!({"rules_inline": rules, "stateful": {"invalid": "match", "on_full": "drop_new"}}));
}

fn play(args: serde_json::Value) {
    let mut host = Host::new(&nf_firewall::KIND, args);
    let mut runner = TestRunner::deterministic();
    let right: Vec<_> = (0..256).map(|i| ipv4(0x0a00_0000 + i, 0x4000_0001, 17, 9, &l4(17, 1, 53))).collect();
    let hostile = || hostile_frames().new_tree(&mut runner).unwrap().current();
    for mut frames in std::iter::once(right).chain(std::iter::repeat_with(hostile).take(50)) {
        let mut allocations = 0;
        host.play_in(0, &mut frames, &mut |process| allocations += allocation_counter::measure(process).count_total);
        assert_eq!(allocations, 0);
    }
}
