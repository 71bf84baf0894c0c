//! Work on a burst allocates nothing, whatever the packets are.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::json;
use support::{Host, hostile_frames, ipv4, l4};

#[test]
fn a_burst_allocates_nothing() {
    let meter = json!({"trtcm": {"cir_bytes_s": 1000, "cbs_bytes": 1500, "pir_bytes_s": 2000, "pbs_bytes": 1500}});
    let classes = json!([
        {"name": "flows", "match": {"proto": "udp"}, "per": "flow", "aware": {}, "meter": meter, "yellow": {"dscp": 12}},
        {"name": "slow", "match": {"src": "2001:db8::/32"}, "shaper": {"rate_bytes_s": 1000, "burst_bytes": 1500}},
        {"name": "rest", "meter": meter},
    ]);
    // Few places, so that flows displace each other.
    let mut host = Host::new(&nf_policer::KIND, json!({"classes": classes, "flows": 100, "flows6": 100}));
    let mut runner = TestRunner::deterministic();
    let right: Vec<_> = (0..256).map(|i| ipv4(0x0a00_0000 + i, 0xc000_020a, 17, 9, &l4(17, 1000, 53))).collect();
    let hostile = || hostile_frames().new_tree(&mut runner).unwrap().current();
    for (n, mut frames) in std::iter::once(right).chain(std::iter::repeat_with(hostile).take(50)).enumerate() {
        let mut allocations = 0;
        let now_ns = n as u64 * 10_000_000;
        host.play_in(now_ns, &mut frames, &mut |process| {
            allocations += allocation_counter::measure(process).count_total;
        });
        assert_eq!(allocations, 0);
        assert_eq!(allocation_counter::measure(|| host.tick(now_ns)).count_total, 0);
    }
    assert!(host.counter("flows_evicted") > 0);
}
