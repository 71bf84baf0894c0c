//! The page of an instance: its statistics, which only it writes and the manager reads, and the manager's word to
//! it. Readers take differences; nobody resets anything.

use crate::mapping::{Atomics, MapError, Mapping};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Sub-buckets per power of two in [`CostHistogram`].
const SUB_BITS: u32 = 3;
/// Buckets of [`CostHistogram`]: values up to 2^40.
pub const COST_BUCKETS: usize = 38 << SUB_BITS;

/// The largest page.
const MAX_BYTES: usize = 1 << 30;

/// Written by the manager.
#[repr(C, align(128))]
pub struct Control {
    /// Not 0: empty the queues as far as there is room, then end.
    pub stop: AtomicU32,
}

/// The manager's word about one input queue.
#[repr(C, align(64))]
pub struct QueueControl {
    /// Not 0: take nothing from it for now, as a queue further down is overloaded.
    pub yields: AtomicU32,
}

/// Written by the instance.
#[repr(C, align(128))]
pub struct Status {
    /// Packets taken from queues and not yet handed on. 0 means: whatever was taken is visible elsewhere.
    pub busy: AtomicU32,
    /// One more after each pass over the queues: stands still in an NF that hangs.
    pub passes: AtomicU64,
    /// Descriptors that were refused.
    pub bad_descriptors: AtomicU64,
    /// Times it went to sleep.
    pub sleeps: AtomicU64,
    /// System calls made to wake others.
    pub wakes: AtomicU64,
    /// Packets held now.
    pub held: AtomicU64,
    /// Bursts handled.
    pub bursts: AtomicU64,
    /// Not 0: something was written or asked for that is not done. What is held then goes on by itself.
    pub io: AtomicU32,
}

/// One input queue, written by the instance.
#[repr(C, align(64))]
pub struct QueueStats {
    /// Packets taken.
    pub packets: AtomicU64,
    /// Their bytes, without FCS.
    pub bytes: AtomicU64,
    /// Descriptors from this queue that were refused.
    pub bad: AtomicU64,
}

/// One NF, written by the instance.
#[repr(C, align(64))]
pub struct NfStats {
    /// Packets handed to the NF.
    pub received: AtomicU64,
    /// Their bytes, without FCS.
    pub bytes: AtomicU64,
    /// Packets that it passed on or diverted.
    pub passed: AtomicU64,
    /// Packets that it dropped.
    pub dropped: AtomicU64,
    /// Packets that it took into holding.
    pub held: AtomicU64,
    /// Nanoseconds a packet, sampled.
    pub cost: CostHistogram,
    /// The last of these samples, exact.
    pub service: Samples,
    /// What handling a packet takes besides the NFs, for bursts that this NF is the first to see.
    pub overhead: Samples,
}

/// The last samples of a time, in picoseconds. One writer; a reader keeps up with one sample a millisecond if it looks
/// every few ten milliseconds.
#[repr(C, align(64))]
pub struct Samples {
    taken: AtomicU64,
    last: [AtomicU64; SAMPLES],
}

/// Samples that [`Samples`] holds.
const SAMPLES: usize = 63;

impl Samples {
    /// Adds a sample. One writer.
    #[inline]
    pub fn add(&self, picoseconds: u64) {
        let n = self.taken.load(Relaxed);
        self.last[(n % SAMPLES as u64) as usize].store(picoseconds, Relaxed);
        self.taken.store(n.wrapping_add(1), Release);
    }

    /// Samples taken so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Hands those after the first `seen` to `take`, as far as they are still there, and returns how many there are now.
    pub fn since(&self, seen: u64, mut take: impl FnMut(u64)) -> u64 {
        let now = self.taken.load(Acquire);
        let new = now.wrapping_sub(seen).min(SAMPLES as u64);
        for i in 0..new {
            take(self.last[(now.wrapping_sub(new).wrapping_add(i) % SAMPLES as u64) as usize].load(Relaxed));
        }
        now
    }
}

/// Counts of values in buckets of an eighth of a power of two.
#[repr(C)]
pub struct CostHistogram {
    buckets: [AtomicU64; COST_BUCKETS],
}

impl CostHistogram {
    /// The bucket of `value`.
    #[must_use]
    pub fn bucket_of(value: u64) -> usize {
        let v = value.max(1);
        let exp = 63 - v.leading_zeros();
        let index = if exp < SUB_BITS {
            v as usize
        } else {
            (((exp - SUB_BITS + 1) << SUB_BITS) as usize) + ((v >> (exp - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1))
        };
        index.min(COST_BUCKETS - 1)
    }

    /// The least value of a bucket.
    #[must_use]
    pub fn lower_bound(bucket: usize) -> u64 {
        let (group, sub) = (bucket >> SUB_BITS, (bucket & ((1 << SUB_BITS) - 1)) as u64);
        if group == 0 { sub } else { ((1 << SUB_BITS) + sub) << (group - 1) }
    }

    /// Counts `value` once. One writer.
    pub fn record(&self, value: u64) {
        let c = &self.buckets[Self::bucket_of(value)];
        c.store(c.load(Relaxed) + 1, Relaxed);
    }

    /// The counts now.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u64> {
        self.buckets.iter().map(|b| b.load(Relaxed)).collect()
    }
}

// SAFETY: atomics and padding only.
unsafe impl Atomics for Control {}
// SAFETY: atomics and padding only.
unsafe impl Atomics for QueueControl {}
// SAFETY: atomics and padding only.
unsafe impl Atomics for Status {}
// SAFETY: atomics and padding only.
unsafe impl Atomics for QueueStats {}
// SAFETY: atomics and padding only.
unsafe impl Atomics for NfStats {}

/// How many of everything a page has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLayout {
    /// Input queues.
    pub queues: usize,
    /// Counters of each NF.
    pub counters: Vec<usize>,
    /// Places for held packets.
    pub holds: usize,
}

impl PageLayout {
    const QUEUES: usize = size_of::<Control>() + size_of::<Status>();

    fn controls_at(&self) -> usize {
        Self::QUEUES + self.queues * size_of::<QueueStats>()
    }
    fn nfs_at(&self) -> usize {
        self.controls_at() + self.queues * size_of::<QueueControl>()
    }
    fn holds_at(&self) -> usize {
        self.nfs_at() + self.counters.len() * size_of::<NfStats>()
    }
    fn counters_at(&self, nf: usize) -> usize {
        let before: usize = self.counters[..nf].iter().sum();
        self.holds_at() + self.holds * 16 + before * 8
    }

    /// Bytes of the page.
    ///
    /// # Errors
    /// When they would be more than a GiB: the layout may come from another process, and sums must not wrap.
    pub fn bytes(&self) -> Result<usize, MapError> {
        let counters = self.counters.iter().try_fold(0usize, |sum, n| sum.checked_add(*n));
        let parts = [
            (Some(self.queues), size_of::<QueueStats>() + size_of::<QueueControl>()),
            (Some(self.counters.len()), size_of::<NfStats>()),
            (Some(self.holds), 16),
            (counters, 8),
        ];
        parts
            .into_iter()
            .try_fold(Self::QUEUES, |sum, (n, size)| sum.checked_add(n?.checked_mul(size)?))
            .filter(|bytes| *bytes <= MAX_BYTES)
            .ok_or(MapError::Foreign("a page of more than a GiB"))
    }
}

/// The page.
#[derive(Debug)]
pub struct Page {
    map: Mapping,
    layout: PageLayout,
}

impl Page {
    /// A new page, all zero.
    ///
    /// # Errors
    /// When there is no memory, or the layout is impossible.
    pub fn create(layout: PageLayout) -> Result<Self, MapError> {
        Ok(Self { map: Mapping::create("chainline-page", layout.bytes()?, false)?, layout })
    }

    /// A page that the manager created.
    ///
    /// # Errors
    /// When the memory is shorter than the layout says, or the layout is impossible.
    pub fn open(fd: OwnedFd, layout: PageLayout) -> Result<Self, MapError> {
        let map = Mapping::open(fd, layout.bytes()?, crate::PageKind::Small)?;
        Ok(Self { map, layout })
    }

    /// The memory.
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        &self.map
    }

    /// The manager's word.
    #[must_use]
    pub fn control(&self) -> &Control {
        self.at(0)
    }

    /// What the instance says of itself.
    #[inline]
    #[must_use]
    pub fn status(&self) -> &Status {
        self.at(size_of::<Control>())
    }

    /// Statistics of an input queue.
    #[inline]
    #[must_use]
    pub fn queue(&self, i: usize) -> &QueueStats {
        assert!(i < self.layout.queues, "queue {i} of {}", self.layout.queues);
        self.at(PageLayout::QUEUES + i * size_of::<QueueStats>())
    }

    /// The manager's word about an input queue.
    #[inline]
    #[must_use]
    pub fn queue_control(&self, i: usize) -> &QueueControl {
        assert!(i < self.layout.queues, "queue {i} of {}", self.layout.queues);
        self.at(self.layout.controls_at() + i * size_of::<QueueControl>())
    }

    /// Statistics of an NF.
    #[inline]
    #[must_use]
    pub fn nf(&self, i: usize) -> &NfStats {
        assert!(i < self.layout.counters.len(), "NF {i} of {}", self.layout.counters.len());
        self.at(self.layout.nfs_at() + i * size_of::<NfStats>())
    }

    /// The counters of an NF in the order in which it declared them.
    #[must_use]
    pub fn counters(&self, nf: usize) -> &[AtomicU64] {
        assert!(nf < self.layout.counters.len(), "NF {nf} of {}", self.layout.counters.len());
        self.map.atomic_slice(self.layout.counters_at(nf), self.layout.counters[nf]).unwrap_or(&[])
    }

    /// The held descriptors, two words each; a first word of 0 with a second of 0 is a free place.
    #[must_use]
    pub fn holds(&self) -> &[AtomicU64] {
        self.map.atomic_slice(self.layout.holds_at(), self.layout.holds * 2).unwrap_or(&[])
    }

    #[inline]
    fn at<T: Atomics>(&self, offset: usize) -> &T {
        debug_assert!(offset + size_of::<T>() <= self.map.len());
        // SAFETY: callers pass offsets inside the layout, whose size both constructors checked against the
        // mapping; every part of the layout is a multiple of its alignment; only atomics are behind the reference.
        unsafe { &*self.map.as_ptr().add(offset).cast::<T>() }
    }
}

const _: () = {
    assert!(size_of::<Control>() == 128 && size_of::<Status>() == 128 && size_of::<QueueStats>() == 64);
    assert!(size_of::<NfStats>().is_multiple_of(64) && size_of::<QueueControl>() == 64);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_monotonic_and_tight() {
        for v in (1..5000).chain([1 << 20, (1 << 20) + 12345, 1 << 39, u64::MAX]) {
            let b = CostHistogram::bucket_of(v);
            assert!(CostHistogram::lower_bound(b) <= v);
            if b + 1 < COST_BUCKETS {
                assert!(CostHistogram::lower_bound(b + 1) > v, "{v}");
            }
        }
    }

    #[test]
    fn samples_are_read_once_and_the_oldest_are_lost() {
        let page = Page::create(PageLayout { queues: 1, counters: vec![0], holds: 0 }).unwrap();
        let samples = &page.nf(0).service;
        let read = |seen| {
            let mut got = Vec::new();
            let now = samples.since(seen, |s| got.push(s));
            (now, got)
        };
        assert_eq!(read(0), (0, vec![]));
        samples.add(5);
        samples.add(6);
        assert_eq!(read(0), (2, vec![5, 6]));
        assert_eq!(read(2), (2, vec![]));
        (2..200).for_each(|i| samples.add(i));
        assert_eq!(read(2), (200, (137..200).collect()));
        // A count from nowhere (the page is the instance's own) costs no more than all there is.
        assert_eq!(read(u64::MAX).1.len(), SAMPLES);
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let small = PageLayout { queues: 1, counters: vec![1], holds: 1 };
        let fd = || Page::create(small.clone()).unwrap().mapping().dup_fd().unwrap();
        // Each of these wraps to a small number of bytes somewhere in the sum.
        let wrap = usize::MAX / 16 + 1;
        for layout in [
            PageLayout { queues: usize::MAX / 64 + 1, ..small.clone() },
            PageLayout { holds: wrap, ..small.clone() },
            PageLayout { counters: vec![usize::MAX, 2], ..small.clone() },
            PageLayout { counters: vec![usize::MAX / 8 + 1], ..small.clone() },
            PageLayout { holds: MAX_BYTES / 16, ..small.clone() },
        ] {
            assert!(matches!(Page::open(fd(), layout.clone()), Err(MapError::Foreign(_))), "{layout:?}");
            assert!(matches!(Page::create(layout), Err(MapError::Foreign(_))));
        }
    }

    #[test]
    fn parts_do_not_overlap() {
        let page = Page::create(PageLayout { queues: 3, counters: vec![2, 0, 5], holds: 4 }).unwrap();
        for q in 0..3 {
            page.queue(q).packets.store(100 + q as u64, Relaxed);
            page.queue_control(q).yields.store(400 + q as u32, Relaxed);
        }
        for n in 0..3 {
            page.nf(n).received.store(200 + n as u64, Relaxed);
            page.nf(n).cost.record(77);
            page.counters(n).iter().for_each(|c| c.store(300 + n as u64, Relaxed));
        }
        page.holds().iter().for_each(|h| h.store(9, Relaxed));
        let other = Page::open(page.mapping().dup_fd().unwrap(), page.layout.clone()).unwrap();
        assert_eq!(other.queue(2).packets.load(Relaxed), 102);
        assert_eq!([0, 1, 2].map(|q| other.queue_control(q).yields.load(Relaxed)), [400, 401, 402]);
        assert_eq!(other.nf(1).received.load(Relaxed), 201);
        assert_eq!(other.nf(1).cost.snapshot().iter().sum::<u64>(), 1);
        assert_eq!(other.counters(2).iter().map(|c| c.load(Relaxed)).collect::<Vec<_>>(), [302; 5]);
        assert_eq!(other.holds().len(), 8);
    }
}
