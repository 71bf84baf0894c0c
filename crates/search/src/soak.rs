//! Soak: one load for half an hour, watched in slices. What a search calls throughput is what a second shows; leaks,
//! timers and tables that fill up show later. (The goal [`Goal::soak`](crate::Goal::soak) searches for the load that
//! lasts; CSIT's own soak search, PLRsearch, fits loss models to trials and is not done here.)

use crate::session::{End, Session};
use crate::spread::Spread;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Soak {
    /// The load in frames a second.
    pub load_pps: f64,
    /// Length of a slice in seconds: one trial.
    pub slice_s: f64,
    /// Slices.
    pub slices: u32,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SoakFound {
    /// Loss ratio by slice, in order.
    pub loss_ratios: Vec<f64>,
    /// Loss ratio of all frames.
    pub loss_ratio: f64,
    /// Seconds watched.
    pub seconds: f64,
    /// Loss ratios of the first and of the second half, by slice: whether it gets worse.
    pub halves: Option<(Spread, Spread)>,
    /// Why it ended before.
    pub end: Option<End>,
}

impl Soak {
    /// 30 slices of a minute.
    #[must_use]
    pub fn new(load_pps: f64) -> Self {
        Self { load_pps, slice_s: 60.0, slices: 30 }
    }

    /// Seconds that it takes, without overhead.
    #[must_use]
    pub fn estimate_s(&self) -> f64 {
        f64::from(self.slices) * self.slice_s
    }

    /// Measures.
    pub fn run(&self, session: &mut Session<'_>) -> SoakFound {
        session.begin("soak", self.estimate_s());
        let (mut loss_ratios, mut lost, mut intended, mut end) = (Vec::new(), 0.0, 0.0, None);
        for _ in 0..self.slices {
            match session.measure(self.load_pps, self.slice_s) {
                Ok(trial) => {
                    intended += trial.seen.intended as f64;
                    lost += trial.loss_ratio() * trial.seen.intended as f64;
                    loss_ratios.push(trial.loss_ratio());
                }
                Err(why) => {
                    end = Some(why);
                    break;
                }
            }
        }
        let (first, second) = loss_ratios.split_at(loss_ratios.len() / 2);
        let halves = Spread::of(first).zip(Spread::of(second));
        let seconds = loss_ratios.len() as f64 * self.slice_s;
        let loss_ratio = if intended > 0.0 { lost / intended } else { 0.0 };
        SoakFound { loss_ratios, loss_ratio, seconds, halves, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Budget;
    use crate::trial::{Input, Measured, Observation};

    #[test]
    fn a_slow_leak_shows_in_the_second_half() {
        let mut minute = 0;
        let mut leaks = |trial: Input| {
            minute += 1;
            let intended = (trial.load_pps * trial.duration_s) as u64;
            let lost = if minute > 20 { 600 } else { 0 };
            Measured::Valid(Observation::counted(trial.duration_s, intended, intended - lost))
        };
        let mut session = Session::new(&mut leaks, Budget::default());
        let found = Soak::new(1e3).run(&mut session);
        let (first, second) = found.halves.unwrap();
        assert_eq!((first.max, second.max, found.seconds), (0.0, 0.01, 1800.0));
        assert!((found.loss_ratio - 0.01 / 3.0).abs() < 1e-12);
    }
}
