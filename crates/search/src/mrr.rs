//! MRR, maximum receive rate: what arrives when as much as possible is sent, in ten trials of a second (FD.io CSIT,
//! "Maximum Receive Rate"). No search: quick, and blind to loss. The forwarding rate of RFC 2285 section 3.6.2 at maximum
//! offered load is the same quantity.

use crate::session::{End, Session};
use crate::spread::Spread;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mrr {
    /// The load in frames a second: the most that the generator makes.
    pub max_pps: f64,
    /// Length of a trial in seconds.
    pub duration_s: f64,
    /// Trials.
    pub repeats: u32,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MrrFound {
    /// Frames a second that arrived, by trial.
    pub pps: Option<Spread>,
    /// Why it ended before.
    pub end: Option<End>,
}

impl Mrr {
    /// Ten trials of a second.
    #[must_use]
    pub fn new(max_pps: f64) -> Self {
        Self { max_pps, duration_s: 1.0, repeats: 10 }
    }

    /// Seconds that it takes, without overhead.
    #[must_use]
    pub fn estimate_s(&self) -> f64 {
        f64::from(self.repeats) * self.duration_s
    }

    /// Measures.
    pub fn run(&self, session: &mut Session<'_>) -> MrrFound {
        session.begin("MRR", self.estimate_s());
        let trials: Result<Vec<_>, End> =
            (0..self.repeats).map(|_| session.measure(self.max_pps, self.duration_s)).collect();
        // Of an early end the trials before are in the session's record; a mean of fewer is no MRR.
        match trials {
            Ok(trials) => {
                let rates: Vec<f64> = trials.iter().map(crate::Trial::forwarding_pps).collect();
                MrrFound { pps: Spread::of(&rates), end: None }
            }
            Err(end) => MrrFound { pps: None, end: Some(end) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlr::tests::sharp;
    use crate::session::Budget;

    #[test]
    fn ten_trials_of_a_second() {
        let mut system = sharp(1e6);
        let mut session = Session::new(&mut system, Budget::default());
        let found = Mrr::new(2e6).run(&mut session);
        let pps = found.pps.unwrap();
        assert_eq!((pps.n, pps.mean, pps.stdev, session.spent_s()), (10, 1e6, 0.0, 10.0));
        let early = Mrr::new(2e6).run(&mut Session::new(&mut system, Budget { trials: 9, ..Budget::default() }));
        assert!(early.pps.is_none() && early.end.is_some());
    }
}
