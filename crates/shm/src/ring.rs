//! The queue of an edge: one producer, one consumer, descriptors in shared memory.
//!
//! Each side keeps its own index privately and reads the other's from shared memory. What it reads is an
//! allegation: an index that would mean more packets than the queue holds reads as "nothing there" and "no
//! room", so a lying peer stalls this queue and nothing else.
//!
//! Neither side can hold what the other needs: there is no lock, and either may die between any two
//! instructions. A consumer releases places when it has copied the descriptors out, so a packet is at any time
//! in exactly one queue or in the custody of exactly one process.

use crate::desc::Desc;
use crate::mapping::MapError;
#[cfg(not(loom))]
use crate::mapping::Mapping;
use crate::prefetch;
use crate::sync::{AtomicU32, AtomicU64, RingMemory};
#[cfg(not(loom))]
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Written by the producer only; two cache lines, since neighbouring lines are fetched in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct ProducerLine {
    /// Number of descriptors ever put in, modulo 2^32.
    tail: AtomicU32,
    /// The producer sleeps until there is room.
    wants_room: AtomicU32,
}

/// Written by the consumer only.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct ConsumerLine {
    /// Number of descriptors ever taken out, modulo 2^32.
    head: AtomicU32,
    /// The consumer sleeps until there is room behind it: more packets are no reason to wake it.
    stalled: AtomicU32,
}

/// What stands before the descriptors.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Header {
    producer: ProducerLine,
    consumer: ConsumerLine,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Header>() == 256 && size_of::<Desc>() == 16);

/// The memory of a queue.
#[derive(Clone, Debug)]
pub struct Ring {
    memory: RingMemory,
    capacity: u32,
}

impl Ring {
    /// Largest capacity in descriptors.
    pub const MAX_CAPACITY: u32 = 1 << 20;

    /// Bytes of a queue for `capacity` descriptors.
    #[must_use]
    pub const fn bytes(capacity: u32) -> usize {
        RingMemory::bytes(capacity)
    }

    /// A new, empty queue for `capacity` descriptors, a power of two.
    ///
    /// # Errors
    /// When there is no memory, or `capacity` is not a power of two up to [`Ring::MAX_CAPACITY`].
    pub fn create(capacity: u32) -> Result<Self, MapError> {
        Self::check(capacity)?;
        Ok(Self { memory: RingMemory::create(capacity)?, capacity })
    }

    /// A queue in memory from another process.
    ///
    /// # Errors
    /// When the memory is too short for `capacity`.
    #[cfg(not(loom))]
    pub fn over(map: Arc<Mapping>, capacity: u32) -> Result<Self, MapError> {
        Self::check(capacity)?;
        Ok(Self { memory: RingMemory::over(map, capacity)?, capacity })
    }

    fn check(capacity: u32) -> Result<(), MapError> {
        let good = capacity.is_power_of_two() && capacity <= Self::MAX_CAPACITY;
        if good { Ok(()) } else { Err(MapError::Foreign("queue capacity does not fit")) }
    }

    /// Places in the queue.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The memory.
    #[cfg(not(loom))]
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        self.memory.mapping()
    }

    #[inline]
    fn header(&self) -> &Header {
        self.memory.header()
    }

    /// Packets inside, as far as the indexes tell: for statistics and wake-up decisions of third parties.
    #[must_use]
    pub fn len(&self) -> u32 {
        let h = self.header();
        h.producer.tail.load(Ordering::Acquire).wrapping_sub(h.consumer.head.load(Ordering::Acquire)).min(self.capacity)
    }

    /// Packets ever put in, modulo 2^32: tells whether anything was put in between two looks.
    #[must_use]
    pub fn pushed(&self) -> u32 {
        self.header().producer.tail.load(Ordering::Acquire)
    }

    /// Packets ever taken out, modulo 2^32.
    #[must_use]
    pub fn popped(&self) -> u32 {
        self.header().consumer.head.load(Ordering::Acquire)
    }

    /// Whether nothing is inside.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn slot(&self, index: u32) -> (&AtomicU64, &AtomicU64) {
        self.memory.slot(index & (self.capacity - 1))
    }

    #[inline]
    fn will_write(&self, index: u32) {
        prefetch::to_write(std::ptr::from_ref(self.slot(index).0).cast());
    }

    #[inline]
    fn will_read(&self, index: u32) {
        prefetch::to_read(std::ptr::from_ref(self.slot(index).0).cast());
    }
}

/// Descriptors in a cache line, and how far ahead of the producer lines are fetched from the consumer's core: two bursts.
const LINE: u32 = 4;
const AHEAD: u32 = 64;

/// The end that puts packets in.
#[derive(Debug)]
pub struct Producer {
    ring: Ring,
    tail: u32,
    published: u32,
    head_seen: u32,
}

impl Producer {
    /// Takes over the producer's end where the last producer left it. At most one producer may exist.
    #[must_use]
    pub fn attach(ring: Ring) -> Self {
        let h = ring.header();
        let head = h.consumer.head.load(Ordering::Acquire);
        let tail = h.producer.tail.load(Ordering::Acquire);
        // A dead producer that scribbled on its index leaves an empty queue behind.
        let tail = if tail.wrapping_sub(head) <= ring.capacity { tail } else { head };
        h.producer.tail.store(tail, Ordering::Release);
        h.producer.wants_room.store(0, Ordering::Relaxed);
        Self { ring, tail, published: tail, head_seen: head }
    }

    /// Free places, at least; looks at the consumer's index only if fewer than `want` are known of.
    #[inline]
    pub fn room(&mut self, want: u32) -> u32 {
        let capacity = self.ring.capacity;
        let known = capacity - self.tail.wrapping_sub(self.head_seen);
        if known >= want {
            return known;
        }
        let head = self.ring.header().consumer.head.load(Ordering::Acquire);
        let used = self.tail.wrapping_sub(head);
        if used > capacity {
            // A lie: what was known before stays true. It may come of a peer that wrote over this end's index and
            // died, and whose successor believed it: then it goes by the true one from now on.
            self.ring.header().producer.tail.store(self.published, Ordering::Release);
            return known;
        }
        self.head_seen = head;
        capacity - used
    }

    /// Puts a descriptor in; it stays unseen until [`Producer::publish`]. The caller has checked the room.
    #[inline]
    pub fn push(&mut self, desc: Desc) {
        debug_assert!(self.tail.wrapping_sub(self.head_seen) < self.ring.capacity);
        if self.tail.is_multiple_of(LINE) {
            self.ring.will_write(self.tail.wrapping_add(AHEAD));
        }
        let (a, b) = self.ring.slot(self.tail);
        let words = desc.to_words();
        a.store(words.0, Ordering::Relaxed);
        b.store(words.1, Ordering::Relaxed);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Makes everything pushed visible to the consumer. Returns whether there was anything.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.published == self.tail {
            return false;
        }
        self.published = self.tail;
        self.ring.header().producer.tail.store(self.tail, Ordering::Release);
        true
    }

    /// Packets in the queue as far as this end knows: never fewer than there are.
    #[inline]
    #[must_use]
    pub fn len_at_most(&self) -> u32 {
        self.tail.wrapping_sub(self.head_seen)
    }

    /// Tells the consumer that this end sleeps until there is room, or that it no longer does.
    #[inline]
    pub fn set_wants_room(&self, wants: bool) {
        self.ring.header().producer.wants_room.store(u32::from(wants), Ordering::Relaxed);
    }

    /// Whether the consumer sleeps until there is room behind it. Exact only after [`Bell::publish_fence`](crate::Bell).
    #[inline]
    #[must_use]
    pub fn consumer_is_stalled(&self) -> bool {
        self.ring.header().consumer.stalled.load(Ordering::Relaxed) != 0
    }

    /// The memory.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }
}

/// The end that takes packets out.
#[derive(Debug)]
pub struct Consumer {
    ring: Ring,
    head: u32,
    tail_seen: u32,
}

impl Consumer {
    /// Takes over the consumer's end where the last consumer left it. At most one consumer may exist.
    #[must_use]
    pub fn attach(ring: Ring) -> Self {
        let h = ring.header();
        let tail = h.producer.tail.load(Ordering::Acquire);
        let head = h.consumer.head.load(Ordering::Acquire);
        let head = if tail.wrapping_sub(head) <= ring.capacity { head } else { tail };
        h.consumer.head.store(head, Ordering::Release);
        h.consumer.stalled.store(0, Ordering::Relaxed);
        Self { ring, head, tail_seen: tail }
    }

    /// Packets waiting, at least; looks at the producer's index only if fewer than `want` are known of.
    #[inline]
    pub fn available(&mut self, want: u32) -> u32 {
        let known = self.tail_seen.wrapping_sub(self.head);
        if known >= want {
            return known;
        }
        let tail = self.ring.header().producer.tail.load(Ordering::Acquire);
        let there = tail.wrapping_sub(self.head);
        if there > self.ring.capacity {
            // A lie: what was known before stays true, and when that is used up, the queue is empty where the
            // producer says that it is. Otherwise an index that somebody wrote over would stop the queue for good.
            if known == 0 {
                self.head = tail;
                self.tail_seen = tail;
                self.ring.header().consumer.head.store(tail, Ordering::Release);
            }
            return known;
        }
        self.tail_seen = tail;
        // A producer that finds this end's index written over waits for the true one, and an empty queue never moves it.
        let shown = &self.ring.header().consumer.head;
        if there == 0 && shown.load(Ordering::Relaxed) != self.head {
            shown.store(self.head, Ordering::Release);
        }
        there
    }

    /// The descriptor `i` places behind the front. The caller has seen that it is available.
    #[inline]
    #[must_use]
    pub fn peek(&self, i: u32) -> Desc {
        let (a, b) = self.ring.slot(self.head.wrapping_add(i));
        Desc::from_words(a.load(Ordering::Relaxed), b.load(Ordering::Relaxed))
    }

    /// Has the descriptors from `from` to just before `until` fetched, as far as they are there: the ones after those that
    /// are worked on now.
    #[inline]
    pub fn prefetch(&self, from: u32, until: u32) {
        let until = until.min(self.tail_seen.wrapping_sub(self.head));
        for i in (from..until).step_by(LINE as usize) {
            self.ring.will_read(self.head.wrapping_add(i));
        }
    }

    /// Gives `n` places back to the producer. Their descriptors have been copied out.
    #[inline]
    pub fn release(&mut self, n: u32) {
        debug_assert!(n <= self.tail_seen.wrapping_sub(self.head));
        self.head = self.head.wrapping_add(n);
        self.ring.header().consumer.head.store(self.head, Ordering::Release);
    }

    /// Tells the producer that this end sleeps until there is room behind it, or that it no longer does.
    #[inline]
    pub fn set_stalled(&self, stalled: bool) {
        self.ring.header().consumer.stalled.store(u32::from(stalled), Ordering::Relaxed);
    }

    /// Whether the producer sleeps until there is room.
    #[inline]
    #[must_use]
    pub fn producer_wants_room(&self) -> bool {
        self.ring.header().producer.wants_room.load(Ordering::Relaxed) != 0
    }

    /// The memory.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::desc::BufId;

    fn pair(capacity: u32) -> (Producer, Consumer) {
        let ring = Ring::create(capacity).unwrap();
        (Producer::attach(ring.clone()), Consumer::attach(ring))
    }

    fn d(i: u32) -> Desc {
        Desc { buf: BufId::new(i, 0), ..Desc::default() }
    }

    #[test]
    fn keeps_order_over_many_laps_between_threads() {
        let (mut p, mut c) = pair(64);
        const N: u32 = 200_000;
        let t = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < N {
                for _ in 0..p.room(1).min(17).min(N - sent) {
                    p.push(d(sent));
                    sent += 1;
                }
                p.publish();
                std::hint::spin_loop();
            }
        });
        let mut seen = 0;
        while seen < N {
            let n = c.available(1).min(13);
            for i in 0..n {
                assert_eq!(c.peek(i), d(seen + i));
            }
            c.release(n);
            seen += n;
        }
        t.join().unwrap();
        assert!(c.ring().is_empty());
    }

    #[test]
    fn full_and_empty() {
        let (mut p, mut c) = pair(4);
        assert_eq!((p.room(1), c.available(1)), (4, 0));
        (0..4).for_each(|i| p.push(d(i)));
        assert_eq!(c.available(1), 0, "unpublished packets are unseen");
        assert!(p.publish());
        assert!(!p.publish());
        assert_eq!((p.room(1), c.available(1)), (0, 4));
        c.release(1);
        assert_eq!(p.room(1), 1);
    }

    #[test]
    fn lies_read_as_nothing() {
        let (mut p, mut c) = pair(4);
        p.ring.header().consumer.head.store(77, Ordering::Relaxed);
        p.push(d(0));
        assert_eq!(p.room(4), 3);
        p.ring.header().producer.tail.store(1_000, Ordering::Relaxed);
        assert_eq!(c.available(1), 0);
    }

    /// Either line overwritten by the peer of its owner, which then dies: both ends find together again.
    #[test]
    fn a_queue_outlives_scribbled_indexes() {
        for value in [77, 1_000, u32::MAX, 3, 0] {
            let (mut p, mut c) = pair(4);
            (0..3).for_each(|i| p.push(d(i)));
            p.publish();
            p.ring.header().producer.tail.store(value, Ordering::Relaxed);
            p.ring.header().consumer.head.store(value.wrapping_mul(5), Ordering::Relaxed);
            // The consumer's successor; the producer lives on.
            let ring = p.ring().clone();
            c = {
                drop(c);
                Consumer::attach(ring)
            };
            assert_carries(&mut p, &mut c, value);
            p.ring.header().consumer.head.store(value, Ordering::Relaxed);
            let ring = p.ring().clone();
            p = {
                drop(p);
                Producer::attach(ring)
            };
            assert_carries(&mut p, &mut c, value);
        }
    }

    #[test]
    fn a_consumer_of_an_empty_queue_shows_its_true_index() {
        let (mut p, mut c) = pair(4);
        (0..4).for_each(|i| p.push(d(i)));
        p.publish();
        assert_eq!(c.available(4), 4);
        c.release(4);
        p.ring.header().consumer.head.store(1_000, Ordering::Relaxed);
        assert_eq!((p.room(4), c.available(1), p.room(4)), (0, 0, 4));
    }

    /// After a few rounds of looking, what is put in comes out, if not what was inside before.
    fn assert_carries(p: &mut Producer, c: &mut Consumer, value: u32) {
        for i in 100..120 {
            if p.room(1) > 0 {
                p.push(d(i));
                p.publish();
            }
            let n = c.available(1);
            if n > 0 && c.peek(0) == d(i) && i > 110 {
                c.release(n);
                return;
            }
            c.release(n);
        }
        panic!("nothing came through after an index became {value}");
    }

    #[test]
    fn a_successor_goes_on_where_the_dead_one_was() {
        let (mut p, mut c) = pair(8);
        (0..5).for_each(|i| p.push(d(i)));
        p.publish();
        p.push(d(99)); // died before publishing
        assert_eq!(c.available(5), 5);
        c.release(2);
        let ring = p.ring().clone();
        drop((p, c));
        let (mut p, mut c) = (Producer::attach(ring.clone()), Consumer::attach(ring));
        assert_eq!((c.available(1), c.peek(0)), (3, d(2)));
        p.push(d(5));
        p.publish();
        assert_eq!((c.available(4), c.peek(3)), (4, d(5)));
    }
}
