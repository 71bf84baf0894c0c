//! Work on a burst allocates nothing, whatever the packets are, and neither does what is done about files.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod frames;
mod support;

use chainline_storage::Choice;
use frames::hostile_frames;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use support::{Dir, Host};

#[test]
fn a_burst_allocates_nothing() {
    for (sync, choice) in [("none", Choice::Auto), ("hold", Choice::Auto), ("hold", Choice::Thread)] {
        let dir = Dir::new();
        let args = serde_json::json!({"file": "log.pcapng", "sync": sync, "snaplen": 64, "batch_bytes": 4096,
            "match": {"net": "0.0.0.0/0"}});
        let mut host = Host::new(&dir.0, args, choice);
        let mut runner = TestRunner::deterministic();
        for _ in 0..50 {
            let mut frames = hostile_frames().new_tree(&mut runner).unwrap().current();
            let mut allocations = 0;
            host.play_in(&mut frames, &mut |f| allocations += allocation_counter::measure(f).count_total);
            assert_eq!(allocations, 0, "{sync}");
        }
        host.drain();
        assert!(host.counter("packets_logged") > 100, "{sync}: {}", host.counter("packets_logged"));
    }
}
