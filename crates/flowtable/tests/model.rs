//! A map as oracle, bursts against single packets, and what the policies promise under floods.

#![allow(clippy::unwrap_used)]

use chainline_flowtable::{Class, Config, FlowTable, Inserted, Keys, MAX_TIMEOUT_MS, NEVER, OnFull, Stats};
use proptest::prelude::*;
use std::collections::HashMap;

const MS: u64 = 1_000_000;
/// Entries last at most two of the tables' units of time too long: in milliseconds, rounded up.
const UNIT_MS: u64 = 3;
const TIMEOUTS: [u64; 3] = [100, 1000, NEVER];

#[derive(Clone, Debug)]
enum Op {
    /// Packets of these flows in one burst; those without an entry want one of this class.
    Burst(Vec<u8>, u8),
    Remove(u8),
    Class(u8, u8),
    Wait(u64),
    Sweep,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (prop::collection::vec(0u8..80, 1..40), 0u8..3).prop_map(|(k, c)| Op::Burst(k, c)),
        1 => (0u8..80).prop_map(Op::Remove),
        1 => (0u8..80, 0u8..3).prop_map(|(k, c)| Op::Class(k, c)),
        2 => (0u64..400).prop_map(Op::Wait),
        2 => Just(Op::Sweep),
    ]
}

/// Key 0 is all zeros, which `rte_hash` takes for an empty place unless it is helped.
fn key<const N: usize>(k: u8) -> [u8; N] {
    let mut key = [0; N];
    key[usize::from(k) % N] = k;
    key
}

#[derive(Debug)]
struct Entry {
    value: u64,
    class: u8,
    last_ms: u64,
}

/// Plays operations on the table and on a map, and compares after each.
fn play<const N: usize>(capacity: u32, on_full: OnFull, ops: &[Op]) -> Result<(), TestCaseError> {
    let config = Config { capacity, timeouts_ms: &TIMEOUTS, on_full };
    let mut table = FlowTable::<N, u64>::new(&config).unwrap();
    let (mut keys, mut now_ms, mut value) = (Keys::new(), 5u64, 0);
    let mut model: HashMap<[u8; N], Entry> = HashMap::new();
    let mut sums = Stats::default();
    let over = |e: &Entry, now: u64| TIMEOUTS[usize::from(e.class)].saturating_add(e.last_ms) <= now;
    for op in ops {
        match op {
            Op::Burst(burst, class) => {
                keys.clear();
                burst.iter().enumerate().for_each(|(at, k)| keys.push(at, key(*k)));
                table.look_up(&mut keys, now_ms * MS);
                for i in 0..keys.len() {
                    prop_assert_eq!(keys.at(i), i);
                    let k = *keys.key(i);
                    if let Some((at, found)) = table.get(&keys, i) {
                        let known = model.get_mut(&k);
                        prop_assert_eq!(known.as_ref().map(|e| e.value), Some(*found));
                        known.unwrap().last_ms = now_ms;
                        prop_assert_eq!(table.key_at(at), Some(k));
                        continue;
                    }
                    prop_assert!(!model.contains_key(&k));
                    value += 1;
                    let full = model.len() >= capacity as usize;
                    let mut gone = Vec::new();
                    let inserted = table.insert(&k, Class(*class), value, |k, e| gone.push((*k, *e)));
                    for (k, v) in gone {
                        let ended = model.remove(&k).unwrap();
                        prop_assert!(full && ended.value == v);
                        // Within the table's units of time it may be over or not.
                        let surely = over(&ended, now_ms.saturating_sub(UNIT_MS));
                        match over(&ended, now_ms) && (surely || table.stats().expired > sums.expired) {
                            true => sums.expired += 1,
                            false => {
                                prop_assert_eq!(on_full, OnFull::EvictOldest);
                                sums.evicted += 1;
                            }
                        }
                    }
                    match inserted {
                        Inserted::New(at) => {
                            prop_assert_eq!(table.entry(at), Some(&value));
                            model.insert(k, Entry { value, class: *class, last_ms: now_ms });
                            sums.added += 1;
                        }
                        Inserted::Full => {
                            prop_assert!(full && on_full != OnFull::EvictOldest);
                            sums.refused += 1;
                        }
                        Inserted::There(_) => prop_assert!(false, "the model does not have it"),
                    }
                }
            }
            Op::Remove(k) => {
                let removed = table.find_one(&key(*k)).and_then(|at| table.remove(at));
                let known = model.remove(&key::<N>(*k));
                prop_assert_eq!(removed, known.map(|e| (key(*k), e.value)));
                sums.removed += u64::from(removed.is_some());
            }
            Op::Class(k, class) => {
                table.advance(now_ms * MS);
                if let Some(at) = table.find_one(&key(*k)) {
                    table.set_class(at, Class(*class));
                    prop_assert_eq!(table.class(at), Some(Class(*class)));
                    let known = model.get_mut(&key::<N>(*k)).unwrap();
                    (known.class, known.last_ms) = (*class, now_ms);
                }
            }
            Op::Wait(ms) => now_ms += ms,
            Op::Sweep => {
                let mut gone = Vec::new();
                table.sweep(now_ms * MS, |k, e| gone.push((*k, *e)));
                for (k, v) in gone {
                    let ended = model.remove(&k).unwrap();
                    prop_assert!(ended.value == v && over(&ended, now_ms), "{ended:?} at {now_ms}");
                    sums.expired += 1;
                }
                // The table is small enough to be gone through at once.
                for e in model.values() {
                    prop_assert!(!over(e, now_ms.saturating_sub(UNIT_MS)), "{e:?} at {now_ms}");
                }
            }
        }
        sums.len = model.len() as u64;
        prop_assert_eq!(table.stats(), sums);
        prop_assert_eq!(sums.added, sums.len + sums.removed + sums.expired + sums.evicted);
        let there: HashMap<_, _> = table.iter().map(|(_, k, e)| (k, *e)).collect();
        prop_assert_eq!(there, model.iter().map(|(k, e)| (*k, e.value)).collect::<HashMap<_, _>>());
        let mut values: Vec<u64> = table.entries_mut().map(|e| *e).collect();
        let mut known: Vec<u64> = model.values().map(|e| e.value).collect();
        values.sort_unstable();
        known.sort_unstable();
        prop_assert_eq!(values, known);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_a_map(capacity in 1u32..90, policy in 0usize..3, ops in prop::collection::vec(op(), 1..60)) {
        let on_full = [OnFull::DropNew, OnFull::EvictOldest, OnFull::Bypass][policy];
        play::<16>(capacity, on_full, &ops)?;
        play::<48>(capacity, on_full, &ops)?;
        play::<13>(capacity, on_full, &ops)?;
    }
}

fn flow(i: u32) -> [u8; 16] {
    u128::from(i).to_le_bytes()
}

/// One packet of each flow, in bursts of 32, at one time.
fn packets(table: &mut FlowTable<16, u32>, now_ms: u64, flows: impl Iterator<Item = u32>, class: Class) {
    let mut keys = Keys::new();
    let flows: Vec<u32> = flows.collect();
    for burst in flows.chunks(32) {
        keys.clear();
        burst.iter().enumerate().for_each(|(at, f)| keys.push(at, flow(*f)));
        table.look_up(&mut keys, now_ms * MS);
        for (i, f) in burst.iter().enumerate() {
            match table.get(&keys, i) {
                Some((_, entry)) => assert_eq!(entry, f),
                None => drop(table.insert(keys.key(i), class, *f, |_, _| {})),
            }
        }
    }
}

const OPENING: Class = Class(0);
const ESTABLISHED: Class = Class(1);

#[test]
fn a_flood_does_not_evict_established_flows() {
    let config = Config { capacity: 65_536, timeouts_ms: &[10_000, 900_000], on_full: OnFull::EvictOldest };
    let mut table = FlowTable::new(&config).unwrap();
    packets(&mut table, 0, 0..1000, ESTABLISHED);
    // A million sources in ten seconds, and no packet of the old flows meanwhile.
    for ms in 0..10_000u32 {
        packets(&mut table, ms.into(), (0..100).map(|i| 1_000_000 + ms * 100 + i), OPENING);
        if ms % 10 == 0 {
            table.sweep(u64::from(ms) * MS, |_, f| assert!(*f >= 1_000_000));
        }
    }
    assert!((0..1000).all(|f| table.find_one(&flow(f)).is_some()));
    let stats = table.stats();
    assert_eq!((stats.len, stats.added, stats.refused, stats.expired), (65_536, 1_001_000, 0, 0));
    assert_eq!(stats.evicted, 1_001_000 - 65_536);
}

#[test]
fn a_flood_is_refused_by_the_other_policies() {
    for on_full in [OnFull::DropNew, OnFull::Bypass] {
        let config = Config { capacity: 4096, timeouts_ms: &[10_000, 900_000], on_full };
        let mut table = FlowTable::new(&config).unwrap();
        packets(&mut table, 0, 0..1000, ESTABLISHED);
        packets(&mut table, 1, (0..100_000).map(|i| 1_000_000 + i), OPENING);
        let stats = table.stats();
        assert_eq!((stats.len, stats.refused, stats.evicted), (4096, 100_000 - 3096, 0));
        // What is over makes room without a sweep; the established ones stay.
        packets(&mut table, 12_000, (0..3096).map(|i| 2_000_000 + i), OPENING);
        let stats = table.stats();
        assert!((0..1000).all(|f| table.find_one(&flow(f)).is_some()));
        assert!(stats.expired >= 2000 && stats.evicted == 0, "{stats:?}");
        assert_eq!(stats.len, 4096);
    }
}

#[test]
fn of_one_class_those_go_that_were_idle_longest() {
    let config = Config { capacity: 1024, timeouts_ms: &[60_000], on_full: OnFull::EvictOldest };
    let mut table = FlowTable::new(&config).unwrap();
    packets(&mut table, 0, 0..1024, Class(0));
    packets(&mut table, 1000, 0..256, Class(0));
    packets(&mut table, 2000, 5000..5128, Class(0));
    assert_eq!(table.stats().evicted, 128);
    assert!((0..256).chain(5000..5128).all(|f| table.find_one(&flow(f)).is_some()));
}

#[test]
fn a_large_table_is_gone_round_in_its_time() {
    let config = Config { capacity: 1_000_000, timeouts_ms: &[4000], on_full: OnFull::DropNew };
    let mut table = FlowTable::new(&config).unwrap();
    packets(&mut table, 0, 0..200_000, Class(0));
    // A round takes a second, and somewhat more where many ends lie together: a tick does not do more than 4,096.
    let mut most = 0;
    for ms in (0..5500).step_by(10) {
        let mut ends = 0;
        table.sweep(ms * MS, |_, _| ends += 1);
        assert!(ends == 0 || ms >= 4000);
        most = most.max(ends);
    }
    assert_eq!((table.len(), table.stats().expired), (0, 200_000));
    assert_eq!(most, 4096);
}

#[test]
fn time_wraps_and_never_is_never() {
    let config = Config { capacity: 100, timeouts_ms: &[MAX_TIMEOUT_MS, NEVER], on_full: OnFull::DropNew };
    let mut table = FlowTable::new(&config).unwrap();
    // 52 days are 2^32 units; a flow with a packet a day stays, and so does one that never ends.
    let day = 24 * 3600 * 1000;
    packets(&mut table, 0, 0..10, Class(0));
    packets(&mut table, 0, 10..20, Class(1));
    for d in 0..120 {
        packets(&mut table, d * day, 0..10, Class(0));
        table.sweep(d * day * MS, |_, f| panic!("{f} ended on day {d}"));
    }
    for d in 120..140 {
        table.sweep(d * day * MS, |_, f| assert!(*f < 10 && d > 119 + 10));
    }
    assert_eq!(table.len(), 10);
}

#[test]
fn wrong_sizes_are_refused() {
    let with = |capacity, timeouts_ms: &[u64]| {
        let config = Config { capacity, timeouts_ms, on_full: OnFull::DropNew };
        FlowTable::<16, u8>::new(&config).unwrap_err().to_string()
    };
    assert_eq!(with(0, &[1]), "a table of 0 entries, expected 1 to 67108864");
    assert_eq!(with(1, &[]), "0 time-outs, expected 1 to 16");
    assert_eq!(with(1, &[0]), "a time-out of 0 ms, expected 1 to 1000000000");
    assert!(with(u32::MAX, &[1]).contains("expected"));
}
