//! Back-to-back frames: RFC 2544 section 26.4 as RFC 9004 corrects it. The longest burst at the highest rate of which
//! nothing is lost; from it the size of the buffers, in time.
//!
//! A burst is a trial at the highest rate for (frames / rate) seconds. The measurer sees to what a trial needs besides:
//! an idle system before, the wait for the last frame and two seconds or more to empty buffers after (section 6.2).
//!
//! While the burst comes in, frames also go out; so the buffers are smaller than the burst: the *implied* buffer time
//! (frames / highest rate) is multiplied by (1 − throughput / highest rate) to give the *corrected* one (section 6.4).
//! Where the throughput is the highest rate, buffers never fill and there is nothing to measure (section 6.1).

use crate::session::{End, Session};
use crate::spread::Spread;
use crate::tst009::{climb, verify};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackToBack {
    /// The *maximum theoretical frame rate*: that of the burst, in frames a second.
    pub max_pps: f64,
    /// The *measured throughput* (RFC 2544 section 26.1), in frames a second.
    pub throughput_pps: f64,
    /// Longest burst that is tried, in seconds. The RFC asks for at least 30 to be possible.
    pub longest_s: f64,
    /// Resolution in frames.
    pub step_frames: u64,
    /// Whole searches.
    pub repeats: u32,
    /// Trials of a burst until it is given up: loss verification as in [`tst009`](crate::tst009).
    pub max_r: u32,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackToBackFound {
    /// Longest bursts without loss in frames, one a search. Their mean is the benchmark.
    pub frames: Option<Spread>,
    /// Mean burst / highest rate, in seconds.
    pub implied_s: Option<f64>,
    /// The size of the buffers in seconds at the highest rate.
    pub corrected_s: Option<f64>,
    /// Why there is no result although nothing ended early.
    pub unavailable: Option<String>,
    /// Why it ended before.
    pub end: Option<End>,
}

impl BackToBack {
    /// Ten searches for bursts of up to 30 s, to 32 frames, each burst tried up to twice.
    #[must_use]
    pub fn new(max_pps: f64, throughput_pps: f64) -> Self {
        Self { max_pps, throughput_pps, longest_s: 30.0, step_frames: 32, repeats: 10, max_r: 2 }
    }

    fn rungs(&self) -> u64 {
        (self.max_pps * self.longest_s / self.step_frames.max(1) as f64) as u64
    }

    /// Seconds that it takes at most, without overhead, which will be most of it.
    #[must_use]
    pub fn estimate_s(&self) -> f64 {
        // Doubling ends at the longest burst and costs twice as much in all; halving costs at most the same again a step.
        let halvings = f64::from(self.rungs().max(1).ilog2());
        f64::from(self.repeats) * f64::from(self.max_r.max(1)) * self.longest_s * (2.0 + halvings / 2.0)
    }

    /// Measures.
    pub fn run(&self, session: &mut Session<'_>) -> BackToBackFound {
        let none = BackToBackFound { frames: None, implied_s: None, corrected_s: None, unavailable: None, end: None };
        let because = |why: String| BackToBackFound { unavailable: Some(why), ..none.clone() };
        if self.throughput_pps.is_nan() || self.throughput_pps < 0.0 || self.rungs() == 0 || self.repeats == 0 {
            return because(format!("there is nothing to search in: {self:?}"));
        }
        if self.throughput_pps >= self.max_pps {
            return because("the throughput is the highest rate, so buffers never fill (RFC 9004 section 6.1)".into());
        }
        let mut bursts = Vec::new();
        for n in 0..self.repeats {
            session.begin(format!("back-to-back, search {} of {}", n + 1, self.repeats), self.estimate_s());
            match self.longest(session) {
                Ok(rung) if rung >= self.rungs() => {
                    let longest = self.longest_s;
                    return because(format!("a burst of {longest} s was not lost either: longer ones must be allowed"));
                }
                Ok(rung) => bursts.push((rung * self.step_frames.max(1)) as f64),
                Err(end) => return BackToBackFound { frames: Spread::of(&bursts), end: Some(end), ..none },
            }
        }
        let frames = Spread::of(&bursts);
        let implied_s = frames.map(|f| f.mean / self.max_pps);
        let corrected_s = implied_s.map(|s| s - s * self.throughput_pps / self.max_pps);
        BackToBackFound { frames, implied_s, corrected_s, ..none }
    }

    /// The longest burst without loss in steps. Doubles until one is lost, so that buffers of a millisecond are not
    /// looked for with bursts of fifteen seconds; then halves.
    fn longest(&self, session: &mut Session<'_>) -> Result<u64, End> {
        let top = self.rungs();
        let mut whole = |rung: u64| {
            let frames = (rung * self.step_frames.max(1)) as f64;
            // Half a frame more: rounding must not cost one.
            verify(session, (self.max_pps, (frames + 0.5) / self.max_pps), self.max_r, None).map(|(holds, _)| holds)
        };
        let (mut good, mut rung) = (0, 1.min(top));
        loop {
            if !whole(rung)? {
                let best = if rung > good + 1 { climb(good + 1, rung - 1, &mut whole)? } else { None };
                return Ok(best.unwrap_or(good));
            }
            good = rung;
            if good >= top {
                return Ok(top);
            }
            rung = rung.saturating_mul(2).min(top);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Budget;
    use crate::trial::{Input, Measured, Observation};

    /// Forwards `rate` frames a second out of a buffer for `buffer` frames.
    fn buffered(rate: f64, buffer: f64) -> impl FnMut(Input) -> Measured {
        move |trial| {
            let intended = (trial.load_pps * trial.duration_s) as u64;
            let lost = ((trial.load_pps - rate) * trial.duration_s - buffer).max(0.0) as u64;
            Measured::Valid(Observation::counted(trial.duration_s, intended, intended.saturating_sub(lost)))
        }
    }

    #[test]
    fn the_corrected_time_is_the_buffer_s() {
        let test = BackToBack { step_frames: 1, repeats: 3, ..BackToBack::new(10e6, 4e6) };
        let found = test.run(&mut Session::new(&mut buffered(4e6, 3000.0), Budget::default()));
        let frames = found.frames.unwrap();
        // 6 of 10 frames stay: 5,000 of them fill the buffer.
        assert!((frames.mean - 5000.0).abs() <= 2.0 && frames.n == 3, "{frames:?}");
        assert!((found.implied_s.unwrap() - 500e-6).abs() < 1e-6);
        assert!((found.corrected_s.unwrap() - 3000.0 / 10e6).abs() < 1e-6);
    }

    #[test]
    fn what_cannot_be_measured_says_why() {
        let budget = || Budget { seconds: 1e6, ..Budget::default() };
        let full = BackToBack::new(10e6, 10e6).run(&mut Session::new(&mut buffered(10e6, 10.0), budget()));
        assert!(full.unavailable.unwrap().contains("6.1"));
        let endless = BackToBack::new(1e4, 5e3).run(&mut Session::new(&mut buffered(1e4, 10.0), budget()));
        assert!(endless.unavailable.unwrap().contains("longer ones"));
        let nothing = BackToBack { longest_s: 0.0, ..BackToBack::new(1e4, 5e3) };
        assert!(nothing.run(&mut Session::new(&mut buffered(1e4, 10.0), budget())).unavailable.is_some());
        let none = BackToBack { step_frames: 1, ..BackToBack::new(10e6, 4e6) };
        let found = none.run(&mut Session::new(&mut buffered(-1e12, 0.0), budget()));
        assert_eq!(found.frames.map(|f| f.max), Some(0.0), "not even one frame survives");
    }
}
