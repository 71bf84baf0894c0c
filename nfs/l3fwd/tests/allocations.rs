//! Work on a burst allocates nothing, whatever the packets are.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use support::{Host, hostile_frames, ipv4, l4};

#[test]
fn a_burst_allocates_nothing() {
    let routes = ["0.0.0.0/0 via 02:00:00:00:00:03", "64.0.0.0/2 via 02:00:00:00:00:04"];
    let flows = ["udp 10.0.0.1:1 64.0.0.1:53 via 02:00:00:00:00:05", "udp [::1]:1 [::2]:53 via 02:00:00:00:00:05"];
    play(serde_json::json!({"routes_inline": routes}));
    play(serde_json::json!({"routes_inline": routes, "flows_inline": flows}));
}

fn play(args: serde_json::Value) {
    let mut host = Host::new(&nf_l3fwd::KIND, args);
    let mut runner = TestRunner::deterministic();
    let right: Vec<_> = (0..256).map(|i| ipv4(0x0a00_0000 + i, 0x4000_0001, 17, 9, &l4(17, 1, 53))).collect();
    let hostile = || hostile_frames().new_tree(&mut runner).unwrap().current();
    for mut frames in std::iter::once(right).chain(std::iter::repeat_with(hostile).take(50)) {
        let mut allocations = 0;
        host.play_in(0, &mut frames, &mut |process| allocations += allocation_counter::measure(process).count_total);
        assert_eq!(allocations, 0);
    }
}
