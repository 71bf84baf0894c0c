//! The trials of a run and their order. Rounds are interleaved: every round does everything once, beginning elsewhere
//! each time, so that a slow minute of the host hits all figures alike and none alone.

use crate::chains::{self, ORDERS, order_name};
use crate::trial::{Program, Trial, TrialError, Window, iteration_cycles};
use crate::veth::Veth;
use chainline_bench::core_to_core;
use chainline_bench::figures::{Samples, first_of};
use serde_json::Value;
use std::time::Duration;

/// Kinds whose start is timed.
pub const STARTED: [&str; 4] = ["forward", "firewall", "monitor", "l3fwd"];
/// Most forwarding processes on the core.
pub const FORWARDS: usize = 4;
/// Packets inside, where few are asked for.
pub const FEW: u32 = 128;

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub rounds: usize,
    /// A trial under load.
    pub trial: Duration,
    /// An idle chain is watched for so long.
    pub idle: Duration,
}

/// What is done together: a trial, and what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// Three processes against the same three fused.
    SharedCore([usize; 3]),
    /// 0 to [`FORWARDS`] forwarding processes, and three with few packets inside.
    Forwards,
    Veth,
    Idle,
    Start(&'static str),
    Hundred,
}

impl Group {
    fn all() -> Vec<Self> {
        let mut all: Vec<_> = ORDERS.into_iter().map(Self::SharedCore).collect();
        all.extend([Self::Forwards, Self::Veth, Self::Idle, Self::Hundred]);
        all.extend(STARTED.map(Self::Start));
        all
    }

    /// The word by which it is chosen.
    fn word(self) -> &'static str {
        match self {
            Self::SharedCore(_) => "shared-core",
            Self::Forwards => "forward",
            Self::Veth => "veth",
            Self::Idle => "idle",
            Self::Start(_) | Self::Hundred => "start",
        }
    }
}

/// The words of [`Options::only`](crate::Options).
pub const GROUPS: [&str; 5] = ["shared-core", "forward", "veth", "idle", "start"];

/// Does all rounds.
#[derive(Debug)]
pub struct Bench {
    pub program: Program,
    pub veth: Veth,
    pub times: Times,
    /// Words of [`GROUPS`]; empty: all.
    pub only: Vec<String>,
    pub samples: Samples,
}

impl Bench {
    /// Runs everything.
    ///
    /// # Errors
    /// When a trial fails: a benchmark of a broken program has no figures.
    pub fn run(&mut self) -> Result<(), TrialError> {
        let iteration = self.calibrate()?;
        let mut groups = Group::all();
        groups.retain(|g| self.only.is_empty() || self.only.iter().any(|w| w == g.word()));
        let count = groups.len();
        for round in 0..self.times.rounds {
            eprintln!("round {} of {}", round + 1, self.times.rounds);
            let mut wasted = None;
            for k in 0..count {
                let group = groups[first_of(round, self.times.rounds, count).wrapping_add(k) % count];
                self.group(group, round, iteration, &mut wasted)?;
            }
            if let Some(wasted) = wasted {
                self.samples.add("wasted", wasted as f64, false);
            }
        }
        Ok(())
    }

    /// What an iteration of the synthetic NF costs here: the least of a few runs, since disturbances only add. Warms
    /// the host up, too.
    fn calibrate(&mut self) -> Result<f64, TrialError> {
        let mut least = f64::INFINITY;
        for _ in 0..3 {
            let trial = self.program.run("calibration", &chains::calibration(), Duration::from_millis(100), None)?;
            self.samples.environment = trial.report.environment.clone();
            let cycles = iteration_cycles(&trial.report).ok_or_else(|| TrialError::Report {
                label: "calibration".into(),
                what: "found no \"an iteration N cycles\" in the synthetic NF's own words".into(),
            })?;
            least = least.min(cycles);
        }
        self.samples.add("iteration_cycles", least, false);
        Ok(least)
    }

    fn group(&mut self, g: Group, round: usize, iteration: f64, wasted: &mut Option<u64>) -> Result<(), TrialError> {
        match g {
            Group::SharedCore(order) => {
                let mut ways = ["process", "fused"];
                ways.rotate_left(round % 2);
                for isolation in ways {
                    let file = chains::shared_core(order, isolation, iteration);
                    let label = format!("{isolation}/{}", order_name(order));
                    let trial = self.loaded(&label, &file)?;
                    *wasted.get_or_insert(0) += trial.report.wasted();
                }
            }
            Group::Forwards => {
                match core_to_core::round_trip_ns(chains::MANAGER_CORE, chains::NF_CORE) {
                    Ok(ns) => self.samples.add("core_to_core", ns, false),
                    Err(why) => _ = self.samples.unavailable.insert("core_to_core".into(), why),
                }
                let mut counts: Vec<_> = (0..=FORWARDS).collect();
                counts.rotate_left(round % (FORWARDS + 1));
                for n in counts {
                    let trial = self.loaded(&format!("forward/{n}"), &chains::forward(n))?;
                    *wasted.get_or_insert(0) += trial.report.wasted();
                }
                let trial = self.loaded("forward/few", &chains::forward_in_flight(FEW))?;
                *wasted.get_or_insert(0) += trial.report.wasted();
            }
            Group::Veth => match self.veth.hop_ns(self.times.trial) {
                Ok((ns, disturbed)) => self.samples.add("veth", ns, disturbed),
                Err(why) => _ = self.samples.unavailable.insert("veth".into(), why),
            },
            Group::Idle => {
                // The NFs and the manager fall asleep in milliseconds; what starting them took is over by then.
                let window = Window { after: Duration::from_millis(500), length: self.times.idle };
                let duration = window.after + window.length + Duration::from_millis(100);
                let trial = self.program.run("idle", &chains::idle(), duration, Some(window))?;
                self.samples.trial("idle", &trial.report.environment, trial.ticks);
                self.samples.add("idle", trial.share, trial.disturbed());
            }
            Group::Start(kind) => {
                let label = format!("start/{kind}");
                let trial = self.program.run(&label, &chains::starting(kind), Duration::from_millis(20), None)?;
                self.samples.trial(&label, &trial.report.environment, trial.ticks);
                for ns in trial.report.nfs.values().filter_map(|nf| nf.start_ns) {
                    self.samples.add(&label, ns as f64 / 1e6, trial.disturbed());
                }
            }
            Group::Hundred => {
                let trial = self.program.run("start/100", &chains::hundred(), Duration::from_millis(20), None)?;
                self.samples.trial("start/100", &trial.report.environment, trial.ticks);
                self.samples.add("start/100", trial.started.as_secs_f64() * 1e3, trial.disturbed());
            }
        }
        Ok(())
    }

    /// A trial under load: its throughput, and what the NFs' core had to do with it.
    fn loaded(&mut self, label: &str, file: &Value) -> Result<Trial, TrialError> {
        let trial = self.program.run(label, file, self.times.trial, None)?;
        self.samples.trial(label, &trial.report.environment, trial.ticks);
        let report = &trial.report;
        let mut add = |name: &str, value| self.samples.add(&format!("{label}{name}"), value, trial.disturbed());
        add("", report.pps());
        add("/core_share", report.nf_core_share());
        add("/load", report.nf_load());
        add("/run_ns", report.nf_run_ns_a_packet());
        if let Some(ns) = report.nfs.values().filter_map(|nf| nf.cost_ns.p50).max() {
            add("/cost_ns", ns as f64);
        }
        Ok(trial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_can_be_chosen() {
        let words: std::collections::BTreeSet<_> = Group::all().into_iter().map(Group::word).collect();
        assert_eq!(words, GROUPS.into_iter().collect());
    }
}
