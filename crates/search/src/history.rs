//! The trials made so far, by load, and the bounds that they give.

use crate::classify::{Class, Sums, conditional_throughput};
use crate::goal::Goal;
use crate::trial::Trial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Trials by load, smallest load first.
#[derive(Clone, Debug, Default)]
pub struct History {
    // Positive floats are ordered as their bits are.
    by_load: BTreeMap<u64, Vec<Trial>>,
}

/// Bounds for a goal: RFC 9971, "Result Terms". Loads in frames a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// *Relevant lower bound*: the largest lower bound below the relevant upper bound; without such, the largest of all.
    pub lower_pps: Option<f64>,
    /// *Relevant upper bound*: the smallest upper bound.
    pub upper_pps: Option<f64>,
    /// *Conditional throughput* at the lower bound.
    pub throughput_pps: Option<f64>,
}

impl History {
    /// Adds a trial.
    pub fn add(&mut self, trial: Trial) {
        self.by_load.entry(trial.input.load_pps.to_bits()).or_default().push(trial);
    }

    /// Loads and their trials, smallest load first.
    pub fn loads(&self) -> impl DoubleEndedIterator<Item = (f64, &[Trial])> {
        self.by_load.iter().map(|(bits, trials)| (f64::from_bits(*bits), trials.as_slice()))
    }

    /// Trials at exactly this load.
    #[must_use]
    pub fn at(&self, load_pps: f64) -> &[Trial] {
        self.by_load.get(&load_pps.to_bits()).map_or(&[], Vec::as_slice)
    }

    /// The bounds as of now. Conservative about loss inversion: what holds above a load that does not is a fluke.
    #[must_use]
    pub fn bounds(&self, goal: &Goal) -> Bounds {
        let mut bounds = Bounds::default();
        for (load, trials) in self.loads() {
            match Sums::of(goal, trials).class(goal) {
                Class::Lower => {
                    bounds.lower_pps = Some(load);
                    bounds.throughput_pps = conditional_throughput(goal, load, trials);
                }
                Class::Upper => {
                    bounds.upper_pps = Some(load);
                    break;
                }
                Class::Undecided => {}
            }
        }
        bounds
    }

    /// The mean forwarding rate at a load in frames a second, weighted by duration; `None` without a trial.
    #[must_use]
    pub fn forwarding_pps(&self, load_pps: f64) -> Option<f64> {
        let trials = self.at(load_pps);
        let seconds: f64 = trials.iter().map(|t| t.input.duration_s).sum();
        let frames: f64 = trials.iter().map(|t| t.forwarding_pps() * t.input.duration_s).sum();
        (seconds > 0.0).then(|| frames / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Input, Observation};

    #[test]
    fn a_lower_bound_above_an_upper_bound_is_a_fluke() {
        let goal = Goal { duration_sum_s: 1.0, ..Goal::ndr() };
        let mut history = History::default();
        for (load_pps, received) in [(4e6, 100), (1e6, 100), (3e6, 90), (2e6, 100)] {
            let seen = Observation { intended: 100, received, ..Observation::default() };
            history.add(Trial { input: Input { load_pps, duration_s: 1.0 }, seen });
        }
        let bounds = history.bounds(&goal);
        assert_eq!(bounds, Bounds { lower_pps: Some(2e6), upper_pps: Some(3e6), throughput_pps: Some(2e6) });
        assert_eq!(history.forwarding_pps(3e6), Some(2.7e6));
        assert_eq!(history.forwarding_pps(5e6), None);
    }
}
