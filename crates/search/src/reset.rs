//! Reset recovery: RFC 6201, which replaces RFC 2544 section 26.6. Frames are sent at a load that the system carries
//! without loss; meanwhile it is reset (a process killed, a program restarted, the power cut: the trial's maker does
//! it, and the report says what was reset); the time without forwarding is what is measured, in two ways:
//!
//! - by *frame loss*: lost frames / offered rate;
//! - by *time stamps*: from the last frame before the reset to the first after it.
//!
//! The measurer given to the session makes one reset in every trial, some time after its beginning and long enough before
//! its end for the system to recover.

use crate::session::{End, Session};
use crate::spread::Spread;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// The load in frames a second, at most the throughput.
    pub load_pps: f64,
    /// Length of a trial in seconds, much longer than the outage.
    pub duration_s: f64,
    /// Trials.
    pub repeats: u32,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResetFound {
    /// Seconds by frame loss.
    pub by_loss_s: Option<Spread>,
    /// Seconds by time stamps, where the measurer takes them in every trial.
    pub by_time_s: Option<Spread>,
    /// Trials in which half or more of the frames were lost: the system may not have recovered within them, so that the
    /// times are no more than lower limits.
    pub not_recovered: u32,
    /// Why it ended before; the values are those of the trials until then.
    pub end: Option<End>,
}

impl Reset {
    /// Ten trials of 30 s.
    #[must_use]
    pub fn new(load_pps: f64) -> Self {
        Self { load_pps, duration_s: 30.0, repeats: 10 }
    }

    /// Seconds that it takes, without overhead.
    #[must_use]
    pub fn estimate_s(&self) -> f64 {
        f64::from(self.repeats) * self.duration_s
    }

    /// Measures.
    pub fn run(&self, session: &mut Session<'_>) -> ResetFound {
        session.begin("reset recovery", self.estimate_s());
        let (mut by_loss, mut by_time, mut not_recovered, mut end) = (Vec::new(), Vec::new(), 0, None);
        for _ in 0..self.repeats {
            match session.measure(self.load_pps, self.duration_s) {
                Ok(trial) => {
                    let lost = trial.loss_ratio();
                    not_recovered += u32::from(lost >= 0.5);
                    by_loss.push(lost * trial.seen.intended as f64 / trial.input.load_pps);
                    by_time.extend(trial.seen.gap_ns.map(|ns| ns as f64 / 1e9));
                }
                Err(why) => {
                    end = Some(why);
                    break;
                }
            }
        }
        let by_time_s = if by_time.len() == by_loss.len() { Spread::of(&by_time) } else { None };
        ResetFound { by_loss_s: Spread::of(&by_loss), by_time_s, not_recovered, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Budget;
    use crate::trial::{Input, Measured, Observation};

    #[test]
    fn both_ways_agree_on_a_clean_outage() {
        let mut n = 0;
        let mut outage = |trial: Input| {
            n += 1;
            let down_s = f64::from(n) * 0.1;
            let intended = (trial.load_pps * trial.duration_s) as u64;
            let lost = (trial.load_pps * down_s).round() as u64;
            let counted = Observation::counted(trial.duration_s, intended, intended - lost);
            Measured::Valid(Observation { gap_ns: Some((down_s * 1e9) as u64), ..counted })
        };
        let found = Reset { repeats: 3, ..Reset::new(1e5) }.run(&mut Session::new(&mut outage, Budget::default()));
        let (loss, time) = (found.by_loss_s.unwrap(), found.by_time_s.unwrap());
        assert!((loss.mean - 0.2).abs() < 1e-9 && (time.mean - 0.2).abs() < 1e-9);
        assert_eq!((loss.n, found.not_recovered, found.end), (3, 0, None));
    }

    #[test]
    fn a_system_that_stays_down_is_not_called_recovered() {
        let mut dead = |trial: Input| Measured::Valid(Observation::counted(trial.duration_s, 1000, 100));
        let found = Reset { repeats: 2, ..Reset::new(1e5) }.run(&mut Session::new(&mut dead, Budget::default()));
        assert_eq!((found.not_recovered, found.by_time_s), (2, None));
    }
}
