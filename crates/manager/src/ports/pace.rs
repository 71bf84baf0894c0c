//! When packets are due.

use super::PORT_BURST;
use chainline_chain::model::Rate;
use chainline_shm::Clock;
use chainline_workload::Schedule;

/// Bytes that a frame takes on the wire besides itself: FCS, preamble, start delimiter, gap (IEEE 802.3).
const WIRE_OVERHEAD: f64 = 24.0;

/// The times at which a source sends, in ticks: from its schedule, never from the clock that it is read with. They are
/// counted from the first packet's, so that a fraction of a tick is left of a float's digits however long the machine has
/// been up.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Ticks from packet to packet; 0: whenever it is asked.
    interval: f64,
    start: u64,
    next: f64,
    /// Gaps that differ.
    shaped: Option<Box<Shaped>>,
}

/// A schedule, and its next times.
#[derive(Clone, Debug)]
struct Shaped {
    schedule: Schedule,
    ticks_per_ns: f64,
    /// Due times from `first` on, `len` of them, at least 1; they never decrease.
    ahead: [f64; PORT_BURST],
    first: usize,
    len: usize,
}

impl Pace {
    /// For the rate of a chain file. A rate in bits becomes one in packets by the mean length of the source's
    /// frames (in bytes, without FCS), so it holds over a period of the mix.
    pub fn new(rate: Rate, mean_len: f64, clock: &Clock) -> Self {
        Self::steady(
            match rate {
                Rate::PacketsPerSecond(r) => r,
                Rate::BitsPerSecond(r) => r / (8.0 * (mean_len + WIRE_OVERHEAD)),
                Rate::Max | Rate::Recorded => f64::INFINITY,
            },
            clock,
        )
    }

    /// At `pps` packets a second; infinite: whenever it is asked.
    pub fn steady(pps: f64, clock: &Clock) -> Self {
        Self { interval: clock.hz() as f64 / pps, start: 0, next: 0.0, shaped: None }
    }

    /// For a schedule; `None`: whenever it is asked.
    pub fn scheduled(schedule: Option<Schedule>, clock: &Clock) -> Self {
        let ticks_per_ns = clock.hz() as f64 / 1e9;
        let constant = schedule.as_ref().map(Schedule::constant_gap_ns);
        let interval = match constant {
            None => 0.0,
            Some(gap) => gap.unwrap_or(0.0) * ticks_per_ns,
        };
        let shaped = schedule
            .filter(|s| s.constant_gap_ns().is_none())
            .map(|schedule| Box::new(Shaped { schedule, ticks_per_ns, ahead: [0.0; PORT_BURST], first: 0, len: 0 }));
        Self { interval, start: 0, next: 0.0, shaped }
    }

    /// The same gaps one to another, stretched so that in the long run `pps` packets a second are due.
    pub fn at(&self, pps: f64, clock: &Clock) -> Self {
        let mut this = Self::steady(pps, clock);
        this.shaped.clone_from(&self.shaped);
        if let Some(shaped) = &mut this.shaped {
            this.interval = 0.0;
            shaped.ticks_per_ns = clock.hz() as f64 / 1e9 * shaped.schedule.mean_pps() / pps;
        }
        this
    }

    /// Goes on with what is random where `other`, a pace of the same shape, left it.
    pub fn go_on_from(&mut self, other: &Self) {
        if let (Some(mine), Some(theirs)) = (&mut self.shaped, &other.shaped) {
            mine.schedule.clone_from(&theirs.schedule);
        }
    }

    /// Packets due by `now`, at most `max` and at most [`PORT_BURST`].
    #[inline]
    pub fn due_by(&mut self, now: u64, max: usize) -> usize {
        // Before the start nothing is due.
        let since = now.wrapping_sub(self.start) as i64 as f64;
        if let Some(shaped) = &mut self.shaped {
            return shaped.due_by(since, max);
        }
        if self.interval == 0.0 {
            return max;
        }
        let behind = since - self.next;
        if behind < 0.0 { 0 } else { ((behind / self.interval) as usize).saturating_add(1).min(max) }
    }

    /// A packet that is due goes out: the time at which it should have.
    #[inline]
    pub fn take(&mut self, now: u64) -> u64 {
        if let Some(shaped) = &mut self.shaped {
            return self.start + shaped.take() as u64;
        }
        if self.interval == 0.0 {
            return now;
        }
        let due = self.start + self.next as u64;
        self.next += self.interval;
        due
    }

    /// The first tick at which the next packet is due.
    pub fn next(&self) -> Option<u64> {
        let next = match &self.shaped {
            Some(shaped) => shaped.ahead.get(shaped.first).copied(),
            None => (self.interval > 0.0).then_some(self.next),
        };
        next.map(|next| self.start + next.ceil() as u64)
    }

    /// Packets that are due by the last tick before `until` and have not gone out; of gaps that differ, as many as are on
    /// the average. One that is due a fraction of a tick before `until` goes out at it, and is none of them.
    pub fn left_before(&self, until: u64) -> u64 {
        let last = until.wrapping_sub(1).wrapping_sub(self.start) as i64 as f64;
        let (next, interval) = match &self.shaped {
            Some(s) => (s.ahead[s.first], s.ticks_per_ns * 1e9 / s.schedule.mean_pps()),
            None => (self.next, self.interval),
        };
        if interval > 0.0 && last >= next { ((last - next) / interval) as u64 + 1 } else { 0 }
    }

    /// Packets a second in the long run; none: as many as are asked for.
    pub fn pps(&self, clock: &Clock) -> Option<f64> {
        let steady = (self.interval > 0.0).then(|| clock.hz() as f64 / self.interval);
        self.shaped.as_ref().map(|s| s.schedule.mean_pps()).or(steady)
    }

    /// Starts at `now`, with the first of its gaps.
    pub fn start(&mut self, now: u64) {
        (self.start, self.next) = (now, 0.0);
        if let Some(shaped) = &mut self.shaped {
            (shaped.first, shaped.len) = (0, 0);
            shaped.schedule.restart();
            shaped.push();
        }
    }
}

impl Shaped {
    /// One more time; there is room.
    fn push(&mut self) {
        let at = (self.first + self.len) % PORT_BURST;
        self.ahead[at] = self.schedule.next_ns() * self.ticks_per_ns;
        self.len += 1;
    }

    fn due_by(&mut self, since: f64, max: usize) -> usize {
        let mut n = 0;
        while n < max.min(PORT_BURST) {
            if n == self.len {
                self.push();
            }
            if self.ahead[(self.first + n) % PORT_BURST] > since {
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
                    // The sum of floats may round up to a whole tick that the gap alone does not reach.
                    let wanted = 1_000_000 + (alone.next_ns() * ticks) as u64;
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
        a.start(5);
        b.start(5);
        assert_eq!((0..1000).map(|_| a.take(0)).collect::<Vec<_>>(), (0..1000).map(|_| b.take(0)).collect::<Vec<_>>());
        assert_eq!(Pace::scheduled(None, &clock).next(), None);
    }

    #[test]
    fn so_many_are_due_as_the_rate_says_whatever_the_hour() {
        let clock = Clock::measure(Duration::from_millis(1));
        for start in [0, 1 << 40, 1 << 60] {
            for pps in [1.0, 999.9, 1e6, 14.88e6] {
                let mut pace = Pace::steady(pps, &clock);
                pace.start(start);
                let end = start + clock.hz() / 10;
                assert_eq!(pace.due_by(start.saturating_sub(1), 64), usize::from(start == 0), "{start} {pps}");
                let expected = pace.left_before(end);
                let mut due = Vec::new();
                while pace.due_by(end - 1, 1) == 1 {
                    due.push(pace.take(end));
                }
                assert_eq!(due.len() as u64, expected, "{start} {pps}");
                assert!((due.len() as f64 - pps / 10.0).abs() <= 1.0, "{start} {pps}: {}", due.len());
                assert!(due.is_sorted() && due.iter().all(|at| (start..end).contains(at)));
                assert_eq!(pace.left_before(end), 0);
            }
        }
    }

    /// A packet that is due between the last tick of a window and its end is not of the window, and nobody waits for it.
    #[test]
    fn what_is_due_a_fraction_of_a_tick_before_the_end_is_not_missed() {
        let clock = Clock::measure(Duration::from_millis(1));
        let mut pace = Pace::steady(clock.hz() as f64 / 2.5, &clock);
        pace.start(100);
        assert_eq!((pace.left_before(103), pace.left_before(104), pace.left_before(100)), (1, 2, 0));
        assert_eq!(pace.due_by(102, 64), 1);
        pace.take(102);
        assert_eq!((pace.left_before(103), pace.next()), (0, Some(103)));
    }

    /// A shape keeps its shape at any rate; no two trials have the same random gaps.
    #[test]
    fn a_shape_is_stretched_to_a_rate() {
        let clock = Clock::measure(Duration::from_millis(1));
        let bursts = Arrivals::Bursts { packets: 10, gap_ns: 91_000.0 };
        for (arrivals, most) in [(Arrivals::Poisson, 0.05), (bursts, 0.001)] {
            let mut shape = Pace::scheduled(Schedule::new(arrivals, 1e6, 3).ok(), &clock);
            let mut last = Vec::new();
            for pps in [5e4, 5e4, 1e6] {
                let mut pace = shape.at(pps, &clock);
                pace.start(7);
                let end = 7 + clock.hz() / 10;
                let mut due = Vec::new();
                while pace.next() < Some(end) {
                    due.push(pace.take(end) - 7);
                }
                let ratio = due.len() as f64 / (pps / 10.0);
                assert!((ratio - 1.0).abs() < most, "{arrivals:?}: {} at {pps}", due.len());
                assert_eq!(due == last, arrivals == bursts && pps == 5e4 && !last.is_empty());
                shape.go_on_from(&pace);
                last = due;
            }
        }
    }
}
