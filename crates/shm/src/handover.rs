//! Handing packets over to somebody who may be asleep, and room to somebody who waits for it: which look follows which
//! store, so that nobody sleeps on work; and when waking is worth it.

use crate::{Bell, Consumer, Producer};
use std::time::Duration;

/// What is known where it is decided whether to wake a sleeping consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Packets in its queue.
    pub packets: u32,
    /// As many are worth a wake-up: a switch costs about as much as a burst.
    pub wake_at: u32,
    /// The consumer goes before whoever fills its queue: each packet is worth it.
    pub urgent: bool,
    /// The oldest packet has waited for as long as it may, or no more packets will follow soon.
    pub overdue: bool,
    /// The consumer has no room for what it would do: it is woken by whoever makes some.
    pub stalled: bool,
}

/// Whether a sleeper is woken now.
#[inline]
#[must_use]
pub const fn worth_waking(w: Waiting) -> bool {
    w.packets > 0 && !w.stalled && (w.urgent || w.overdue || w.packets >= w.wake_at)
}

impl Producer {
    /// Shows the consumer what was pushed, and wakes it if that is worth it. Returns whether a system call was made.
    ///
    /// Without a full fence, which would wait until all that was pushed is in the consumer's reach: a consumer that is just
    /// falling asleep may be overlooked. The next call sees it, and who makes no next one gives away what it has before it
    /// rests ([`give_away`]), as the manager does in its sweep.
    #[inline]
    pub fn publish_to(&mut self, bell: &Bell, wake_at: u32, urgent: bool) -> bool {
        let packets = if self.publish() { self.len_at_most() } else { 0 };
        let w = Waiting { packets, wake_at, urgent, overdue: false, stalled: false };
        worth_waking(w) && self.wake(bell, w)
    }

    /// Wakes the consumer for whatever is in the queue: before this end rests. To be called after
    /// [`Bell::publish_fence`]. Returns whether a system call was made.
    pub fn hand_over(&self, bell: &Bell) -> bool {
        let w = Waiting { packets: self.ring().len(), overdue: true, ..Waiting::default() };
        worth_waking(w) && self.wake(bell, w)
    }

    /// Of a consumer that is asleep it is known how many packets wait: it takes none. What was known before may be from
    /// before its last turn.
    #[inline]
    fn wake(&self, bell: &Bell, w: Waiting) -> bool {
        let now = || Waiting { packets: self.ring().len(), stalled: self.consumer_is_stalled(), ..w };
        bell.is_asleep() && worth_waking(now()) && bell.ring()
    }

    /// Whether half of the queue is free: then a producer that ran out of room goes on, for long.
    #[inline]
    pub fn has_half_free(&mut self) -> bool {
        let half = self.ring().capacity() / 2;
        self.room(half) >= half
    }
}

impl Consumer {
    /// Wakes a producer that sleeps until there is room, once half of the queue is free. Without a full fence since the
    /// last [`Consumer::release`] it may overlook one that is just falling asleep: who rests looks again after one.
    /// Returns whether a system call was made.
    #[inline]
    pub fn offer_room(&self, producer: &Bell) -> bool {
        let ring = self.ring();
        self.producer_wants_room() && ring.len() <= ring.capacity() / 2 && producer.is_asleep() && producer.ring()
    }
}

/// The queues around a loop, as far as resting concerns them. Calls are system calls made.
pub trait Queues {
    /// [`Producer::hand_over`] of every output queue.
    fn hand_over(&mut self) -> u64;
    /// [`Consumer::offer_room`] of every input queue.
    fn offer_room(&mut self) -> u64;
    /// For every input queue that is blocked, as an output queue has no room: says so to its producer
    /// ([`Consumer::set_stalled`]) and to the consumers of its output queues ([`Producer::set_wants_room`]), or takes it
    /// back.
    fn show_blocked(&mut self, blocked: bool);
    /// Whether there is anything to do.
    fn has_work(&mut self) -> bool;
    /// It falls asleep, after so many calls to wake others.
    fn falls_asleep(&mut self, calls: u64);
}

/// Gives away what the loop has, once it finds nothing more to do: wakes whoever has packets or room from it.
pub fn give_away(queues: &mut impl Queues) -> u64 {
    Bell::publish_fence();
    queues.hand_over() + queues.offer_room()
}

/// Rests until there may be something to do, for `timeout` at most. Returns whether it slept.
pub fn rest(bell: &Bell, timeout: Duration, queues: &mut impl Queues) -> bool {
    Bell::publish_fence();
    let mut calls = queues.hand_over();
    queues.show_blocked(true);
    bell.announce_sleep();
    // A producer that ran out of room between the last release and now.
    calls += queues.offer_room();
    let sleeps = !queues.has_work();
    if sleeps {
        queues.falls_asleep(calls);
        bell.sleep(timeout);
    } else {
        bell.stay_awake();
    }
    queues.show_blocked(false);
    sleeps
}

#[cfg(test)]
#[cfg(loom)]
mod model;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn when_waking_is_worth_it() {
        let w = Waiting { packets: 1, wake_at: 32, ..Waiting::default() };
        let table = [
            ("nothing waits", Waiting { packets: 0, urgent: true, overdue: true, ..w }, false),
            ("nothing waits and nothing is needed", Waiting { packets: 0, wake_at: 0, ..w }, false),
            ("too few", w, false),
            ("almost enough", Waiting { packets: 31, ..w }, false),
            ("enough", Waiting { packets: 32, ..w }, true),
            ("more", Waiting { packets: 2048, ..w }, true),
            ("each packet counts on a stock platform", Waiting { wake_at: 1, ..w }, true),
            ("its priority is higher", Waiting { urgent: true, ..w }, true),
            ("the oldest waited long enough", Waiting { overdue: true, ..w }, true),
            ("no room behind it, however many", Waiting { packets: 2048, stalled: true, ..w }, false),
            ("no room, and a higher priority", Waiting { urgent: true, stalled: true, ..w }, false),
            ("no room, and old packets", Waiting { overdue: true, stalled: true, ..w }, false),
        ];
        for (what, waiting, expected) in table {
            assert_eq!(worth_waking(waiting), expected, "{what}");
        }
    }
}
