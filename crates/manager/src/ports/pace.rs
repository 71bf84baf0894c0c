//! When packets are due.

use super::PORT_BURST;
use chainline_chain::model::Rate;
use chainline_shm::Clock;
use chainline_workload::Schedule;

/// Bytes that a frame takes on the wire besides itself: FCS, preamble, start delimiter, gap (IEEE 802.3).
const WIRE_OVERHEAD: f64 = 24.0;

/// The times at which a source sends, in ticks: from its schedule, never from the clock that it is read with.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Ticks from packet to packet; 0: whenever it is asked.
    interval: f64,
    next: f64,
    /// Gaps that differ.
    shaped: Option<Box<Shaped>>,
}

/// A schedule, and its next times.
#[derive(Clone, Debug)]
struct Shaped {
    schedule: Schedule,
    ticks_per_ns: f64,
    origin: f64,
    /// Due times from `first` on, `len` of them, at least 1; they never decrease.
    ahead: [f64; PORT_BURST],
    first: usize,
    len: usize,
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
        Self { interval, next: 0.0, shaped: None }
    }

    /// For a schedule; `None`: whenever it is asked.
    pub fn scheduled(schedule: Option<Schedule>, clock: &Clock) -> Self {
        let ticks_per_ns = clock.hz() as f64 / 1e9;
        let constant = schedule.as_ref().map(Schedule::constant_gap_ns);
        let interval = match constant {
            None => 0.0,
            Some(gap) => gap.unwrap_or(0.0) * ticks_per_ns,
        };
        let shaped = schedule.filter(|s| s.constant_gap_ns().is_none()).map(|schedule| {
            Box::new(Shaped { schedule, ticks_per_ns, origin: 0.0, ahead: [0.0; PORT_BURST], first: 0, len: 0 })
        });
        Self { interval, next: 0.0, shaped }
    }

    /// Packets due by `now`, at most `max` and at most [`PORT_BURST`].
    #[inline]
    pub fn due_by(&mut self, now: u64, max: usize) -> usize {
        if let Some(shaped) = &mut self.shaped {
            return shaped.due_by(now as f64, max);
        }
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
        if let Some(shaped) = &mut self.shaped {
            return shaped.take() as u64;
        }
        if self.interval == 0.0 {
            return now;
        }
        let due = self.next;
        self.next += self.interval;
        due as u64
    }

    /// When the next packet is due.
    pub fn next(&self) -> Option<u64> {
        match &self.shaped {
            Some(shaped) => shaped.ahead.get(shaped.first).map(|t| *t as u64),
            None => (self.interval > 0.0).then_some(self.next as u64),
        }
    }

    /// Starts at `now`.
    pub fn start(&mut self, now: u64) {
        self.next = now as f64;
        if let Some(shaped) = &mut self.shaped {
            shaped.origin = now as f64;
            shaped.push();
        }
    }
}

impl Shaped {
    /// One more time; there is room.
    fn push(&mut self) {
        let at = (self.first + self.len) % PORT_BURST;
        self.ahead[at] = self.origin + self.schedule.next_ns() * self.ticks_per_ns;
        self.len += 1;
    }

    fn due_by(&mut self, now: f64, max: usize) -> usize {
        let mut n = 0;
        while n < max.min(PORT_BURST) {
            if n == self.len {
                self.push();
            }
            if self.ahead[(self.first + n) % PORT_BURST] > now {
                break;
            }
            n += 1;
        }
        n
    }

    fn take(&mut self) -> f64 {
        let due = self.ahead[self.first];
        self.first = (self.first + 1) % PORT_BURST;
        self.len -= 1;
        if self.len == 0 {
            self.push();
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chainline_workload::Arrivals;
    use std::time::Duration;

    /// However it is asked, a schedule's packets come with its times, all of them and in order.
    #[test]
    fn due_times_are_the_schedule_s_however_late_it_is_asked() {
        let clock = Clock::measure(Duration::ZERO);
        let ticks = clock.hz() as f64 / 1e9;
        let ramp = Arrivals::Ramp { from: 0.1, over_ns: 1e6, again: true };
        for arrivals in [Arrivals::Poisson, Arrivals::Bursts { packets: 100, gap_ns: 5e5 }, ramp] {
            let schedule = Schedule::new(arrivals, 1e6, 3).unwrap();
            let mut alone = schedule.clone();
            let mut pace = Pace::scheduled(Some(schedule), &clock);
            pace.start(1_000_000);
            let (mut now, mut taken) = (1_000_000_u64, 0);
            for step in 0..2000_u64 {
                now += (step * 7919) % 300_000;
                let n = pace.due_by(now, (step % 70) as usize);
                assert!(n <= PORT_BURST);
                for _ in 0..n {
                    let due = pace.take(now);
                    let wanted = (1e6 + alone.next_ns() * ticks) as u64;
                    assert_eq!(due, wanted);
                    assert!(due <= now);
                    taken += 1;
                }
                assert!(n < PORT_BURST.min((step % 70) as usize) || n == 0 || pace.next().is_some());
                if n < (step % 70).min(PORT_BURST as u64) as usize {
                    assert!(pace.next().is_some_and(|t| t >= now), "the next is not due");
                }
            }
            assert!(taken > 10_000, "{taken}");
        }
    }

    #[test]
    fn a_constant_schedule_is_a_steady_rate() {
        let clock = Clock::measure(Duration::ZERO);
        let schedule = Schedule::new(Arrivals::Constant, 1e6, 0).unwrap();
        let mut a = Pace::scheduled(Some(schedule), &clock);
        let mut b = Pace::new(Rate::PacketsPerSecond(1e6), 60.0, &clock);
        (a.start(5), b.start(5));
        assert_eq!((0..1000).map(|_| a.take(0)).collect::<Vec<_>>(), (0..1000).map(|_| b.take(0)).collect::<Vec<_>>());
        assert_eq!(Pace::scheduled(None, &clock).next(), None);
    }
}
