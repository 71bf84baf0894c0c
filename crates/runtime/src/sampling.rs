//! Which bursts an NF's cost is sampled in.

use chainline_shm::Clock;

/// Time between two samples.
const SAMPLE_NS: u64 = 1_000_000;
/// A sample that is due is taken in one of so many bursts.
const SPREAD: u32 = 16;

/// One burst a millisecond. An instance on a shared core sleeps most of the time, so a sample is mostly due when it has
/// just been woken, with cold caches and a neighbour to wake: were that burst always the one, an NF would seem to cost
/// several times what it does. So it is the first burst after that one time, the second the next time, and so on.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    /// Ticks.
    due: u64,
    /// Bursts to let go by when it is due.
    skip: u32,
    taken: u32,
}

impl Sampling {
    /// Whether the burst that begins at `now` is sampled.
    #[inline]
    pub fn takes(&mut self, now: u64, clock: Clock) -> bool {
        now >= self.due && self.takes_when_due(now, clock)
    }

    // Once a millisecond, and in the bursts that are let go by.
    #[cold]
    fn takes_when_due(&mut self, now: u64, clock: Clock) -> bool {
        let period = clock.ticks_in(SAMPLE_NS);
        // Of bursts that take long, none is let go by for longer than that.
        if self.skip > 0 && now < self.due + period {
            self.skip -= 1;
            return false;
        }
        self.due = now + period;
        self.taken = self.taken.wrapping_add(1);
        self.skip = self.taken % SPREAD;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_is_not_always_the_first_burst_after_a_pause() {
        let clock = Clock::measure(Duration::from_millis(1));
        let ns = |ns: u64| clock.ticks_in(ns);
        let mut sampling = Sampling::default();
        // Woken each 900 µs for 20 bursts of 5 µs.
        let mut at = [0; 20];
        for k in 0..3200_u64 {
            let woken = 1_000_000_000 + k * 1_000_000;
            (0..20).for_each(|b| at[b as usize] += u32::from(sampling.takes(ns(woken + b * 5_000), clock)));
        }
        let all: u32 = at.iter().sum();
        assert!(all > 1500, "{at:?}");
        assert!(at.iter().all(|n| *n < all / 4), "{at:?}");
    }

    #[test]
    fn bursts_that_take_long_are_sampled_too() {
        let clock = Clock::measure(Duration::from_millis(1));
        let mut sampling = Sampling::default();
        let taken = (0..100).filter(|k| sampling.takes(clock.ticks_in(1_000_000_000 + k * 3_000_000), clock)).count();
        assert_eq!(taken, 100);
    }
}
