//! What is searched for, and the goals that have names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing to search for: RFC 9971's *Search Goal* ("Goal Terms").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// What reports call it.
    pub name: String,
    /// A trial that loses a larger share than this is a *high-loss* trial: 0 to below 1.
    pub loss_ratio: f64,
    /// A load is still a lower bound if high-loss trials make up this share of its trials' time: 0 to below 1.
    pub exceed_ratio: f64,
    /// Shortest trial that is made for this goal, in seconds.
    pub initial_trial_s: f64,
    /// Trials shorter than this (*short* trials) cannot make a load a lower bound. In seconds.
    pub final_trial_s: f64,
    /// Trials' time at one load after which the load is certainly classified, in seconds.
    pub duration_sum_s: f64,
    /// The goal is reached when the bounds are this close, as a share of the upper one: above 0, below 1.
    pub width: f64,
}

/// Makes a goal.
pub type MakeGoal = fn() -> Goal;

/// A goal that nobody can search for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("goal \"{goal}\": {what}: found {found}, expected {expected}")]
pub struct GoalError {
    /// Its name.
    pub goal: String,
    /// Which attribute.
    pub what: &'static str,
    /// Its value.
    pub found: f64,
    /// What it may be.
    pub expected: &'static str,
}

impl Goal {
    /// Non-drop rate as CSIT searches for it: no loss in at least half of 21 trials of a second, to 0.5 %.
    #[must_use]
    pub fn ndr() -> Self {
        Self {
            name: "NDR".into(),
            loss_ratio: 0.0,
            exceed_ratio: 0.5,
            initial_trial_s: 1.0,
            final_trial_s: 1.0,
            duration_sum_s: 21.0,
            width: 0.005,
        }
    }

    /// Partial drop rate: as [`Goal::ndr`] with a loss of at most 0.5 % (CSIT).
    #[must_use]
    pub fn pdr() -> Self {
        Self { name: "PDR".into(), loss_ratio: 0.005, ..Self::ndr() }
    }

    /// Partial drop rate at 0.1 %, the limit that TRex and NFVbench use.
    #[must_use]
    pub fn pdr_strict() -> Self {
        Self { name: "PDR 0.1 %".into(), loss_ratio: 0.001, ..Self::ndr() }
    }

    /// RFC 2544 section 24 throughput, as RFC 9971 ("MLRsearch Compliant with RFC 2544") puts it: one trial of 60 s without loss. Shorter trials only
    /// show the way.
    #[must_use]
    pub fn rfc2544() -> Self {
        Self {
            name: "RFC 2544 throughput".into(),
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            initial_trial_s: 1.0,
            final_trial_s: 60.0,
            duration_sum_s: 60.0,
            width: 0.005,
        }
    }

    /// ETSI GS NFV-TST 009 clause 12.3.3 with max(r) = 2 and z without bound, as RFC 9971
    /// ("MLRsearch Compliant with TST009") puts it: of two trials
    /// of 60 s one is without loss.
    #[must_use]
    pub fn tst009() -> Self {
        Self { name: "TST009".into(), exceed_ratio: 0.5, duration_sum_s: 120.0, ..Self::rfc2544() }
    }

    /// Soak: 30 minutes in trials of a minute, none of which loses more than one frame in ten million (the critical
    /// loss ratio of CSIT's soak tests).
    #[must_use]
    pub fn soak() -> Self {
        Self { name: "soak".into(), loss_ratio: 1e-7, duration_sum_s: 1800.0, ..Self::rfc2544() }
    }

    /// The goals with names, by the name that a user writes.
    #[must_use]
    pub fn preset(name: &str) -> Option<Self> {
        Self::PRESETS.iter().find(|(n, _)| *n == name).map(|(_, goal)| goal())
    }

    /// Names of all presets and what makes them.
    pub const PRESETS: &'static [(&'static str, MakeGoal)] = &[
        ("ndr", Self::ndr),
        ("pdr", Self::pdr),
        ("pdr-0.1", Self::pdr_strict),
        ("rfc2544", Self::rfc2544),
        ("tst009", Self::tst009),
        ("soak", Self::soak),
    ];

    /// The same goal in less time: trials of `trial_s` seconds, `trials` of them to a decision. For a first look: the
    /// result is no longer what the goal's name promises, so the name says it.
    #[must_use]
    pub fn quick(self, trial_s: f64, trials: u32) -> Self {
        let duration_sum_s = trial_s * f64::from(trials.max(1));
        let name = format!("{}, quick: {trials} × {trial_s} s", self.name);
        Self { name, initial_trial_s: trial_s, final_trial_s: trial_s, duration_sum_s, ..self }
    }

    /// The width as a distance of logarithms: bounds are close enough when ln(upper/lower) is at most this.
    #[must_use]
    pub fn log_width(&self) -> f64 {
        -(-self.width).ln_1p()
    }

    /// Whether two bounds are close enough.
    #[must_use]
    pub fn is_narrow(&self, lower: f64, upper: f64) -> bool {
        upper - lower <= self.width * upper
    }

    /// # Errors
    /// The first attribute that is out of its range.
    pub fn check(&self) -> Result<(), GoalError> {
        const RATIO: &str = "0 to below 1";
        let below_one = |x: f64| (0.0..1.0).contains(&x);
        let positive = |x: f64| x > 0.0 && x.is_finite();
        let rules = [
            ("loss ratio", self.loss_ratio, below_one(self.loss_ratio), RATIO),
            ("exceed ratio", self.exceed_ratio, below_one(self.exceed_ratio), RATIO),
            ("width", self.width, self.width >= 1e-9 && self.width < 1.0, "1e-9 to below 1"),
            ("initial trial duration", self.initial_trial_s, positive(self.initial_trial_s), "seconds above 0"),
            (
                "final trial duration",
                self.final_trial_s,
                positive(self.final_trial_s) && self.final_trial_s >= self.initial_trial_s,
                "seconds, no less than the initial trial duration",
            ),
            (
                "duration sum",
                self.duration_sum_s,
                positive(self.duration_sum_s) && self.duration_sum_s >= self.final_trial_s,
                "seconds, no less than the final trial duration",
            ),
        ];
        match rules.into_iter().find(|(_, _, fine, _)| !fine) {
            Some((what, found, _, expected)) => Err(GoalError { goal: self.name.clone(), what, found, expected }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_can_be_searched_for_and_have_names_of_their_own() {
        let mut names: Vec<String> = Vec::new();
        for (key, make) in Goal::PRESETS {
            let goal = make();
            goal.check().unwrap();
            assert_eq!(Goal::preset(key), Some(goal.clone()));
            names.push(goal.name);
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Goal::PRESETS.len());
        assert_eq!(Goal::preset("NDR"), None);
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let wrong = [
            (Goal { loss_ratio: 1.0, ..Goal::ndr() }, "loss ratio"),
            (Goal { loss_ratio: f64::NAN, ..Goal::ndr() }, "loss ratio"),
            (Goal { exceed_ratio: -0.1, ..Goal::ndr() }, "exceed ratio"),
            (Goal { width: 0.0, ..Goal::ndr() }, "width"),
            (Goal { initial_trial_s: 0.0, ..Goal::ndr() }, "initial trial duration"),
            (Goal { final_trial_s: 0.5, ..Goal::ndr() }, "final trial duration"),
            (Goal { duration_sum_s: 0.5, ..Goal::ndr() }, "duration sum"),
            (Goal { duration_sum_s: f64::INFINITY, ..Goal::ndr() }, "duration sum"),
        ];
        for (goal, what) in wrong {
            let error = goal.check().unwrap_err();
            assert_eq!(error.what, what);
            assert!(error.to_string().starts_with("goal \"NDR\": "), "{error}");
        }
    }
}
