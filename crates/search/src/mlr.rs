//! MLRsearch, RFC 9971: several goals in one search.
//!
//! The RFC fixes which bound a load is and what the result is; which load is tried next is free. Here each goal has a
//! *hunter* (`hunt.rs`) that says what it would measure next, and the cheapest wish is granted:
//!
//! 1. *Locate*: one trial a load, as short as the goal allows, believed until proven otherwise. The first is at the
//!    maximum load; what still arrived in overload hints at the capacity; from there in growing strides until the
//!    capacity is between two loads; then halves, by the logarithm of the load.
//! 2. *Confirm*: when the two loads are within the goal's width, more trials at both, at the goal's full length, those at
//!    the load with fewer trials first, until both are classified. A load that turns out otherwise moves the interval,
//!    and locating goes on.
//!
//! A search ends for any system: trusted loads keep half a width of distance, so that there are finitely many, and each
//! is classified at the latest when its duration sum is reached.

mod hunt;

use crate::goal::{Goal, GoalError};
use crate::history::{Bounds, History};
use crate::session::{End, Session};
use hunt::{Hunter, Move, Want};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to search for and where: RFC 9971's *Controller Input*.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Search {
    goals: Vec<Goal>,
    min_pps: f64,
    max_pps: f64,
    warmup_s: f64,
}

/// A search that cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SearchError {
    /// Nothing to search for.
    #[error("no goal to search for")]
    NoGoal,
    /// A goal is wrong.
    #[error(transparent)]
    Goal(#[from] GoalError),
    /// Loads are wrong.
    #[error("loads: found {min_pps} to {max_pps} frames/s, expected a minimum above 0 and a larger, finite maximum")]
    Loads {
        /// Given as smallest load.
        min_pps: f64,
        /// Given as largest load.
        max_pps: f64,
    },
    /// The warm-up is wrong.
    #[error("warm-up: found {0} s, expected 0 or more")]
    Warmup(f64),
}

/// Whether a goal's result is what the goal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Both bounds, within the width: RFC 9971's *Regular Goal Result*.
    Regular,
    /// Irregular: even the maximum load is a lower bound, so that the capacity may be above it.
    MaxLoadHolds,
    /// Irregular: even the minimum load is an upper bound.
    MinLoadFails,
    /// Irregular: the search ended before; bounds are those reached so far.
    Unfinished,
}

/// What was found for one goal: RFC 9971's *Goal Result*.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalFound {
    /// The goal.
    pub goal: Goal,
    /// Whether the result is regular, and if not, why.
    pub outcome: Outcome,
    /// The bounds. Those of an irregular result must be marked as such wherever they are shown.
    pub bounds: Bounds,
    /// Where an unfinished search believed the capacity, in frames a second: seen in single trials, not confirmed.
    pub believed_pps: Option<(f64, f64)>,
}

impl GoalFound {
    /// Whether the result is what the goal asks for.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        self.outcome == Outcome::Regular
    }
}

/// What a search found: RFC 9971's *Controller Output*.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// For each goal, in the order given.
    pub goals: Vec<GoalFound>,
    /// Why the search ended before all goals had a result.
    pub end: Option<End>,
    /// Trials made for it, warm-up included.
    pub trials: usize,
    /// What it took in seconds, overhead and invalid trials included.
    pub spent_s: f64,
}

impl Found {
    /// What was found for the goal of this name.
    #[must_use]
    pub fn goal(&self, name: &str) -> Option<&GoalFound> {
        self.goals.iter().find(|g| g.goal.name == name)
    }
}

/// How long a search takes, told in advance. In seconds, without overhead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// On a system whose forwarding rate in overload is near its capacity.
    pub likely_s: f64,
    /// On a system without noise whose overload says nothing, so that the whole range has to be halved.
    pub halving_s: f64,
    /// Trials that the longer takes.
    pub trials: u32,
}

impl Search {
    /// A search for `goals` among loads from `min_pps` to `max_pps`, after a warm-up of a second at `max_pps`. The
    /// minimum should be large enough for some frames in the shortest trial.
    ///
    /// # Errors
    /// When a goal or the loads are out of range.
    pub fn new(goals: Vec<Goal>, min_pps: f64, max_pps: f64) -> Result<Self, SearchError> {
        if goals.is_empty() {
            return Err(SearchError::NoGoal);
        }
        goals.iter().try_for_each(Goal::check)?;
        // Below 1e-300 half a width could round to nothing.
        if !(min_pps > 1e-300 && min_pps < max_pps && max_pps.is_finite()) {
            return Err(SearchError::Loads { min_pps, max_pps });
        }
        Ok(Self { goals, min_pps, max_pps, warmup_s: 1.0 })
    }

    /// Sets the length of the warm-up: a first trial at the maximum load that does not count. 0 for none.
    ///
    /// # Errors
    /// When it is negative or not finite.
    pub fn warmup(mut self, seconds: f64) -> Result<Self, SearchError> {
        if !(seconds >= 0.0 && seconds.is_finite()) {
            return Err(SearchError::Warmup(seconds));
        }
        self.warmup_s = seconds;
        Ok(self)
    }

    /// The goals.
    #[must_use]
    pub fn goals(&self) -> &[Goal] {
        &self.goals
    }

    /// How long it takes.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        let (mut likely_s, mut extra_s, mut trials) = (self.warmup_s, 0.0, 1.0);
        for goal in &self.goals {
            let length = goal.final_trial_s;
            let to_lower = (goal.duration_sum_s * (1.0 - goal.exceed_ratio) / length).ceil();
            let to_upper = (goal.duration_sum_s * goal.exceed_ratio / length).floor() + 1.0;
            let halvings = ((self.max_pps / self.min_pps).ln() / goal.log_width()).log2().max(0.0).ceil();
            likely_s += (to_lower + to_upper) * length + 4.0 * goal.initial_trial_s;
            extra_s += halvings * goal.initial_trial_s;
            trials += to_lower + to_upper + 4.0 + halvings;
        }
        Estimate { likely_s, halving_s: likely_s + extra_s, trials: trials as u32 }
    }

    /// Searches until each goal has a result or the session ends. Never fails: what was found so far is the result.
    pub fn run(&self, session: &mut Session<'_>) -> Found {
        let (before_s, before) = (session.spent_s(), session.trials().len());
        let mut history = History::default();
        let mut hunters: Vec<Hunter> = self.goals.iter().map(Hunter::new).collect();
        let end = self.hunt(session, &mut history, &mut hunters).err();
        let goals = self.goals.iter().zip(&hunters);
        let goals = goals.map(|(goal, hunter)| self.result(goal, hunter, &history, end.is_some())).collect();
        Found { goals, end, trials: session.trials().len() - before, spent_s: session.spent_s() - before_s }
    }

    fn hunt(&self, session: &mut Session<'_>, history: &mut History, hunters: &mut [Hunter]) -> Result<(), End> {
        let total = self.estimate().likely_s;
        if self.warmup_s > 0.0 {
            session.begin("warm-up", total);
            session.measure(self.max_pps, self.warmup_s)?;
        }
        let start = session.spent_s();
        loop {
            let mut best: Option<(usize, Move)> = None;
            for (i, (goal, hunter)) in self.goals.iter().zip(hunters.iter()).enumerate() {
                let Want::Trial(wish) = hunter.want(goal, (self.min_pps, self.max_pps), history) else { continue };
                // Of equal wishes the first goal's counts.
                if best.as_ref().is_none_or(|(_, b)| wish.cost() < b.cost()) {
                    best = Some((i, wish));
                }
            }
            let Some((i, wish)) = best else { return Ok(()) };
            let left = total - self.warmup_s - (session.spent_s() - start);
            session.begin(format!("{}: {}", self.goals[i].name, wish.words()), left.max(0.0));
            let trial = session.measure(wish.load_pps, wish.duration_s)?;
            history.add(trial);
            hunters[i].measured(&self.goals[i], wish, history);
        }
    }

    fn result(&self, goal: &Goal, hunter: &Hunter, history: &History, ended: bool) -> GoalFound {
        let bounds = history.bounds(goal);
        let (outcome, believed_pps) = match hunter.want(goal, (self.min_pps, self.max_pps), history) {
            Want::Done(outcome) => (outcome, None),
            Want::Trial(_) => (Outcome::Unfinished, ended.then(|| hunter.believed(goal, history)).flatten()),
        };
        GoalFound { goal: goal.clone(), outcome, bounds, believed_pps }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::session::Budget;
    use crate::trial::{Input, Measured, Observation};

    /// A system that forwards `capacity` frames a second and not one more.
    pub(crate) fn sharp(capacity: f64) -> impl FnMut(Input) -> Measured {
        move |trial| {
            let intended = (trial.load_pps * trial.duration_s) as u64;
            let received = intended.min((capacity * trial.duration_s) as u64);
            Measured::Valid(Observation::counted(trial.duration_s, intended, received))
        }
    }

    fn find(goals: Vec<Goal>, capacity: f64) -> Found {
        let search = Search::new(goals, 1e3, 20e6).unwrap();
        search.run(&mut Session::new(&mut sharp(capacity), Budget::default()))
    }

    #[test]
    fn ndr_and_pdr_of_a_sharp_limit() {
        for capacity in [2e3, 123_456.0, 1e6, 14.88e6, 19.5e6] {
            let found = find(vec![Goal::ndr(), Goal::pdr()], capacity);
            assert_eq!(found.end, None);
            for g in &found.goals {
                let (lower, upper) = (g.bounds.lower_pps.unwrap(), g.bounds.upper_pps.unwrap());
                assert!(g.is_regular() && g.goal.is_narrow(lower, upper), "{capacity} {g:?}");
                let knee = capacity / (1.0 - g.goal.loss_ratio);
                // A frame more or less in a trial of a second.
                assert!(lower <= knee + 1.0 && upper >= knee - 1.0, "{capacity} {g:?}");
            }
            assert!(found.spent_s <= 50.0, "{capacity}: {found:?}");
        }
    }

    #[test]
    fn what_cannot_be_bounded_says_which_end_of_the_range_is_in_the_way() {
        let fast = find(vec![Goal::ndr()], 1e9);
        let ndr = fast.goal("NDR").unwrap();
        assert_eq!((ndr.outcome, ndr.bounds.upper_pps), (Outcome::MaxLoadHolds, None));
        assert_eq!(ndr.bounds.throughput_pps, Some(20e6));
        let slow = find(vec![Goal::ndr()], 10.0);
        let ndr = slow.goal("NDR").unwrap();
        assert_eq!((ndr.outcome, ndr.bounds.upper_pps), (Outcome::MinLoadFails, Some(1e3)));
        assert_eq!(ndr.bounds.throughput_pps, None);
    }

    #[test]
    fn rfc_2544_needs_few_long_trials() {
        let search = Search::new(vec![Goal::rfc2544()], 1e3, 20e6).unwrap();
        let mut system = sharp(1e6);
        let mut session = Session::new(&mut system, Budget::default());
        let found = search.run(&mut session);
        assert!(found.goals[0].is_regular());
        let long = session.trials().iter().filter(|t| t.input.duration_s == 60.0).count();
        assert_eq!(long, 1, "one trial of a minute holds, one second of loss disproves");
    }

    #[test]
    fn what_cannot_be_searched_for_is_refused() {
        let new = Search::new;
        assert_eq!(new(vec![], 1.0, 2.0), Err(SearchError::NoGoal));
        for (min, max) in [(0.0, 1.0), (2.0, 2.0), (1.0, f64::INFINITY), (f64::NAN, 1.0), (1.0, f64::NAN), (-1.0, 1.0)]
        {
            assert!(matches!(new(vec![Goal::ndr()], min, max), Err(SearchError::Loads { .. })), "{min} {max}");
        }
        let wrong = Goal { width: 2.0, ..Goal::ndr() };
        assert!(matches!(new(vec![wrong], 1.0, 2.0), Err(SearchError::Goal(_))));
        assert!(new(vec![Goal::ndr()], 1.0, 2.0).unwrap().warmup(f64::NAN).is_err());
    }
}
