//! Packets and bytes by key in shared memory, counted by several processes at once: the state that replicas of an NF have
//! together.
//!
//! A table of fixed size with open addressing; `place.rs` says how places are found. Counts are exact: with a lock because
//! one counts at a time, without one because each addition is one instruction. Who dies in a burst has counted a part of
//! it, at worst a packet without its bytes.
//!
//! What others write here decides which place a key finds and what is counted there, and nothing else: indexes come from
//! the reader's own numbers, and a place is looked at within bounds whatever is in it.
//!
//! Deliberately absent: taking entries out. Who counts in a place would have to be known to everybody who empties it.

#[cfg(not(loom))]
mod lock;
#[cfg(all(test, loom))]
mod model;
#[cfg_attr(loom, allow(dead_code))]
mod place;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(not(loom))]
pub use table::{Counted, Counts, Shape};

#[cfg(not(loom))]
mod table {
    use super::lock::Lock;
    use super::place::{Access, Alone, Slot, Together, Words, find, words};
    use crate::mapping::{Atomics, MapError, Mapping, PageKind};
    use crate::prefetch;
    use serde::{Deserialize, Serialize};
    use std::os::fd::OwnedFd;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::atomic::{AtomicU32, AtomicU64};

    /// Keys that are looked for together.
    const AT_ONCE: usize = 64;
    /// The most entries.
    const MOST: u32 = 1 << 24;

    /// What a table is like; all who open one must be told the same.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Shape {
        /// Entries that it holds: a few more at times, as several may add the last one at once.
        pub entries: u32,
        /// Whether a lock is taken for each burst.
        pub locked: bool,
        /// A secret by which keys are spread, so that strangers cannot choose keys that collide. Not in the table's memory.
        pub seed: [u64; 2],
    }

    impl Shape {
        /// With a secret of its own.
        #[must_use]
        pub fn new(entries: u32, locked: bool) -> Self {
            use std::hash::{BuildHasher, RandomState};
            let seed = [(); 2].map(|()| RandomState::new().hash_one(entries));
            Self { entries, locked, seed }
        }

        /// Half as many places again, so that runs of taken ones stay short.
        fn slots(&self) -> usize {
            (self.entries as usize + self.entries as usize / 2).max(64)
        }

        fn check(&self) -> Result<usize, MapError> {
            if !(1..=MOST).contains(&self.entries) {
                return Err(MapError::Foreign("a table of an impossible size"));
            }
            Ok(size_of::<Header>() + self.slots() * size_of::<Slot>())
        }
    }

    /// What stands before the places.
    #[repr(C, align(128))]
    struct Header {
        lock: OwnLine<AtomicU32>,
        entries: OwnLine<AtomicU64>,
    }

    #[repr(C, align(128))]
    struct OwnLine<T>(T);

    const _: () = assert!(size_of::<Header>() == 256 && size_of::<Slot>() == 64);

    // SAFETY: atomics and padding only.
    unsafe impl Atomics for Header {}
    // SAFETY: atomics and padding only.
    unsafe impl Atomics for Slot {}

    /// What became of keys.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counted {
        /// New entries.
        pub added: u64,
        /// Packets that found no room, or did not get the lock.
        pub refused: u64,
        /// Their bytes.
        pub refused_bytes: u64,
    }

    /// The table, as one of those who count in it has it.
    #[derive(Debug)]
    pub struct Counts {
        map: Mapping,
        shape: Shape,
        /// Who holds the lock, when this one does.
        me: u32,
    }

    impl Counts {
        /// A new table, empty.
        ///
        /// # Errors
        /// When there is no memory, or the shape is impossible.
        pub fn create(shape: Shape) -> Result<Self, MapError> {
            let bytes = shape.check()?;
            Ok(Self::over(Mapping::create("chainline-table", bytes, bytes > 1 << 20)?, shape, 0))
        }

        /// A table that another process created, for the replica of this number.
        ///
        /// # Errors
        /// When the memory is shorter than the shape says, or the shape is impossible.
        pub fn open(fd: OwnedFd, shape: Shape, pages: PageKind, replica: usize) -> Result<Self, MapError> {
            Ok(Self::over(Mapping::open(fd, shape.check()?, pages)?, shape, replica))
        }

        fn over(map: Mapping, shape: Shape, replica: usize) -> Self {
            Self { map, shape, me: name(replica) }
        }

        /// The memory.
        #[must_use]
        pub fn mapping(&self) -> &Mapping {
            &self.map
        }

        /// What it is like.
        #[must_use]
        pub fn shape(&self) -> Shape {
            self.shape
        }

        fn parts(&self) -> Option<(&Header, &[Slot])> {
            Some((self.map.atomics(0)?, self.map.atomic_slice(size_of::<Header>(), self.shape.slots())?))
        }

        /// Counts a packet of `bytes[i]` bytes for each `keys[i]`.
        pub fn count(&mut self, keys: &[[u8; 16]], bytes: &[u16]) -> Counted {
            let mut counted = Counted::default();
            let mut waited = false;
            for (keys, bytes) in keys.chunks(AT_ONCE).zip(bytes.chunks(AT_ONCE)) {
                let mut homes = [0; AT_ONCE];
                let Some((header, slots)) = self.parts() else { return counted };
                // Cache misses of a burst overlap, and are over before the lock is taken.
                for (home, key) in homes.iter_mut().zip(keys) {
                    *home = self.home(key, slots.len());
                    prefetch::to_write(slots.as_ptr().wrapping_add(*home).cast());
                }
                let burst = Burst { header, slots, homes: &homes, keys, bytes, entries: self.shape.entries.into() };
                if !self.shape.locked {
                    burst.count::<Together>(&mut counted);
                    continue;
                }
                // Who has waited in vain does not wait again for the rest of the burst.
                let held = if waited { None } else { Lock(&header.lock.0).take(self.me) };
                if held.is_some() {
                    burst.count::<Alone>(&mut counted);
                } else {
                    waited = true;
                    counted.refused += keys.len() as u64;
                    counted.refused_bytes += bytes.iter().map(|b| u64::from(*b)).sum::<u64>();
                }
            }
            counted
        }

        /// Takes the lock from a replica that is dead, if it had it. For who knows that it is.
        pub fn release_for(&self, replica: usize) -> bool {
            self.parts().is_some_and(|(header, _)| Lock(&header.lock.0).take_from(name(replica)))
        }

        /// Entries.
        #[must_use]
        #[allow(clippy::len_without_is_empty)]
        pub fn len(&self) -> u64 {
            let count = self.parts().map_or(0, |(header, _)| header.entries.0.load(Relaxed));
            count.min(self.shape.slots() as u64)
        }

        /// Hands each entry to `each`: key, packets, bytes. While others count these are of different instants.
        pub fn for_each(&self, mut each: impl FnMut([u8; 16], u64, u64)) {
            for slot in self.parts().map_or(&[][..], |(_, slots)| slots) {
                if let Some(key) = slot.key() {
                    each(key, slot.packets.load(Relaxed), slot.bytes.load(Relaxed));
                }
            }
        }

        /// Where a key is looked for first.
        #[inline]
        fn home(&self, key: &[u8; 16], slots: usize) -> usize {
            let (key, [a, b]) = (u128::from_be_bytes(*key), self.shape.seed);
            let mixed = fold(fold(key as u64 ^ a, (key >> 64) as u64 ^ b) ^ a, 0x9e37_79b9_7f4a_7c15);
            ((u128::from(mixed) * slots as u128) >> 64) as usize
        }

        /// Takes the lock and never gives it back: for tests of who dies with it.
        #[doc(hidden)]
        pub fn hold_for_ever(&self) {
            std::mem::forget(self.parts().map(|(header, _)| Lock(&header.lock.0).take(self.me)));
        }
    }

    /// A replica's name in the lock, where 0 is nobody.
    fn name(replica: usize) -> u32 {
        (replica as u32 & 0xffff) + 1
    }

    /// The product of two words, folded into one.
    #[inline]
    fn fold(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    }

    struct Burst<'a> {
        header: &'a Header,
        slots: &'a [Slot],
        homes: &'a [usize; AT_ONCE],
        keys: &'a [[u8; 16]],
        bytes: &'a [u16],
        entries: u64,
    }

    impl Burst<'_> {
        #[inline]
        fn count<A: Access>(&self, counted: &mut Counted) {
            let room = || self.header.entries.0.load(Relaxed) < self.entries;
            for ((key, bytes), home) in self.keys.iter().zip(self.bytes).zip(self.homes) {
                let key: Words = words(*key);
                let Some((slot, new)) = find::<A>(self.slots, *home, &key, room) else {
                    counted.refused += 1;
                    counted.refused_bytes += u64::from(*bytes);
                    continue;
                };
                if new {
                    A::add(&self.header.entries.0, 1);
                    counted.added += 1;
                }
                A::add(&slot.packets, 1);
                A::add(&slot.bytes, u64::from(*bytes));
            }
        }
    }
}
