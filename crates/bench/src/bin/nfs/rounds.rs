//! The trials of a run and their order: in every round each case once, beginning elsewhere in the list each time.
//! Sizes and orders of one NF stand side by side, since they are held against each other.

use crate::cases::{Case, MANAGER_CORE, NF_CORE, Subject};
use chainline_bench::core_to_core;
use chainline_bench::dataplane::steered::Steered;
use chainline_bench::dataplane::{Dataplane, DataplaneError};
use chainline_bench::figures::{Attempt, Repetitions, Samples, first_of};
use chainline_bench::host::Ticks;
use chainline_trial::{Load, Order, Outcome};
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time for packets inside to leave when the window is over.
const DRAIN_MS: u64 = 50;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum NfsError {
    /// A trial failed: a benchmark of a broken program has no figures.
    #[error("{case}: {source}")]
    Trial {
        /// Which.
        case: String,
        /// What happened.
        source: DataplaneError,
    },
    /// What came out is not what should have.
    #[error("{case}: {what}")]
    Outcome {
        /// Which.
        case: String,
        /// What was found and what was expected.
        what: String,
    },
    /// A file.
    #[error("{what}: {source}")]
    Io {
        /// Which.
        what: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// The page, or the README.
    #[error("{0}")]
    Made(String),
}

/// A trial that came to its end.
struct Trial {
    outcome: Outcome,
    environment: Value,
    ticks: Ticks,
}

impl Attempt for Trial {
    fn ticks(&self) -> Ticks {
        self.ticks
    }
}

/// Does all rounds.
#[derive(Debug)]
pub struct Bench {
    /// The program under test.
    pub program: PathBuf,
    /// Where chain files and their inputs are: anybody can run them again.
    pub dir: PathBuf,
    pub rounds: usize,
    /// The measured window of a trial.
    pub window: Duration,
    pub repetitions: Repetitions,
    /// The cases of each subject.
    pub groups: Vec<(Subject, Vec<Case>)>,
    pub samples: Samples,
}

impl Bench {
    /// Runs everything.
    ///
    /// # Errors
    /// When a trial fails.
    pub fn run(&mut self) -> Result<(), NfsError> {
        let count = self.groups.len();
        let trials: usize = self.groups.iter().map(|(_, cases)| cases.len()).sum();
        let (begun, all, mut done) = (Instant::now(), trials * self.rounds, 0);
        for round in 0..self.rounds {
            for k in 0..count {
                let (subject, mut cases) = self.groups[(first_of(round, self.rounds, count) + k) % count].clone();
                let left = match done {
                    0 => String::new(),
                    _ => {
                        let left = begun.elapsed().mul_f64((all - done) as f64 / done as f64);
                        format!(", {} left", minutes(left))
                    }
                };
                eprintln!("round {} of {}: {}{left}", round + 1, self.rounds, subject.name());
                // Who goes first takes turns.
                let turn = round % cases.len().max(1);
                cases.rotate_left(turn);
                for case in cases {
                    self.case(case)?;
                    done += 1;
                }
            }
        }
        Ok(())
    }

    fn case(&mut self, case: Case) -> Result<(), NfsError> {
        let name = case.name();
        // Before each trial: the hypervisor moves processors within a round, too.
        match core_to_core::round_trip_ns(MANAGER_CORE, NF_CORE) {
            Ok(ns) => {
                self.samples.add("core_to_core", ns, false);
                self.samples.add(&format!("{name}/core_to_core"), ns, false);
            }
            Err(why) => _ = self.samples.unavailable.insert("core_to_core".into(), why),
        }
        let trial = self.repetitions.least_disturbed(|| self.attempt(case))?;
        self.samples.trial(&name, &trial.environment, trial.ticks);
        let outcome = &trial.outcome;
        let wrong = |what: String| NfsError::Outcome { case: name.clone(), what };
        if !outcome.balanced || !outcome.happenings.is_empty() {
            return Err(wrong(format!("expected a quiet run that balances, found {:?}", outcome.happenings)));
        }
        // A packet that is dropped costs less than one that goes on.
        if !outcome.drops.is_empty() {
            return Err(wrong(format!("expected that every packet goes on, found drops {:?}", outcome.drops)));
        }
        let pps = outcome.received_pps();
        let disturbed = trial.ticks.spoil().is_some();
        let mut add = |what: &str, value| self.samples.add(&format!("{name}{what}"), value, disturbed);
        add("", pps);
        add("/generator_busy", outcome.generator.busy);
        let cost_ns: u64 = outcome.nfs.values().filter_map(|nf| nf.cost_ns).sum();
        if outcome.nfs.values().all(|nf| nf.cost_ns.is_some()) {
            add("/cost_ns", cost_ns as f64);
        }
        Ok(())
    }

    fn attempt(&self, case: Case) -> Result<Trial, NfsError> {
        let name = case.name();
        let path = self.dir.join(name.trim_end_matches(".mpps").to_owned() + ".json");
        let io = |source| NfsError::Io { what: path.display().to_string(), source };
        std::fs::write(&path, format!("{:#}\n", case.file())).map_err(io)?;
        let failed = |source| NfsError::Trial { case: name.clone(), source };
        let before = Ticks::now();
        let mut chain = Steered::chain(&name, &self.program, &path, || false).map_err(failed)?;
        let environment = chain.ready().environment.clone();
        let duration_ms = u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX);
        let warmup_ms = case.warmup_ms();
        let order = Order { load: Load::Lossless, warmup_ms, duration_ms, drain_ms: DRAIN_MS, ..Order::default() };
        let outcome = chain.trial(&order).map_err(failed)?;
        // Its time is known when it has ended.
        drop(chain);
        let ticks = Ticks::now().zip(before).map(|(now, then)| now.since(then)).unwrap_or_default();
        Ok(Trial { outcome, environment, ticks })
    }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        s if s < 90 => format!("{s} s"),
        s => format!("{} min", (s + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left() {
        assert_eq!(minutes(Duration::from_secs(89)), "89 s");
        assert_eq!(minutes(Duration::from_secs(150)), "3 min");
    }
}
