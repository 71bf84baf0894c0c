//! Work on a burst allocates nothing, whatever the packets are.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod frames;
mod support;

use frames::{hostile_frames, ipv4, l4};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use support::Host;

#[test]
fn a_burst_allocates_nothing() {
    play(serde_json::json!({"hosts": 65536}));
    // Few places, so that all that happens when there is none left happens.
    play(serde_json::json!({
        "heavy_hitters": {"share": 0.5, "of": "flow"},
        "flow_records": {"ipfix": "a", "json": "b", "flows": 100, "active_s": 1},
    }));
}

fn play(args: serde_json::Value) {
    let mut host = Host::new(args);
    let mut runner = TestRunner::deterministic();
    let right: Vec<_> = (0..256).map(|i| ipv4(0x0a00_0000 + i, 0x4000_0001, 17, 9, &l4(17, 1, 53))).collect();
    let hostile = || hostile_frames().new_tree(&mut runner).unwrap().current();
    for (s, mut frames) in std::iter::once(right).chain(std::iter::repeat_with(hostile).take(50)).enumerate() {
        let mut allocations = 0;
        host.play_in(s as u64 * 1_000_000_000, &mut frames, &mut |process| {
            allocations += allocation_counter::measure(process).count_total
        });
        assert_eq!(allocations, 0);
    }
}
