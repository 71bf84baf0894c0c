//! A key has one place, whatever the order in which those who look for it see each other's words: checked by loom, with
//! keys that begin alike, so that places change hands while they are claimed.

use super::place::{Access, Slot, Together, Words, find};
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::Ordering::Relaxed;

const SET: u64 = 1 << 63;

/// Each thread counts its keys once; afterwards each key is in one place, with all that was counted for it.
fn counted(threads: &'static [&'static [Words]]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let slots: Arc<Vec<Slot>> = Arc::new((0..3).map(|_| Slot::default()).collect());
        let count = |slots: &[Slot], keys: &[Words]| {
            let new = keys.iter().filter(|key| {
                let (slot, new) = find::<Together>(slots, 0, key, || true).expect("there is room");
                Together::add(&slot.packets, 1);
                new
            });
            new.count()
        };
        let others: Vec<_> = threads[1..]
            .iter()
            .map(|keys| {
                let slots = slots.clone();
                thread::spawn(move || count(&slots, keys))
            })
            .collect();
        let mut new = count(&slots, threads[0]);
        new += others.into_iter().map(|t| t.join().expect("no thread of the model panics")).sum::<usize>();
        let mut keys: Vec<Words> = threads.iter().flat_map(|k| k.iter().copied()).collect();
        let all = keys.clone();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(new, keys.len(), "each is new to one");
        for key in keys {
            let (slot, new) = find::<Together>(&slots, 0, &key, || false).expect("it was counted");
            let times = all.iter().filter(|k| **k == key).count() as u64;
            assert!(!new && slot.packets.load(Relaxed) == times);
        }
    });
}

const A: Words = [SET | 1, SET | 1, SET];
const B: Words = [SET | 1, SET | 2, SET];
const C: Words = [SET | 1, SET | 1, SET | 1];

#[test]
fn the_same_key() {
    counted(&[&[A], &[A]]);
}

#[test]
fn keys_that_begin_alike() {
    counted(&[&[A], &[B]]);
    counted(&[&[A, B], &[B]]);
    counted(&[&[A], &[C]]);
}

#[test]
fn who_began_goes_on_elsewhere() {
    counted(&[&[A, C], &[C, A]]);
}
