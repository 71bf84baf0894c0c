//! Work on a burst allocates nothing, whatever the packets are.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use support::{Host, hostile_frames, ipv4, l4};

#[test]
fn a_burst_allocates_nothing() {
    // Half of all addresses inside, so that random ones go both ways.
    let args = serde_json::json!({"inside": ["0.0.0.0/1"], "pool": ["192.0.2.0/28"], "flows": 4096,
        "subscribers": 4096, "filter": "address_dependent", "port_reuse": "exhausted"});
    let mut host = Host::new(&nf_nat::KIND, args);
    let mut runner = TestRunner::deterministic();
    let right: Vec<_> = (0..256).map(|i| ipv4(0x0a00_0000 + i, 0xc633_6401, 17, 9, &l4(17, 1000, 53))).collect();
    let hostile = || hostile_frames().new_tree(&mut runner).unwrap().current();
    for mut frames in std::iter::once(right).chain(std::iter::repeat_with(hostile).take(50)) {
        let mut allocations = 0;
        host.play_in(0, &mut frames, &mut |process| allocations += allocation_counter::measure(process).count_total);
        assert_eq!(allocations, 0);
    }
    assert!(host.counter("flows_added") > 256);
}
