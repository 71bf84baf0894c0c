//! One dataplane and its trials. Each is judged; one that was disturbed is repeated; all are recorded. What was
//! recorded before is played back first: a search asks the same questions when it gets the same answers, so an
//! interrupted one goes on where it ended, and one that is in the cache starts no dataplane at all.

use super::journal::{Entry, JournalError};
use super::tell::Event;
use crate::dataplane::{Dataplane, DataplaneError};
use crate::results::Trial;
use crate::watch::Watch;
use chainline_search::{Input, Measured, Measurer};
use chainline_trial::{Load, Order, Ready};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// What a trial came to.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its index among the results' trials.
    pub index: usize,
    /// It.
    pub trial: Trial,
}

/// Why there is no trial, and with it no figure.
#[derive(Debug)]
pub enum Stop {
    /// The user wants an end.
    Asked,
    /// Every attempt was disturbed; why.
    Invalid(String),
    /// The generator could not make this load, in frames a second.
    Saturated(f64),
    /// The dataplane cannot follow this order, though others.
    Refused(String),
    /// The dataplane cannot be measured.
    Dataplane(DataplaneError),
    /// The journal cannot be written.
    Journal(JournalError),
}

/// How trials are made.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Attempts in all for a trial that is disturbed.
    pub attempts: u32,
    /// If all were disturbed by others, the least disturbed counts.
    pub allow_disturbed: bool,
}

/// Starts the dataplane.
pub type Start<'a> = dyn FnMut() -> Result<Box<dyn Dataplane>, DataplaneError> + 'a;
/// Takes what is to be kept.
pub type Keep<'a> = dyn FnMut(&Entry) -> Result<(), JournalError> + 'a;

/// One case in one round.
pub struct Meter<'a> {
    pub(super) dataplane: String,
    pub(super) factors: BTreeMap<String, Value>,
    pub(super) round: u32,
    pub(super) rules: Rules,
    pub(super) start: &'a mut Start<'a>,
    pub(super) watch: &'a mut dyn Watch,
    pub(super) stop: &'a dyn Fn() -> bool,
    pub(super) keep: &'a mut Keep<'a>,
    pub(super) tell: &'a mut dyn FnMut(Event<'_>),
    /// What was recorded and not yet asked for.
    pub(super) tape: VecDeque<Entry>,
    pub(super) live: Option<Box<dyn Dataplane>>,
    pub(super) ready: Option<Ready>,
    /// All trials of the benchmark.
    pub(super) trials: &'a mut Vec<Trial>,
    /// What was played back or recorded for this job, in order.
    pub(super) entries: Vec<Entry>,
    /// Whether a trial that counts was disturbed.
    pub(super) disturbed: Option<String>,
    /// How many trials were played back.
    pub(super) played: usize,
    /// Told of all trials whenever one was made.
    pub(super) made: &'a mut dyn FnMut(&[Trial]),
}

impl Meter<'_> {
    /// What is known of the measuring; starts the dataplane unless it was recorded.
    pub fn ready(&mut self) -> Result<Ready, Stop> {
        if let Some(ready) = &self.ready {
            return Ok(ready.clone());
        }
        if let Some(Entry::Ready(ready)) = self.tape.front() {
            let ready = (**ready).clone();
            self.entries.extend(self.tape.pop_front());
            self.ready = Some(ready.clone());
            return Ok(ready);
        }
        self.tape.clear();
        let ready = self.live()?.ready().clone();
        self.record(Entry::Ready(Box::new(ready.clone())))?;
        self.ready = Some(ready.clone());
        Ok(ready)
    }

    fn live(&mut self) -> Result<&mut Box<dyn Dataplane>, Stop> {
        if (self.stop)() {
            return Err(Stop::Asked);
        }
        if self.live.is_none() {
            self.live = Some(self.sound()?);
        }
        self.live.as_mut().ok_or(Stop::Asked)
    }

    /// A dataplane whose measuring of itself was not disturbed, if one of several attempts gives one; else the last.
    fn sound(&mut self) -> Result<Box<dyn Dataplane>, Stop> {
        let mut attempt = 1;
        loop {
            (self.tell)(Event::Starting);
            let live = (self.start)().map_err(|e| if (self.stop)() { Stop::Asked } else { Stop::Dataplane(e) })?;
            (self.tell)(Event::Ready(live.ready()));
            match absurd_floor(live.ready()) {
                Some(why) if attempt < self.rules.attempts && !(self.stop)() => {
                    (self.tell)(Event::Note(&format!("{why}: it is started again")));
                    attempt += 1;
                }
                _ => return Ok(live),
            }
        }
    }

    fn record(&mut self, entry: Entry) -> Result<(), Stop> {
        (self.keep)(&entry).map_err(Stop::Journal)?;
        self.entries.push(entry);
        Ok(())
    }

    /// A trial that counts. `purpose` is for the record.
    pub fn trial(&mut self, order: &Order, purpose: &str) -> Result<Made, Stop> {
        let mut best: Option<Made> = None;
        let mut why = String::new();
        for attempt in 0..self.rules.attempts.max(1) {
            let made = self.attempt(order, purpose, attempt)?;
            if made.trial.invalid.is_empty() {
                return Ok(made);
            }
            why = made.trial.invalid.join("; ");
            // Only others are to blame: the trial still says something.
            let taken = |m: &Made| m.trial.stolen_share + m.trial.foreign_share;
            if faults(order, &made.trial).is_empty() && best.as_ref().is_none_or(|b| taken(&made) < taken(b)) {
                best = Some(made);
            }
        }
        if let Some(made) = best
            && self.rules.allow_disturbed
        {
            self.disturbed = Some(why);
            return Ok(made);
        }
        let last = self.trials.last();
        if let (Load::Pps(pps), Some(true)) = (order.load, last.map(|t| t.outcome.generator.saturated)) {
            return Err(Stop::Saturated(pps));
        }
        let times = self.rules.attempts.max(1);
        Err(Stop::Invalid(format!("none of {times} attempts was valid, the last because of: {why}")))
    }

    fn attempt(&mut self, order: &Order, purpose: &str, attempt: u32) -> Result<Made, Stop> {
        self.ready()?;
        if let Some(trial) = self.played(order, purpose) {
            return Ok(trial);
        }
        if (self.stop)() {
            return Err(Stop::Asked);
        }
        self.live()?;
        self.watch.begin();
        let outcome = self.live()?.trial(order);
        let seen = self.watch.end();
        // A dataplane that was interrupted says that it failed.
        let outcome = outcome.map_err(|e| match e {
            _ if (self.stop)() => Stop::Asked,
            e @ DataplaneError::Refused { .. } => Stop::Refused(e.to_string()),
            e => Stop::Dataplane(e),
        })?;
        let mut trial = Trial {
            dataplane: self.dataplane.clone(),
            factors: self.factors.clone(),
            round: self.round,
            attempt,
            load: order.load,
            purpose: purpose.to_owned(),
            outcome,
            stolen_share: seen.stolen_share,
            foreign_share: seen.foreign_share,
            invalid: seen.disturbed,
        };
        trial.invalid.extend(faults(order, &trial));
        self.record(Entry::Trial { order: order.clone(), trial: Box::new(trial.clone()) })?;
        let made = self.note(trial);
        (self.made)(self.trials);
        Ok(made)
    }

    fn note(&mut self, trial: Trial) -> Made {
        (self.tell)(Event::Trial(&trial));
        let index = self.trials.len();
        self.trials.push(trial.clone());
        Made { index, trial }
    }

    /// The next recorded trial, if it is the one that is asked for. What does not fit was made by other rules, and
    /// nothing after it is to be trusted.
    fn played(&mut self, order: &Order, purpose: &str) -> Option<Made> {
        let fits = match self.tape.front() {
            Some(Entry::Trial { order: recorded, trial }) => same(recorded, order) && trial.purpose == purpose,
            _ => false,
        };
        if !fits {
            self.tape.clear();
            return None;
        }
        let entry = self.tape.pop_front()?;
        let Entry::Trial { trial, .. } = &entry else { return None };
        let trial = (**trial).clone();
        self.entries.push(entry);
        self.played += 1;
        Some(self.note(trial))
    }
}

/// Why the generator's own latency, measured with nothing between, is none: others had its core. It takes a few hundred
/// nanoseconds, and some microseconds over a real port.
pub(super) fn absurd_floor(ready: &Ready) -> Option<String> {
    const MEDIAN_NS: u64 = 20_000;
    const P99_NS: u64 = 2_000_000;
    let floor = &ready.floor_ns;
    (floor.p50 > MEDIAN_NS || floor.p99 > P99_NS).then(|| {
        format!(
            "the generator's own latency was disturbed when it was measured: median {:.1} µs, P99 {:.1} µs, expected at \
             most {:.0} and {:.0}",
            floor.p50 as f64 / 1e3,
            floor.p99 as f64 / 1e3,
            MEDIAN_NS as f64 / 1e3,
            P99_NS as f64 / 1e3
        )
    })
}

/// Whether two orders are the same up to what is lost when a number is written and read.
fn same(a: &Order, b: &Order) -> bool {
    let load = match (a.load, b.load) {
        (Load::Pps(a), Load::Pps(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        (a, b) => a == b,
    };
    let rest = |o: &Order| (o.warmup_ms, o.duration_ms, o.duration_ns, o.drain_ms, o.reset.clone());
    load && rest(a) == rest(b)
}

/// What a trial itself says against its counting.
fn faults(order: &Order, trial: &Trial) -> Vec<String> {
    let outcome = &trial.outcome;
    let mut faults = Vec::new();
    if outcome.generator.saturated && matches!(trial.load, Load::Pps(_)) {
        let (sent, intended) = (outcome.sent, outcome.intended);
        faults.push(format!("the generator was saturated: it sent {sent} of {intended} frames in time"));
    }
    if !outcome.balanced {
        faults.push("the ledger does not balance".to_owned());
    }
    // Who orders a reset wants something to happen.
    if order.reset.is_none() {
        faults.extend(outcome.happenings.iter().cloned());
    }
    if outcome.seconds.is_nan() || outcome.seconds <= 0.0 {
        faults.push(format!("the window lasted {} s", outcome.seconds));
    }
    faults
}

/// A meter as the search wants it: trials of one length each, repeated by the meter.
pub(super) struct Searching<'m, 'a> {
    pub(super) meter: &'m mut Meter<'a>,
    pub(super) order: Order,
    pub(super) purpose: &'m str,
    /// The trials that counted.
    pub(super) used: Vec<usize>,
    /// Why there was no trial.
    pub(super) stopped: Option<Stop>,
}

impl Measurer for Searching<'_, '_> {
    fn measure(&mut self, input: Input) -> Measured {
        // Milliseconds where that is near enough; a burst is shorter.
        let ns = (input.duration_s * 1e9).round() as u64;
        let near = (ns + 500_000) / 1_000_000 * 1_000_000;
        let ns = if ns.abs_diff(near) <= ns / 1_000_000 { near } else { ns };
        let order = Order {
            load: Load::Pps(input.load_pps),
            duration_ms: ns / 1_000_000,
            duration_ns: ns % 1_000_000,
            ..self.order.clone()
        };
        match self.meter.trial(&order, self.purpose) {
            Ok(made) => {
                self.used.push(made.index);
                Measured::Valid((&made.trial.outcome).into())
            }
            Err(stop) => {
                let measured = match &stop {
                    Stop::Asked => Measured::Stopped,
                    stop => Measured::Broken(stop.to_string()),
                };
                self.stopped = Some(stop);
                measured
            }
        }
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Asked => f.write_str("stopped on request"),
            Self::Invalid(why) | Self::Refused(why) => f.write_str(why),
            Self::Saturated(pps) => write!(f, "the generator cannot make {pps:.0} frames/s"),
            Self::Dataplane(e) => e.fmt(f),
            Self::Journal(e) => e.fmt(f),
        }
    }
}
