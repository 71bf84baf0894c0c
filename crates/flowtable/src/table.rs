//! The table.
//!
//! Each entry has a *deadline*: the time of its last packet plus the time-out of its class. Times are kept in units of
//! 2²⁰ ns (about a millisecond) in 32 bits that wrap; deadlines are never further away than a quarter of that, and the
//! sweep comes by more often, so differences are right.

use crate::config::{CLASSES, Class, Config, ConfigError, NEVER, OnFull};
use crate::keys::Keys;
use chainline_dpdk::tables::{Array, Hash};

/// Entries among which [`OnFull::EvictOldest`] chooses.
pub const SAMPLE: usize = 16;

/// Slots up to which all of them are the sample, so that small tables choose exactly.
const SMALL: usize = 2 * LEAST as usize;

/// Places of the smallest table. With few buckets of eight, some fill up long before the table does: a table of 56 entries in
/// 64 places refused one in some ten thousand runs of the tests.
const LEAST: u32 = 256;

/// Nanoseconds of a unit of time, as a power of two.
const UNIT_SHIFT: u32 = 20;
/// The furthest deadline, in units; entries that never end get it anew when the sweep comes by.
const HORIZON: u32 = 1 << 30;
/// The class of a slot without an entry.
const FREE: u8 = u8::MAX;
/// Slots that one sweep looks at, at least (if there are so many) and at most.
const SWEEP_MIN: u64 = 4096;
const SWEEP_MAX: u64 = 32_768;
/// Entries that one sweep removes at most: each is a few cache misses.
const SWEEP_REMOVES: u32 = 4096;

/// Where an entry is, for as long as it lives. Another entry may get the position afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position(u32);

impl Position {
    /// The position as a number below the table's [`FlowTable::positions`], for arrays of the NF's own.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// From such a number. A wrong one finds a wrong entry or none.
    #[inline]
    #[must_use]
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot<E> {
    deadline: u32,
    class: u8,
    entry: E,
}

/// What became of [`FlowTable::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// There is a new entry.
    New(Position),
    /// The key was there already, and its entry is as it was.
    There(Position),
    /// There is no room, by policy or because all places that the key can have are taken.
    Full,
}

/// Counts since the table was made: `added = len + expired + evicted + removed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries now.
    pub len: u64,
    /// New entries.
    pub added: u64,
    /// Entries that ended because nothing came for them.
    pub expired: u64,
    /// Entries that ended before their time, to make room.
    pub evicted: u64,
    /// Entries that the NF ended.
    pub removed: u64,
    /// [`Inserted::Full`].
    pub refused: u64,
}

impl Stats {
    /// The sum, for NFs with several tables.
    #[inline]
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            len: self.len + other.len,
            added: self.added + other.added,
            expired: self.expired + other.expired,
            evicted: self.evicted + other.evicted,
            removed: self.removed + other.removed,
            refused: self.refused + other.refused,
        }
    }
}

/// A map from `N`-byte keys to entries; see the crate's head. Keys of 16, 32, 48, 64 … bytes are compared fastest.
#[derive(Debug)]
pub struct FlowTable<const N: usize, E> {
    index: Hash<N>,
    slots: Array<Slot<E>>,
    /// In units.
    timeouts: [u32; CLASSES],
    /// Bit `c`: entries of class `c` do not time out.
    never: u16,
    on_full: OnFull,
    capacity: u64,
    /// The present, in units.
    now: u32,
    stats: Stats,
    /// Entries that ended, for whatever reason.
    ended: u64,
    /// Where the next choice of a victim starts, and the next sweep.
    hand: usize,
    sweep_at: usize,
    sweep_ns: u64,
    /// Nanoseconds in which the sweep goes round.
    round_ns: u64,
}

impl<const N: usize, E: Copy + Default> FlowTable<N, E> {
    /// An empty table. All its memory is taken now: [`FlowTable::memory_bytes`].
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: &Config<'_>) -> Result<Self, ConfigError> {
        config.check()?;
        // A cuckoo table may refuse keys when it is nearly full, so it is larger than what it is to hold.
        let index = Hash::new((config.capacity + config.capacity / 8).max(LEAST))?;
        let slots = Array::new(index.positions(), Slot { class: FREE, ..Slot::default() })?;
        let (mut timeouts, mut never) = ([HORIZON; CLASSES], 0);
        let mut shortest_ms = NEVER;
        for (class, ms) in config.timeouts_ms.iter().enumerate() {
            if *ms == NEVER {
                never |= 1 << class;
            } else {
                shortest_ms = shortest_ms.min(*ms);
                // Rounded up, and one more since the present is rounded down: an entry has at least its time.
                timeouts[class] = ((ms * 1_000_000).div_ceil(1 << UNIT_SHIFT) + 1).min(HORIZON.into()) as u32;
            }
        }
        Ok(Self {
            index,
            slots,
            timeouts,
            never,
            on_full: config.on_full,
            capacity: config.capacity.into(),
            now: 0,
            stats: Stats::default(),
            ended: 0,
            hand: 0,
            sweep_at: 0,
            sweep_ns: 0,
            round_ns: (shortest_ms / 4).clamp(250, 8000) * 1_000_000,
        })
    }

    /// Looks up all keys of a burst and asks for their entries' cache lines. `now_ns` is [`chainline_nf::Ctx::now_ns`].
    #[inline]
    pub fn look_up(&mut self, keys: &mut Keys<N>, now_ns: u64) {
        self.now = units(now_ns);
        let n = keys.len();
        self.index.lookup_bulk(&keys.keys[..n], &mut keys.found[..n]);
        for found in &keys.found[..n] {
            // Absent ones are negative, and so out of range.
            self.slots.prefetch(*found as usize);
        }
        keys.asked = (self.stats.added, self.ended);
    }

    /// Tells the time to what comes before this burst's [`FlowTable::look_up`].
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        self.now = units(now_ns);
    }

    /// Where key `i` is now, after all that was inserted and removed since [`FlowTable::look_up`].
    #[inline]
    #[must_use]
    pub fn find(&self, keys: &Keys<N>, i: usize) -> Option<Position> {
        let found = keys.found[i];
        let (added, ended) = keys.asked;
        // A position stays while nothing ends; an absent key stays absent while nothing is added.
        let stale = if found >= 0 { self.ended != ended } else { self.stats.added != added };
        if stale { self.find_one(keys.key(i)) } else { u32::try_from(found).ok().map(Position) }
    }

    /// The entry of key `i`, if there is one; its time-out starts anew.
    #[inline]
    pub fn get(&mut self, keys: &Keys<N>, i: usize) -> Option<(Position, &mut E)> {
        let at = self.find(keys, i)?;
        let (now, timeouts) = (self.now, &self.timeouts);
        let slot = self.slots.get_mut(at.index())?;
        slot.deadline = now.wrapping_add(timeouts[usize::from(slot.class) % CLASSES]);
        Some((at, &mut slot.entry))
    }

    /// Where a single key is: a look-up of its own, for the rare case.
    #[cold]
    #[must_use]
    pub fn find_one(&self, key: &[u8; N]) -> Option<Position> {
        self.index.lookup(key).map(Position)
    }

    /// The entry at a position.
    #[inline]
    #[must_use]
    pub fn entry(&self, at: Position) -> Option<&E> {
        self.slots.get(at.index()).filter(|slot| slot.class != FREE).map(|slot| &slot.entry)
    }

    /// The entry at a position; its time-out goes on.
    #[inline]
    pub fn entry_mut(&mut self, at: Position) -> Option<&mut E> {
        self.slots.get_mut(at.index()).filter(|slot| slot.class != FREE).map(|slot| &mut slot.entry)
    }

    /// The key of the entry at a position.
    #[must_use]
    pub fn key_at(&self, at: Position) -> Option<[u8; N]> {
        self.index.key_at(at.0)
    }

    /// Asks for the cache line of an entry: for positions that come from another table's entries.
    #[inline]
    pub fn prefetch(&self, at: Position) {
        self.slots.prefetch(at.index());
    }

    /// Starts the time-out of the entry at a position anew.
    #[inline]
    pub fn touch(&mut self, at: Position) {
        let (now, timeouts) = (self.now, &self.timeouts);
        if let Some(slot) = self.slots.get_mut(at.index()) {
            slot.deadline = now.wrapping_add(timeouts[usize::from(slot.class) % CLASSES]);
        }
    }

    /// Gives the entry at a position another class, and starts its time-out anew.
    #[inline]
    pub fn set_class(&mut self, at: Position, class: Class) {
        let deadline = self.deadline(class);
        if let Some(slot) = self.slots.get_mut(at.index()).filter(|slot| slot.class != FREE) {
            (slot.class, slot.deadline) = (class.0 % CLASSES as u8, deadline);
        }
    }

    /// The class of the entry at a position.
    #[inline]
    #[must_use]
    pub fn class(&self, at: Position) -> Option<Class> {
        self.slots.get(at.index()).filter(|slot| slot.class != FREE).map(|slot| Class(slot.class))
    }

    /// Whether the time of the entry at a position is over, though the sweep has not come by yet. Entries last *at
    /// least* their time-out: an NF for which they must not last longer asks before [`FlowTable::get`], and removes.
    #[inline]
    #[must_use]
    pub fn is_over(&self, at: Position) -> bool {
        self.slots.get(at.index()).is_some_and(|slot| slot.class != FREE && self.over(slot))
    }

    /// Adds an entry. When the table is full, an entry whose time is over makes room, or the policy decides; the one that
    /// ends for it goes to `gone` with its key.
    #[cold]
    pub fn insert(&mut self, key: &[u8; N], class: Class, entry: E, gone: impl FnOnce(&[u8; N], &E)) -> Inserted {
        if self.is_full() {
            if let Some(at) = self.find_one(key) {
                return Inserted::There(at);
            }
            let Some((key, entry)) = self.make_room() else {
                self.stats.refused += 1;
                return Inserted::Full;
            };
            gone(&key, &entry);
        }
        let deadline = self.deadline(class);
        let slot = self.index.add(key).and_then(|at| Some((at, self.slots.get_mut(at as usize)?)));
        // With an eighth more places than entries this is next to impossible; a cuckoo table promises no more.
        let Some((at, slot)) = slot else {
            self.stats.refused += 1;
            return Inserted::Full;
        };
        if slot.class != FREE {
            return Inserted::There(Position(at));
        }
        *slot = Slot { deadline, class: class.0 % CLASSES as u8, entry };
        self.stats.added += 1;
        self.stats.len += 1;
        Inserted::New(Position(at))
    }

    /// Ends the entry at a position.
    pub fn remove(&mut self, at: Position) -> Option<([u8; N], E)> {
        let ended = self.end(at.index())?;
        self.stats.removed += 1;
        Some(ended)
    }

    /// Goes through a part of the table and ends entries whose time is over; each goes to `gone` with its key. To be
    /// called from [`chainline_nf::Nf::tick`]: the table is gone round in a quarter of the shortest time-out, a quarter of
    /// a second at least and 8 s at most, unless that takes more than 32,768 slots or 4,096 ends a call.
    pub fn sweep(&mut self, now_ns: u64, mut gone: impl FnMut(&[u8; N], &E)) {
        self.now = units(now_ns);
        let slots = self.slots.len() as u64;
        let elapsed = now_ns.saturating_sub(self.sweep_ns).min(self.round_ns);
        self.sweep_ns = now_ns;
        let share = (u128::from(slots) * u128::from(elapsed) / u128::from(self.round_ns)) as u64;
        let looks = share.clamp(SWEEP_MIN, SWEEP_MAX).min(slots);
        let mut ends = 0;
        for _ in 0..looks {
            let at = self.sweep_at;
            self.sweep_at = if at + 1 < self.slots.len() { at + 1 } else { 0 };
            let Some(slot) = self.slots.get_mut(at) else { return };
            if slot.class == FREE || (slot.deadline.wrapping_sub(self.now) as i32) > 0 {
                continue;
            }
            if self.never >> slot.class & 1 != 0 {
                slot.deadline = self.now.wrapping_add(HORIZON);
                continue;
            }
            if let Some((key, entry)) = self.end(at) {
                self.stats.expired += 1;
                gone(&key, &entry);
            }
            ends += 1;
            if ends == SWEEP_REMOVES {
                break;
            }
        }
    }

    /// All entries with their keys and positions, in no order: for reports and reloads, not for each burst.
    pub fn iter(&self) -> impl Iterator<Item = (Position, [u8; N], &E)> {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.class != FREE);
        used.filter_map(|(at, slot)| {
            let at = Position(at as u32);
            Some((at, self.key_at(at)?, &slot.entry))
        })
    }

    /// All entries, writable, without their keys: a look at each slot of the table.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.slots.iter_mut().filter(|slot| slot.class != FREE).map(|slot| &mut slot.entry)
    }

    /// Number of entries.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.stats.len as usize
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stats.len == 0
    }

    /// Whether there are as many as it is to hold.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.stats.len >= self.capacity
    }

    /// Counts so far.
    #[inline]
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// What happens when it is full.
    #[inline]
    #[must_use]
    pub fn on_full(&self) -> OnFull {
        self.on_full
    }

    /// All positions are below this.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of memory that a table of this capacity takes: key, index and slot.
    #[must_use]
    pub fn memory_bytes(capacity: u32) -> u64 {
        let entries = (u64::from(capacity) + u64::from(capacity) / 8).max(u64::from(LEAST));
        // As `Hash::new` reckons.
        let index = entries * (N as u64 + 8).next_multiple_of(16) + (entries + 1).next_power_of_two() * 16;
        index + entries * size_of::<Slot<E>>() as u64
    }

    fn deadline(&self, class: Class) -> u32 {
        self.now.wrapping_add(self.timeouts[usize::from(class.0) % CLASSES])
    }

    fn over(&self, slot: &Slot<E>) -> bool {
        (slot.deadline.wrapping_sub(self.now) as i32) <= 0 && self.never >> (slot.class % CLASSES as u8) & 1 == 0
    }

    /// Ends one entry: one whose time is over, or if the policy says so the one of a sample that is nearest to it.
    fn make_room(&mut self) -> Option<([u8; N], E)> {
        let slots = self.slots.len();
        // Neighbours are of an age, so the sample is spread out; and it starts at another place each time.
        let sample = if slots <= SMALL { slots } else { SAMPLE };
        let stride = (slots / sample.max(1)).max(1);
        self.hand = if self.hand + 1 < slots { self.hand + 1 } else { 0 };
        let mut victim = None;
        for k in 0..sample {
            let at = (self.hand + k * stride) % slots;
            let Some(slot) = self.slots.get(at).filter(|slot| slot.class != FREE) else { continue };
            let left = slot.deadline.wrapping_sub(self.now) as i32;
            if victim.is_none_or(|(_, least)| left < least) {
                victim = Some((at, left));
            }
        }
        let next = self.hand + 1;
        for k in 0..sample {
            self.slots.prefetch((next + k * stride) % slots);
        }
        let (at, _) = victim?;
        let over = self.slots.get(at).is_some_and(|slot| self.over(slot));
        if !over && self.on_full != OnFull::EvictOldest {
            return None;
        }
        let ended = self.end(at)?;
        if over {
            self.stats.expired += 1;
        } else {
            self.stats.evicted += 1;
        }
        Some(ended)
    }

    /// Takes an entry out.
    fn end(&mut self, at: usize) -> Option<([u8; N], E)> {
        let slot = self.slots.get_mut(at).filter(|slot| slot.class != FREE)?;
        let entry = slot.entry;
        slot.class = FREE;
        let key = self.index.key_at(at as u32)?;
        self.index.del(&key);
        self.ended += 1;
        self.stats.len -= 1;
        Some((key, entry))
    }
}

/// Time in units. Wraps after 52 days.
#[inline]
fn units(now_ns: u64) -> u32 {
    (now_ns >> UNIT_SHIFT) as u32
}
