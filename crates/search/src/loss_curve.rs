//! Frame loss against load: RFC 2544 section 26.3. The first trial is at 100 % of the maximum rate, then in steps of 10 %
//! (finer ones are encouraged) down, until two successive trials lose nothing.

use crate::session::{End, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LossCurve {
    /// The rate that is 100 %, in frames a second.
    pub max_pps: f64,
    /// Distance of two points in percent of it: above 0, at most 10.
    pub step_percent: f64,
    /// Length of a trial in seconds; the RFC's formal tests take 60 (section 24).
    pub duration_s: f64,
    /// Whether to go on to the lowest load, past two trials without loss.
    pub whole: bool,
}

/// One point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossPoint {
    /// Load in percent of the maximum.
    pub percent: f64,
    /// Load in frames a second.
    pub load_pps: f64,
    /// Share of the frames that was lost, 0 to 1.
    pub loss_ratio: f64,
    /// Frames a second that arrived.
    pub forwarding_pps: f64,
}

/// The curve, from the highest load down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossCurveFound {
    /// Its points.
    pub points: Vec<LossPoint>,
    /// Whether it ends as the RFC has it: with two successive trials without loss.
    pub complete: bool,
    /// Why it ended before.
    pub end: Option<End>,
}

impl LossCurve {
    /// Steps of 10 % from `max_pps`, with trials of 60 s.
    #[must_use]
    pub fn new(max_pps: f64) -> Self {
        Self { max_pps, step_percent: 10.0, duration_s: 60.0, whole: false }
    }

    /// The step as used: what is out of range counts as 10 %, the largest that the RFC allows; the smallest is 0.1 %.
    fn step(&self) -> f64 {
        if self.step_percent > 0.0 { self.step_percent.clamp(0.1, 10.0) } else { 10.0 }
    }

    fn percents(&self) -> impl Iterator<Item = f64> {
        let step = self.step();
        (0u32..).map(move |i| 100.0 - f64::from(i) * step).take_while(|p| *p > 1e-9)
    }

    /// Seconds that it takes at most, without overhead.
    #[must_use]
    pub fn estimate_s(&self) -> f64 {
        self.percents().count() as f64 * self.duration_s
    }

    /// Measures.
    pub fn run(&self, session: &mut Session<'_>) -> LossCurveFound {
        session.begin("frame loss curve", self.estimate_s());
        let mut found = LossCurveFound { points: Vec::new(), complete: false, end: None };
        let mut without_loss = 0;
        for percent in self.percents() {
            let load_pps = self.max_pps * percent / 100.0;
            let trial = match session.measure(load_pps, self.duration_s) {
                Ok(trial) => trial,
                Err(end) => {
                    found.end = Some(end);
                    break;
                }
            };
            let loss_ratio = trial.loss_ratio();
            found.points.push(LossPoint { percent, load_pps, loss_ratio, forwarding_pps: trial.forwarding_pps() });
            without_loss = if loss_ratio > 0.0 { 0 } else { without_loss + 1 };
            found.complete |= without_loss >= 2;
            if found.complete && !self.whole {
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlr::tests::sharp;
    use crate::session::Budget;

    #[test]
    fn ends_after_two_trials_without_loss() {
        let curve = LossCurve { duration_s: 1.0, ..LossCurve::new(1e6) };
        let found = curve.run(&mut Session::new(&mut sharp(650_000.0), Budget::default()));
        let percents: Vec<f64> = found.points.iter().map(|p| p.percent).collect();
        assert_eq!(percents, [100.0, 90.0, 80.0, 70.0, 60.0, 50.0]);
        assert!(found.complete && found.points[0].loss_ratio == 0.35 && found.points[0].forwarding_pps == 650_000.0);
        let whole = LossCurve { whole: true, ..curve };
        assert_eq!(whole.run(&mut Session::new(&mut sharp(650_000.0), Budget::default())).points.len(), 10);
    }

    #[test]
    fn a_curve_that_never_is_without_loss_says_so() {
        let curve = LossCurve { duration_s: 1.0, ..LossCurve::new(1e6) };
        let found = curve.run(&mut Session::new(&mut sharp(10.0), Budget::default()));
        assert!(!found.complete && found.points.len() == 10 && found.end.is_none());
        let stopped = curve.run(&mut Session::new(&mut sharp(10.0), Budget { trials: 3, ..Budget::default() }));
        assert!(!stopped.complete && stopped.points.len() == 3 && matches!(stopped.end, Some(End::Budget { .. })));
        assert!(LossCurve { step_percent: f64::NAN, ..curve }.estimate_s() == 10.0);
    }
}
