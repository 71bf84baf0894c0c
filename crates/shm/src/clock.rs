//! Time for the fast path: the time-stamp counter, scaled to nanoseconds.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Converts time-stamp counter readings to nanoseconds since the manager started. The manager measures it once
/// and gives it to all instances, so that their times compare.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    origin: u64,
    hz: u64,
    /// Nanoseconds per tick, times 2^32.
    mult: u64,
}

impl Clock {
    /// Measures the counter's rate against the system's monotonic clock for about `window`.
    #[must_use]
    pub fn measure(window: Duration) -> Self {
        let sample = || {
            // The pair with the least time between the two counter readings is the one that nobody interrupted.
            (0..16)
                .map(|_| {
                    let before = ticks();
                    let wall = Instant::now();
                    let after = ticks();
                    (after - before, before + (after - before) / 2, wall)
                })
                .min_by_key(|s| s.0)
                .map_or((0, Instant::now()), |s| (s.1, s.2))
        };
        let (t0, w0) = sample();
        std::thread::sleep(window);
        let (t1, w1) = sample();
        let ns = (w1 - w0).as_nanos().max(1) as u64;
        let hz = ((u128::from(t1 - t0) * 1_000_000_000) / u128::from(ns)).max(1) as u64;
        Self { origin: t0, hz, mult: ((1_000_000_000u128 << 32) / u128::from(hz)) as u64 }
    }

    /// Ticks a second.
    #[must_use]
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// Nanoseconds in `ticks`.
    #[inline]
    #[must_use]
    pub fn ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.mult)) >> 32) as u64
    }

    /// Ticks in `ns` nanoseconds; more than there can be are as many as there can be.
    #[must_use]
    pub fn ticks_in(&self, ns: u64) -> u64 {
        u64::try_from(u128::from(ns) * u128::from(self.hz) / 1_000_000_000).unwrap_or(u64::MAX)
    }

    /// Nanoseconds since the clock was measured.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.at_ns(ticks())
    }

    /// Nanoseconds from the clock's measurement to a reading of the counter.
    #[inline]
    #[must_use]
    pub fn at_ns(&self, ticks: u64) -> u64 {
        self.ns(ticks.wrapping_sub(self.origin))
    }
}

/// The time-stamp counter.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    // SAFETY: RDTSC has no precondition in user mode on any system that Linux runs x86-64 processes on.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Where there is no time-stamp counter that user space can read: the monotonic clock in nanoseconds.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_is_consistent() {
        let c = Clock { origin: 0, hz: 2_600_000_000, mult: ((1_000_000_000u128 << 32) / 2_600_000_000) as u64 };
        assert_eq!(c.ns(2_600_000_000), 999_999_999);
        assert_eq!(c.ticks_in(1_000), 2_600);
        // 100 years do not overflow.
        assert!(c.ns(2_600_000_000 * 86_400 * 36_500) > 3_000_000_000_000_000_000);
    }

    #[test]
    fn ticks_go_forward() {
        let c = Clock::measure(Duration::from_millis(1));
        assert!(c.hz() > 1_000_000);
        let a = c.now_ns();
        assert!(c.now_ns() >= a);
    }
}
