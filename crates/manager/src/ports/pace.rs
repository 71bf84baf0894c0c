//! When packets are due.

use chainline_chain::model::Rate;
use chainline_shm::Clock;

/// Bytes that a frame takes on the wire besides itself: FCS, preamble, start delimiter, gap (IEEE 802.3).
const WIRE_OVERHEAD: f64 = 24.0;

/// The times at which a source sends at a steady rate.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Ticks from packet to packet; 0: whenever it is asked.
    interval: f64,
    next: f64,
}

impl Pace {
    /// For the rate of a chain file. A rate in bits becomes one in packets by the mean length of the source's
    /// frames (in bytes, without FCS), so it holds over a period of the mix.
    pub fn new(rate: Rate, mean_len: f64, clock: &Clock) -> Self {
        let hz = clock.hz() as f64;
        let interval = match rate {
            Rate::PacketsPerSecond(r) => hz / r,
            Rate::BitsPerSecond(r) => hz * 8.0 * (mean_len + WIRE_OVERHEAD) / r,
            Rate::Max | Rate::Recorded => 0.0,
        };
        Self { interval, next: 0.0 }
    }

    /// Packets due by `now`, at most `max`.
    #[inline]
    pub fn due_by(&self, now: u64, max: usize) -> usize {
        let behind = now as f64 - self.next;
        if self.interval == 0.0 {
            max
        } else if behind < 0.0 {
            0
        } else {
            ((behind / self.interval) as usize + 1).min(max)
        }
    }

    /// A packet that is due goes out: the time at which it should have.
    #[inline]
    pub fn take(&mut self, now: u64) -> u64 {
        if self.interval == 0.0 {
            return now;
        }
        let due = self.next;
        self.next += self.interval;
        due as u64
    }

    /// When the next packet is due.
    pub fn next(&self) -> Option<u64> {
        (self.interval > 0.0).then_some(self.next as u64)
    }

    /// Starts at `now`.
    pub fn start(&mut self, now: u64) {
        self.next = now as f64;
    }
}
