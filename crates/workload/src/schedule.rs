//! When packets are to be sent.
//!
//! Times come from the schedule, never from a clock: what a sender is late by is the sender's latency and not the
//! schedule's. The same schedule and seed give the same times on every machine.

use crate::rng::Rng;

/// The shape of the arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// Equal gaps.
    #[default]
    Constant,
    /// Gaps of an exponential distribution: a Poisson process.
    Poisson,
    /// On and off: `packets` at the rate, then silence.
    Bursts {
        /// Packets of a burst, at least 1.
        packets: u32,
        /// From the last packet of a burst to the first of the next, in nanoseconds.
        gap_ns: f64,
    },
    /// From `from` times the rate to the rate itself, evenly over `over_ns`, then at the rate; or again and again.
    Ramp {
        /// Rate at the beginning, in units of the rate at the end.
        from: f64,
        /// How long it takes, in nanoseconds.
        over_ns: f64,
        /// Whether it begins again at the end.
        again: bool,
    },
}

/// The send times of packets, in nanoseconds from the start; they never decrease.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    /// Nanoseconds from packet to packet at the rate.
    gap: f64,
    /// Packets so far, since `since`.
    sent: u64,
    since: f64,
    rng: Rng,
}

/// Keeps the schedule's random numbers apart from the frames' ones.
const STREAM: u64 = 0x7363_6865_6475_6c65;

/// Why there is no such schedule.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// A rate that is no rate.
    #[error("rate of {0} packets a second: expected more than 0, and a number")]
    Rate(f64),
    /// A burst without packets or with an impossible gap.
    #[error("bursts of {packets} packets with gaps of {gap_ns} ns: expected at least 1 packet and more than 0 ns")]
    Bursts {
        /// Packets of a burst.
        packets: u32,
        /// The gap.
        gap_ns: f64,
    },
    /// A ramp from a rate below 0 or over no time.
    #[error("a ramp from {from} of the rate over {over_ns} ns: expected at least 0 and more than 0 ns")]
    Ramp {
        /// Where it begins.
        from: f64,
        /// How long it takes.
        over_ns: f64,
    },
}

impl Schedule {
    /// `pps` packets per second, in this shape; the first at 0 (of a Poisson process: after the first gap).
    ///
    /// # Errors
    /// Numbers that give no schedule.
    pub fn new(arrivals: Arrivals, pps: f64, seed: u64) -> Result<Self, ScheduleError> {
        if !(pps > 0.0 && pps.is_finite()) {
            return Err(ScheduleError::Rate(pps));
        }
        match arrivals {
            Arrivals::Bursts { packets, gap_ns } if packets == 0 || !(gap_ns > 0.0 && gap_ns.is_finite()) => {
                return Err(ScheduleError::Bursts { packets, gap_ns });
            }
            Arrivals::Ramp { from, over_ns, .. }
                if !(from >= 0.0 && from.is_finite() && over_ns > 0.0 && over_ns.is_finite()) =>
            {
                return Err(ScheduleError::Ramp { from, over_ns });
            }
            _ => {}
        }
        Ok(Self { arrivals, gap: 1e9 / pps, sent: 0, since: 0.0, rng: Rng::new(seed ^ STREAM) })
    }

    /// Begins again at 0. What is random goes on, so that two beginnings differ.
    pub fn restart(&mut self) {
        (self.sent, self.since) = (0, 0.0);
    }

    /// When the next packet is to be sent.
    #[inline]
    pub fn next_ns(&mut self) -> f64 {
        let i = self.sent;
        self.sent += 1;
        match self.arrivals {
            // By multiplication: a sum of a billion rounded gaps would drift.
            Arrivals::Constant => i as f64 * self.gap,
            Arrivals::Poisson => {
                self.since -= libm::log(self.rng.unit()) * self.gap;
                self.since
            }
            Arrivals::Bursts { packets, gap_ns } => {
                let (burst, place) = (i / u64::from(packets), i % u64::from(packets));
                let length = f64::from(packets - 1) * self.gap + gap_ns;
                burst as f64 * length + place as f64 * self.gap
            }
            Arrivals::Ramp { from, over_ns, again } => self.ramp(i, from, over_ns, again),
        }
    }

    /// Packet `i` of a ramp is due when the integral of the rate is `i`.
    fn ramp(&mut self, i: u64, from: f64, over: f64, again: bool) -> f64 {
        let (start, end) = (from / self.gap, 1.0 / self.gap);
        let slope = (end - start) / over;
        let whole = (start + end) / 2.0 * over;
        if i as f64 >= whole {
            if again {
                // The next ramp begins where this one ends; a ramp shorter than a packet would never end.
                self.since += over.max(self.gap);
                self.sent = 1;
                return self.since;
            }
            return self.since + over + (i as f64 - whole) * self.gap;
        }
        // start t + slope t² / 2 = i, in the form that does not subtract two near numbers.
        let root = libm::sqrt((start * start + 2.0 * slope * i as f64).max(0.0));
        let t = if start + root > 0.0 { 2.0 * i as f64 / (start + root) } else { 0.0 };
        self.since + t.min(over)
    }

    /// Mean rate in packets per second, in the long run; of a ramp that is not repeated, the rate at its end.
    #[must_use]
    pub fn mean_pps(&self) -> f64 {
        match self.arrivals {
            Arrivals::Constant | Arrivals::Poisson | Arrivals::Ramp { again: false, .. } => 1e9 / self.gap,
            Arrivals::Bursts { packets, gap_ns } => {
                1e9 * f64::from(packets) / (f64::from(packets - 1) * self.gap + gap_ns)
            }
            Arrivals::Ramp { from, again: true, .. } => 1e9 / self.gap * (1.0 + from) / 2.0,
        }
    }

    /// Whether all gaps are equal, and how long they are, in nanoseconds.
    #[must_use]
    pub fn constant_gap_ns(&self) -> Option<f64> {
        (self.arrivals == Arrivals::Constant).then_some(self.gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(arrivals: Arrivals, pps: f64, n: usize) -> Vec<f64> {
        let mut s = Schedule::new(arrivals, pps, 4).unwrap();
        (0..n).map(|_| s.next_ns()).collect()
    }

    #[test]
    fn constant_gaps() {
        assert_eq!(times(Arrivals::Constant, 1e6, 3), [0.0, 1000.0, 2000.0]);
    }

    #[test]
    fn bursts_and_silence() {
        let got = times(Arrivals::Bursts { packets: 3, gap_ns: 10_000.0 }, 1e6, 7);
        assert_eq!(got, [0.0, 1000.0, 2000.0, 12_000.0, 13_000.0, 14_000.0, 24_000.0]);
        let mean = Schedule::new(Arrivals::Bursts { packets: 3, gap_ns: 10_000.0 }, 1e6, 0).unwrap().mean_pps();
        assert!((mean - 250_000.0).abs() < 1e-6);
    }

    /// From 100 to 300 packets a second over 2 s: 400 packets, of which 150 are in the first second.
    #[test]
    fn a_ramp_climbs_evenly_and_stays() {
        let got = times(Arrivals::Ramp { from: 1.0 / 3.0, over_ns: 2e9, again: false }, 300.0, 1000);
        let before = |t: f64| got.iter().filter(|x| **x < t - 1.0).count();
        assert_eq!((before(1e9), before(2e9), before(3e9)), (150, 400, 700));
        let down = times(Arrivals::Ramp { from: 3.0, over_ns: 2e9, again: false }, 100.0, 1000);
        assert_eq!(down.iter().filter(|x| **x < 1e9 - 1.0).count(), 250);
    }

    #[test]
    fn a_ramp_that_begins_again() {
        let got = times(Arrivals::Ramp { from: 0.0, over_ns: 1e9, again: true }, 200.0, 1000);
        let within = |t: f64| got.iter().filter(|x| (t..t + 1e9 - 1.0).contains(*x)).count();
        assert_eq!((within(0.0), within(1e9), within(2e9)), (100, 100, 100));
    }

    /// Kolmogorov and Smirnov: gaps against the exponential distribution, at one in a million.
    #[test]
    fn gaps_of_a_poisson_process_are_exponential() {
        let got = times(Arrivals::Poisson, 2e6, 100_000);
        let mut gaps: Vec<f64> = got.iter().scan(0.0, |last, t| Some(t - std::mem::replace(last, *t))).collect();
        gaps.sort_unstable_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps.iter().enumerate().map(|(i, g)| {
            let p = 1.0 - (-g / 500.0).exp();
            (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
        });
        let distance = distance.fold(0.0, f64::max);
        assert!(distance < 2.69 / n.sqrt(), "{distance}");
        let mean = got.last().unwrap() / n;
        assert!((mean - 500.0).abs() < 5.0 * 500.0 / n.sqrt(), "{mean}");
    }

    #[test]
    fn schedules_that_cannot_be_are_refused() {
        for pps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Schedule::new(Arrivals::Constant, pps, 0).is_err());
        }
        let new = |a| Schedule::new(a, 1.0, 0).map(|_| ());
        assert!(new(Arrivals::Bursts { packets: 0, gap_ns: 1.0 }).is_err());
        assert!(new(Arrivals::Bursts { packets: 1, gap_ns: 0.0 }).is_err());
        assert!(new(Arrivals::Bursts { packets: 1, gap_ns: f64::NAN }).is_err());
        assert!(new(Arrivals::Ramp { from: -1.0, over_ns: 1.0, again: false }).is_err());
        assert!(new(Arrivals::Ramp { from: 0.0, over_ns: 0.0, again: false }).is_err());
    }

    proptest! {
        #[test]
        fn times_never_decrease(which in 0_u8..4, pps in 1e-3..1e9_f64, packets in 1_u32..100, x in 0.0..5.0_f64, over in 1e-3..1e12_f64, again: bool) {
            let arrivals = match which {
                0 => Arrivals::Constant,
                1 => Arrivals::Poisson,
                2 => Arrivals::Bursts { packets, gap_ns: over },
                _ => Arrivals::Ramp { from: x, over_ns: over, again },
            };
            let got = times(arrivals, pps, 500);
            prop_assert!(got.is_sorted() && got.iter().all(|t| t.is_finite() && *t >= 0.0), "{:?}", got);
        }
    }
}
