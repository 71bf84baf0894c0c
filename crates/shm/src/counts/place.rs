//! Where a key is in the table: places are claimed word by word and never given back.
//!
//! A key is three words, none of which is 0. Whoever wants a place sets its words in order, each from 0 and by one
//! instruction. Who finds the first words to be its own and the next one 0 goes on with it *for its own key*, whoever
//! began: so nobody waits for anybody, and who dies in between leaves a place that the next key with the same beginning
//! takes. A word that is set stays. So "this place is not mine" stays true as well, all who look for a key pass by the
//! same places, and they end at the same one: a key has one place.

use crate::sync::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Set in each word of a key, so that none is 0.
const SET: u64 = 1 << 63;
const BITS: u32 = 63;

/// A key in words. The first has the lowest bits, in which addresses differ most.
pub(crate) type Words = [u64; 3];

/// A key as words.
#[inline]
pub(crate) fn words(key: [u8; 16]) -> Words {
    let key = u128::from_be_bytes(key);
    [key as u64 | SET, (key >> BITS) as u64 | SET, (key >> (2 * BITS)) as u64 | SET]
}

/// The key of words; none if one of them is not set.
pub(crate) fn key_of(words: Words) -> Option<[u8; 16]> {
    let [low, middle, high] = words.map(|w| u128::from(w & !SET));
    let key = low | middle << BITS | high << (2 * BITS);
    words.iter().all(|w| w & SET != 0).then(|| key.to_be_bytes())
}

/// A place: one cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    key: [AtomicU64; 3],
    pub packets: AtomicU64,
    pub bytes: AtomicU64,
}

/// How words are changed.
pub(crate) trait Access {
    /// Sets a word that was 0 a moment ago; else what is there now.
    fn set(word: &AtomicU64, value: u64) -> Result<(), u64>;
    /// Adds to a word.
    fn add(word: &AtomicU64, n: u64);
}

/// While others do the same.
pub(crate) struct Together;

impl Access for Together {
    #[inline]
    fn set(word: &AtomicU64, value: u64) -> Result<(), u64> {
        word.compare_exchange(0, value, AcqRel, Acquire).map(|_| ())
    }
    #[inline]
    fn add(word: &AtomicU64, n: u64) {
        word.fetch_add(n, Relaxed);
    }
}

/// Under a lock.
pub(crate) struct Alone;

impl Access for Alone {
    #[inline]
    fn set(word: &AtomicU64, value: u64) -> Result<(), u64> {
        word.store(value, Relaxed);
        Ok(())
    }
    #[inline]
    fn add(word: &AtomicU64, n: u64) {
        word.store(word.load(Relaxed).wrapping_add(n), Relaxed);
    }
}

/// What a place is for a key.
pub(crate) enum Is {
    /// Its own.
    Own {
        /// It became that now.
        new: bool,
    },
    /// Another's, for ever.
    Others,
    /// Nobody's, and not to be taken.
    Free,
}

impl Slot {
    /// What this place is for a key, which takes it if it is free and `room` says that there is room.
    #[inline]
    pub fn look<A: Access>(&self, key: &Words, room: impl Fn() -> bool) -> Is {
        let mut new = false;
        for (word, own) in self.key.iter().zip(key) {
            let mut found = word.load(Acquire);
            new = false;
            if found == 0 {
                if !room() {
                    return Is::Free;
                }
                match A::set(word, *own) {
                    Ok(()) => (found, new) = (*own, true),
                    Err(other) => found = other,
                }
            }
            if found != *own {
                return Is::Others;
            }
        }
        Is::Own { new }
    }

    /// The key, if the place is somebody's.
    pub fn key(&self) -> Option<[u8; 16]> {
        key_of([self.key[0].load(Acquire), self.key[1].load(Acquire), self.key[2].load(Acquire)])
    }
}

/// Places that are looked at for a key at most. With a third of the places empty, runs are far shorter.
pub(crate) const PROBES: usize = 512;

/// The place of a key, and whether it is new; none if there is no room. `home` is where to begin.
#[inline]
pub(crate) fn find<'a, A: Access>(
    slots: &'a [Slot],
    home: usize,
    key: &Words,
    room: impl Fn() -> bool,
) -> Option<(&'a Slot, bool)> {
    let mut at = home;
    for _ in 0..PROBES.min(slots.len()) {
        let slot = slots.get(at)?;
        match slot.look::<A>(key, &room) {
            Is::Own { new } => return Some((slot, new)),
            Is::Free => return None,
            Is::Others => {}
        }
        at = if at + 1 < slots.len() { at + 1 } else { 0 };
    }
    None
}
