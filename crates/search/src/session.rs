//! What all procedures share: the measurer, the budget, repeated invalid trials, progress, an end by request.

use crate::trial::{Input, Measured, Measurer, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much may be spent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Time in seconds, all trials together, with their overhead and with invalid ones. A trial that would not fit
    /// is not begun.
    pub seconds: f64,
    /// What a trial takes beside its duration, in seconds: warm-up, drain, pauses.
    pub overhead_s: f64,
    /// Trials in all.
    pub trials: u32,
    /// How often a trial is repeated that was invalid, before the search gives up.
    pub repeats: u32,
}

impl Default for Budget {
    /// Two hours, 100,000 trials, each repeated at most three times, no overhead.
    fn default() -> Self {
        Self { seconds: 7200.0, overhead_s: 0.0, trials: 100_000, repeats: 3 }
    }
}

/// Why there are no more trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Somebody wanted it.
    #[error("stopped on request")]
    Stopped,
    /// The next trial would have cost more than is left.
    #[error("the budget of {seconds} s and {trials} trials is spent")]
    Budget {
        /// All of it, in seconds.
        seconds: f64,
        /// All of it, in trials.
        trials: u32,
    },
    /// One trial was invalid every time.
    #[error("a trial at {load_pps:.0} frames/s for {duration_s} s was invalid {times} times, last: {why}")]
    Invalid {
        /// Its load in frames a second.
        load_pps: f64,
        /// Its duration in seconds.
        duration_s: f64,
        /// How often it was tried.
        times: u32,
        /// What was wrong the last time.
        why: String,
    },
    /// The measurer can make no more trials.
    #[error("no more trials are possible: {why}")]
    Broken {
        /// Why.
        why: String,
    },
}

/// A trial that did not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rejected {
    /// What was asked for.
    #[serde(flatten)]
    pub input: Input,
    /// Why it did not count.
    pub why: String,
}

/// What is told after every trial.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Which part of which procedure.
    pub step: &'a str,
    /// The trial that was just made; none for one that did not count.
    pub trial: Option<&'a Trial>,
    /// Why it did not count.
    pub invalid: Option<&'a str>,
    /// Seconds spent so far, overhead included.
    pub spent_s: f64,
    /// What the whole procedure was estimated to take, in seconds.
    pub likely_s: f64,
}

/// A measurer with a budget and a record.
pub struct Session<'a> {
    measurer: &'a mut dyn Measurer,
    budget: Budget,
    progress: Option<&'a mut dyn FnMut(Progress<'_>)>,
    stop: Option<&'a dyn Fn() -> bool>,
    step: String,
    likely_s: f64,
    spent_s: f64,
    made: u32,
    trials: Vec<Trial>,
    rejected: Vec<Rejected>,
}

impl<'a> Session<'a> {
    /// Trials by `measurer` within `budget`.
    pub fn new(measurer: &'a mut dyn Measurer, budget: Budget) -> Self {
        Self {
            measurer,
            budget,
            progress: None,
            stop: None,
            step: String::new(),
            likely_s: 0.0,
            spent_s: 0.0,
            made: 0,
            trials: Vec::new(),
            rejected: Vec::new(),
        }
    }

    /// Calls `progress` after every trial.
    #[must_use]
    pub fn on_progress(mut self, progress: &'a mut dyn FnMut(Progress<'_>)) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Asks `stop` before every trial.
    #[must_use]
    pub fn stop_when(mut self, stop: &'a dyn Fn() -> bool) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Seconds spent so far, overhead and invalid trials included.
    #[must_use]
    pub fn spent_s(&self) -> f64 {
        self.spent_s
    }

    /// Every trial that counted, in the order made, warm-ups included.
    #[must_use]
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Every trial that did not count.
    #[must_use]
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }

    /// The budget.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Names what comes next, and what it is expected to take beyond what is spent, in seconds.
    pub fn begin(&mut self, step: impl Into<String>, likely_s: f64) {
        self.step = step.into();
        self.likely_s = self.spent_s + likely_s;
    }

    /// One trial that counts.
    ///
    /// # Errors
    /// Why there is none.
    pub fn measure(&mut self, load_pps: f64, duration_s: f64) -> Result<Trial, End> {
        let input = Input { load_pps, duration_s };
        let seen = self.attempt(input, |measurer| measurer.measure(input))?;
        let trial = Trial { input, seen };
        self.trials.push(trial.clone());
        self.tell(Some(&trial), None);
        Ok(trial)
    }

    /// Asks until a trial is valid, as often as the budget allows.
    fn attempt(
        &mut self,
        input: Input,
        mut ask: impl FnMut(&mut dyn Measurer) -> Measured,
    ) -> Result<crate::trial::Observation, End> {
        let mut times = 0;
        loop {
            self.spend(input.duration_s)?;
            times += 1;
            let why = match ask(self.measurer) {
                Measured::Valid(seen) if seen.intended > 0 => return Ok(seen),
                Measured::Valid(_) => "no frame was due: the load is too small for the duration".to_owned(),
                Measured::Invalid(why) => why,
                Measured::Stopped => return Err(End::Stopped),
                Measured::Broken(why) => return Err(End::Broken { why }),
            };
            self.rejected.push(Rejected { input, why: why.clone() });
            self.tell(None, Some(&why));
            if times > self.budget.repeats {
                let Input { load_pps, duration_s } = input;
                return Err(End::Invalid { load_pps, duration_s, times, why });
            }
        }
    }

    /// Takes a trial of `duration_s` off the budget. For procedures whose trials are of other kinds than
    /// [`Measurer`] makes.
    pub(crate) fn spend(&mut self, duration_s: f64) -> Result<(), End> {
        if self.stop.is_some_and(|stop| stop()) {
            return Err(End::Stopped);
        }
        let after = self.spent_s + duration_s + self.budget.overhead_s;
        // The negated comparison refuses NaN too.
        let fits = after <= self.budget.seconds;
        if !fits || self.made >= self.budget.trials {
            return Err(End::Budget { seconds: self.budget.seconds, trials: self.budget.trials });
        }
        self.spent_s = after;
        self.made += 1;
        Ok(())
    }

    fn tell(&mut self, trial: Option<&Trial>, invalid: Option<&str>) {
        if let Some(progress) = &mut self.progress {
            let (step, spent_s) = (self.step.as_str(), self.spent_s);
            // What takes longer than estimated is at its end at the earliest now.
            progress(Progress { step, trial, invalid, spent_s, likely_s: self.likely_s.max(spent_s) });
        }
    }
}
