use super::{Counts, Shape};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

fn key(n: u64) -> [u8; 16] {
    (u128::from(n) | 0xffff << 32).to_be_bytes()
}

fn handle(of: &Counts, replica: usize) -> Counts {
    Counts::open(of.mapping().dup_fd().unwrap(), of.shape(), of.mapping().pages(), replica).unwrap()
}

fn all(table: &Counts) -> HashMap<[u8; 16], (u64, u64)> {
    let mut found = HashMap::new();
    table.for_each(|key, packets, bytes| assert!(found.insert(key, (packets, bytes)).is_none(), "{key:?} twice"));
    found
}

#[test]
fn keys_come_back_whole() {
    for locked in [false, true] {
        let mut table = Counts::create(Shape::new(100, locked)).unwrap();
        let keys = [[0; 16], [0xff; 16], key(1), key(0xffff_ffff), [1; 16], 1u128.rotate_right(1).to_be_bytes()];
        let counted = table.count(&keys, &[10, 20, 30, 40, 50, 60]);
        assert_eq!((counted.added, counted.refused, table.len()), (6, 0, 6));
        let found = all(&table);
        assert_eq!(found.len(), 6);
        assert!(keys.iter().zip([10, 20, 30, 40, 50, 60]).all(|(k, bytes)| found[k] == (1, bytes)));
    }
}

/// Several count at once in handles of their own, keys that come again and new ones: nothing is lost, nothing counted twice.
#[test]
fn counts_are_exact() {
    const EACH: u64 = 60_000;
    for (locked, entries, keys) in [(false, 5000, 5000), (true, 5000, 5000), (false, 64, 50), (true, 64, 50)] {
        let table = Counts::create(Shape::new(entries, locked)).unwrap();
        std::thread::scope(|scope| {
            for replica in 0..4 {
                let mut own = handle(&table, replica);
                scope.spawn(move || {
                    let mut n = replica as u64;
                    for _ in 0..EACH / 30 {
                        let burst: Vec<[u8; 16]> = (0..30)
                            .map(|_| {
                                n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                                // Half of the keys differ in their last words alone.
                                let i = (n >> 33) % keys;
                                if i.is_multiple_of(2) { key(i) } else { (u128::from(i) << 64).to_be_bytes() }
                            })
                            .collect();
                        assert_eq!(own.count(&burst, &[100; 30]).refused, 0);
                    }
                });
            }
        });
        let found = all(&table);
        let sum = found.values().fold((0, 0), |(p, b), (packets, bytes)| (p + packets, b + bytes));
        assert_eq!(sum, (4 * EACH, 400 * EACH), "{locked} {entries}");
        assert_eq!((found.len() as u64, table.len()), (keys, keys));
    }
}

#[test]
fn what_finds_no_room_is_told() {
    for locked in [false, true] {
        let mut table = Counts::create(Shape::new(10, locked)).unwrap();
        let keys: Vec<_> = (0..30).map(key).collect();
        let counted = table.count(&keys, &[7; 30]);
        assert_eq!((counted.added, counted.refused, counted.refused_bytes), (10, 20, 140));
        // Those that are there are still counted.
        assert_eq!(table.count(&keys[..10], &[7; 10]).refused, 0);
        assert_eq!(all(&table).values().map(|v| v.0).sum::<u64>(), 20);
    }
}

/// Whoever holds the lock dies. The others wait until somebody who knows says so, and go on.
#[test]
fn the_lock_outlives_its_holder() {
    let table = Counts::create(Shape::new(100, true)).unwrap();
    handle(&table, 0).hold_for_ever();
    let waiting = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others: Vec<_> = [1, 2]
            .map(|replica| {
                let (mut own, waiting) = (handle(&table, replica), &waiting);
                scope.spawn(move || {
                    waiting.store(true, Ordering::Release);
                    own.count(&[key(1)], &[60])
                })
            })
            .into();
        while !waiting.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        assert!(!table.release_for(1), "that one does not have it");
        assert!(table.release_for(0));
        let counted: Vec<_> = others.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(counted.iter().all(|c| c.refused == 0), "{counted:?}");
    });
    assert_eq!(all(&table)[&key(1)], (2, 120));
    assert!(!table.release_for(1) && !table.release_for(2), "it is free");
}

/// Nobody says so, or the holder merely stands still: the burst is told as refused after a while, and so the next.
#[test]
fn nobody_waits_for_ever() {
    let table = Counts::create(Shape::new(100, true)).unwrap();
    handle(&table, 0).hold_for_ever();
    let began = Instant::now();
    let counted = handle(&table, 1).count(&[key(1), key(2)], &[60, 40]);
    assert_eq!((counted.added, counted.refused, counted.refused_bytes), (0, 2, 100));
    assert!(began.elapsed() >= super::lock::PATIENCE);
}

/// Whatever others write into the memory, looks stay within it and end.
#[test]
fn any_bytes_are_a_table() {
    for (locked, fill) in [(false, u64::MAX), (true, u64::MAX), (false, 1), (false, 1 << 63)] {
        let table = Counts::create(Shape::new(100, locked)).unwrap();
        let words = table.mapping().len() / 8;
        let all: &[std::sync::atomic::AtomicU64] = table.mapping().atomic_slice(0, words).unwrap();
        all.iter().for_each(|w| w.store(fill, Ordering::Relaxed));
        let mut own = handle(&table, 1);
        let keys: Vec<_> = (0..8).map(key).collect();
        assert_eq!(own.count(&keys, &[1; 8]).refused, 8, "{locked} {fill:x}");
        own.for_each(|_, _, _| {});
        assert!(own.len() <= 150);
    }
    let table = Counts::create(Shape::new(100, false)).unwrap();
    let larger = Shape { entries: 1 << 20, ..table.shape() };
    assert!(Counts::open(table.mapping().dup_fd().unwrap(), larger, table.mapping().pages(), 0).is_err());
    for entries in [0, u32::MAX] {
        assert!(Counts::create(Shape { entries, ..table.shape() }).is_err());
    }
}
