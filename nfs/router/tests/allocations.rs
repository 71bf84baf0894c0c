//! Work on a burst allocates nothing, whatever the packets are.

#![allow(clippy::unwrap_used)]

mod frames;
#[path = "../../forward/tests/support/mod.rs"]
mod support;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use support::{hostile_frames, ipv4, l4};

#[test]
fn a_burst_allocates_nothing() {
    let mut host = frames::router();
    let mut runner = TestRunner::deterministic();
    let right: Vec<_> = (0..256).map(|i| ipv4(0x0a00_0002, 0x0a01_0000 + i, 17, 9, &l4(17, 1, 53))).collect();
    let answered: Vec<_> = frames::answered().into_iter().cycle().take(256).collect();
    let mut hostile = || hostile_frames().new_tree(&mut runner).unwrap().current();
    let hostile: Vec<_> = (0..50).map(|_| hostile()).collect();
    for mut frames in [right, answered].into_iter().chain(hostile) {
        let mut allocations = 0;
        host.play_in(0, &mut frames, &mut |process| allocations += allocation_counter::measure(process).count_total);
        assert_eq!(allocations, 0);
    }
    assert!(host.counter("forwarded") > 0 && host.counter("icmp_time_exceeded") > 0 && host.counter("nd_replies") > 0);
}
