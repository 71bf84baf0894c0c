//! Work on a burst allocates nothing, whatever the packets are.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use support::{Host, hostile_frames, ipv4, l4};

#[test]
fn a_burst_allocates_nothing() {
    let mut host = Host::new(
        &nf_lb::KIND,
        serde_json::json!({"services": "tests/golden/lb.services", "flows": 4096, "flows6": 4096}),
    );
    let mut runner = TestRunner::deterministic();
    let right: Vec<_> = (0..256).map(|i| ipv4(0x0a00_0000 + i, 0xc000_020a, 17, 9, &l4(17, 1000, 53))).collect();
    let hostile = || hostile_frames().new_tree(&mut runner).unwrap().current();
    for mut frames in std::iter::once(right).chain(std::iter::repeat_with(hostile).take(50)) {
        let mut allocations = 0;
        host.play_in(0, &mut frames, &mut |process| allocations += allocation_counter::measure(process).count_total);
        assert_eq!(allocations, 0);
    }
}
