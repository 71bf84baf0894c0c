//! Look-ups, insertions, evictions and sweeps allocate nothing.

#![allow(clippy::unwrap_used)]

use chainline_flowtable::{Class, Config, FlowTable, Keys, OnFull};

#[test]
fn nothing_is_allocated_but_at_the_start() {
    for on_full in [OnFull::DropNew, OnFull::EvictOldest, OnFull::Bypass] {
        let config = Config { capacity: 1000, timeouts_ms: &[1000], on_full };
        let mut table = FlowTable::<16, u64>::new(&config).unwrap();
        let mut keys = Keys::new();
        let (mut found, mut full) = (0, 0);
        let info = allocation_counter::measure(|| {
            for n in 0..200u64 {
                keys.clear();
                // Half of each burst is of the burst before.
                (0..32).for_each(|i| keys.push(i as usize, u128::from(n * 16 + i).to_le_bytes()));
                table.look_up(&mut keys, n * 1_000_000);
                for i in 0..keys.len() {
                    if table.get(&keys, i).is_some() {
                        found += 1;
                    } else {
                        table.insert(keys.key(i), Class(0), n, |_, _| {});
                    }
                }
            }
            full = table.len();
            table.sweep(10_000_000_000, |_, _| {});
        });
        assert_eq!(info.count_total, 0, "{on_full:?}");
        assert!(found >= 900 && full == 1000 && table.is_empty(), "{found} {full}");
    }
}
