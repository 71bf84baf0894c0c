//! What is measured of one case, in one round.

use super::meter::{Made, Meter, Stop, absurd_floor};
use super::protocol::{Measure, Protocol, line_rate_pps};
use super::tell::Event;
use chainline_search::{Goal, GoalFound, Outcome as Bound, Search};
use chainline_trial::{Load, Order};
use std::collections::BTreeMap;

/// Bounds this far apart, as a share of the upper one, are still shown as a result when a search's time was up.
const WIDE: f64 = 0.1;

/// One number that was found, and what it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What: `ndr`, `loss-curve`, `latency p99 at 50 % of PDR`.
    pub what: String,
    /// The line that it belongs to, where a measure gives several: `50 % of PDR`. Empty otherwise.
    pub line: String,
    /// Where it lies on the measure's own axis, where it has one: load in percent, share below.
    pub x: Option<f64>,
    /// The number, in the unit of the measure.
    pub value: f64,
    /// Indexes of the trials behind it.
    pub trials: Vec<usize>,
}

/// Something that was not found, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// Everything that was found in one case and round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Numbers.
    pub figures: Vec<Figure>,
    /// What there is no number for.
    pub missing: Vec<Missing>,
    /// What a reader must know of the numbers.
    pub remarks: Vec<String>,
}

impl Found {
    pub(super) fn figure(&mut self, what: &str, value: f64, trials: Vec<usize>) {
        self.figures.push(Figure { what: what.into(), line: String::new(), x: None, value, trials });
    }

    pub(super) fn lacks(&mut self, what: &str, why: impl Into<String>) {
        self.missing.push(Missing { what: what.into(), why: why.into() });
    }

    pub(super) fn value(&self, what: &str) -> Option<f64> {
        self.figures.iter().find(|f| f.what == what).map(|f| f.value)
    }
}

/// Measures one case. What could not be measured is said in the result. Besides it why that is not all: the user wants
/// an end, the journal cannot be written, the dataplane failed.
pub(super) fn measure(meter: &mut Meter<'_>, protocol: &Protocol, ideal: Ideal) -> (Found, Option<Stop>) {
    let mut procedure = Procedure { meter, protocol, ideal, found: Found::default() };
    let stop = procedure.all().err();
    let mut found = procedure.found;
    if let Some(why) = procedure.meter.disturbed.take() {
        found.remarks.push(format!("made from trials that others disturbed ({why}): not to be relied upon"));
    }
    (found, stop)
}

/// What is known of a case's ideal as the case is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ideal {
    /// There is none.
    None,
    /// The case is one.
    Own,
    /// Its throughput in this round in frames a second, if that was found.
    Other(Option<f64>),
}

pub(super) struct Procedure<'p, 'm> {
    pub(super) meter: &'p mut Meter<'m>,
    pub(super) protocol: &'p Protocol,
    pub(super) ideal: Ideal,
    pub(super) found: Found,
}

impl Procedure<'_, '_> {
    pub(super) fn order(&self, load: Load, duration_ms: u64) -> Order {
        let Protocol { warmup_ms, drain_ms, .. } = *self.protocol;
        Order { load, warmup_ms, duration_ms, drain_ms, ..Order::default() }
    }

    fn wants(&self, measure: Measure) -> bool {
        self.protocol.wants(measure)
    }

    fn all(&mut self) -> Result<(), Stop> {
        let ready = self.meter.ready()?;
        let goals = self.protocol.goals();
        // Latencies above such a floor say nothing; rates do.
        let floor = absurd_floor(&ready);
        if let Some(why) = &floor
            && self.protocol.allow_disturbed
        {
            self.meter.disturbed = Some(why.clone());
        }
        let floor = floor.filter(|_| !self.protocol.allow_disturbed);
        if self.wants(Measure::Delay) {
            match &floor {
                None => self.delay()?,
                Some(why) => {
                    for pps in &self.protocol.loads_pps {
                        self.found.lacks(&format!("delay at {pps:.0} frames/s"), why);
                    }
                }
            }
        }
        if self.wants(Measure::Scheduling) {
            self.scheduling(floor.as_deref())?;
        }
        let rest = [Measure::Mrr, Measure::LossCurve, Measure::Cpu, Measure::Tst009];
        if !goals.is_empty() || rest.iter().any(|m| self.wants(*m)) {
            let trials = if self.wants(Measure::Mrr) { self.protocol.trials.max(1) } else { 1 };
            let Some((made, sent_pps)) = self.flat_out(Load::Max, "mrr", trials)? else {
                for measure in &self.protocol.measures {
                    if ![Measure::Lossless, Measure::Mrr, Measure::Delay, Measure::Scheduling].contains(measure) {
                        self.found.lacks(measure.word(), "how fast the generator is could not be found out");
                    }
                }
                return self.lossless();
            };
            let received_pps = mean(&made, |m| m.trial.outcome.received_pps());
            // Paced sending costs a little more than sending all at once.
            let max_pps = (0.95 * sent_pps).min(self.protocol.max_pps.unwrap_or(f64::INFINITY));
            if self.wants(Measure::Mrr) {
                self.found.figure("mrr", mean(&made, |m| m.trial.outcome.received_pps()), indexes(&made));
            }
            if !goals.is_empty() {
                self.search(&goals, max_pps, received_pps)?;
            }
            if self.wants(Measure::Tst009) {
                self.tst009(max_pps)?;
            }
            if self.wants(Measure::Latency) {
                match &floor {
                    None => self.latency()?,
                    Some(why) => self.found.lacks("latency", why),
                }
            }
            if self.wants(Measure::BackToBack) {
                self.back_to_back(max_pps)?;
            }
            if self.wants(Measure::Reset) {
                self.reset()?;
            }
            if self.wants(Measure::LossCurve) {
                self.loss_curve(max_pps)?;
            }
            if self.wants(Measure::Cpu) {
                let line = self.protocol.line_bps.map(|bps| line_rate_pps(bps, ready.mean_frame_bytes));
                self.cpu(max_pps.min(line.unwrap_or(f64::INFINITY)))?;
            }
        }
        self.lossless()
    }

    /// Trials at a load that the generator sets itself, and the median rate that it sent at.
    fn flat_out(&mut self, load: Load, what: &str, trials: u32) -> Result<Option<(Vec<Made>, f64)>, Stop> {
        (self.meter.tell)(Event::Step(what));
        let order = self.order(load, self.protocol.trial_ms);
        let mut made = Vec::new();
        for _ in 0..trials {
            match self.meter.trial(&order, what) {
                Ok(m) => made.push(m),
                Err(stop) => {
                    self.tolerate(what, stop)?;
                    return Ok(None);
                }
            }
        }
        let mut rates: Vec<f64> = made.iter().map(|m| m.trial.outcome.sent as f64 / m.trial.outcome.seconds).collect();
        rates.sort_unstable_by(f64::total_cmp);
        let sent_pps = rates.get(rates.len() / 2).copied().unwrap_or(0.0);
        if sent_pps > 0.0 {
            return Ok(Some((made, sent_pps)));
        }
        self.found.lacks(what, "the generator sent nothing");
        Ok(None)
    }

    /// A trial that cannot be had is no end of the others; what concerns the whole benchmark is.
    pub(super) fn tolerate(&mut self, what: &str, stop: Stop) -> Result<(), Stop> {
        match stop {
            Stop::Invalid(_) | Stop::Saturated(_) | Stop::Refused(_) => {
                self.found.lacks(what, stop.to_string());
                Ok(())
            }
            stop => Err(stop),
        }
    }

    fn lossless(&mut self) -> Result<(), Stop> {
        if self.wants(Measure::Lossless)
            && let Some((made, _)) = self.flat_out(Load::Lossless, "lossless", self.protocol.trials.max(1))?
        {
            self.found.figure("lossless", mean(&made, |m| m.trial.outcome.received_pps()), indexes(&made));
        }
        Ok(())
    }

    /// All goals in one search. It begins with a range not far above what arrived at full load, since trials that saturate
    /// the generator say nothing and take long; the range is made larger if its end holds, and smaller where the generator
    /// does not keep up.
    fn search(&mut self, goals: &[(&'static str, Goal)], limit_pps: f64, received_pps: f64) -> Result<(), Stop> {
        /// A dataplane may carry more when less is offered, rarely twice as much.
        const ABOVE: f64 = 2.0;
        const CHANGES: u32 = 6;
        let mut limit_pps = limit_pps;
        let mut max_pps = limit_pps.min((ABOVE * received_pps).max(0.01 * limit_pps));
        for changed in 0..=CHANGES {
            let shortest = goals.iter().map(|(_, g)| g.initial_trial_s).fold(f64::INFINITY, f64::min);
            // A few frames at least in the shortest trial.
            let min_pps = (1e-4 * max_pps).max(20.0 / shortest);
            let search = Search::new(goals.iter().map(|(_, g)| g.clone()).collect(), min_pps, max_pps)
                .and_then(|s| s.warmup(shortest));
            let search = match search {
                Ok(search) => search,
                Err(e) => {
                    goals.iter().for_each(|(what, _)| self.found.lacks(what, e.to_string()));
                    return Ok(());
                }
            };
            let order = self.order(Load::Max, 0);
            let (found, used, stopped) = self.in_session("search", order, |session| search.run(session))?;
            if let Some(Stop::Saturated(pps)) = stopped
                && changed < CHANGES
            {
                limit_pps = 0.9 * pps;
                max_pps = max_pps.min(limit_pps);
                continue;
            }
            let holds = |g: &GoalFound| g.outcome == Bound::MaxLoadHolds;
            if max_pps < limit_pps && changed < CHANGES && found.goals.iter().any(holds) {
                max_pps = limit_pps.min(4.0 * max_pps);
                continue;
            }
            let end = found.end.as_ref().map(ToString::to_string);
            for ((what, _), goal) in goals.iter().zip(&found.goals) {
                self.goal(what, goal, end.as_deref(), max_pps, &used);
            }
            return Ok(());
        }
        Ok(())
    }

    fn goal(&mut self, what: &'static str, goal: &GoalFound, end: Option<&str>, max_pps: f64, used: &[usize]) {
        let name = &goal.goal.name;
        let wanted = self.protocol.measures.iter().any(|m| m.word() == what);
        match (goal.outcome, goal.bounds.throughput_pps) {
            (Bound::Regular, Some(pps)) => self.found.figure(what, pps, used.to_vec()),
            (Bound::MaxLoadHolds, Some(pps)) => {
                self.found.figure(what, pps, used.to_vec());
                let why =
                    format!("{name} is at least this: the generator makes no more than {:.3} Mpps", max_pps / 1e6);
                self.found.remarks.push(why);
            }
            // The time was up: what is known by then is said, where it tells something.
            (Bound::Unfinished, Some(pps))
                if goal.bounds.upper_pps.is_some_and(|upper| upper - pps <= WIDE * upper) =>
            {
                self.found.figure(what, pps, used.to_vec());
                let upper = goal.bounds.upper_pps.unwrap_or(pps);
                let end = end.unwrap_or("the search ended early");
                let why = format!(
                    "{name}: {end}: it is between {:.3} and {:.3} Mpps, {:.1} % apart where {:.1} % were sought",
                    pps / 1e6,
                    upper / 1e6,
                    100.0 * (upper - pps) / upper,
                    100.0 * goal.goal.width
                );
                self.found.remarks.push(why);
            }
            _ if !wanted => {}
            (Bound::MinLoadFails, _) => {
                let pps = goal.bounds.upper_pps.unwrap_or_default();
                self.found.lacks(what, format!("{name}: even {pps:.0} frames/s are too many"));
            }
            (_, lower) => {
                let bounds = match (lower, goal.bounds.upper_pps) {
                    (Some(l), Some(u)) => format!(" (between {:.3} and {:.3} Mpps so far)", l / 1e6, u / 1e6),
                    (Some(l), None) => format!(" (at least {:.3} Mpps so far)", l / 1e6),
                    (None, Some(u)) => format!(" (below {:.3} Mpps so far)", u / 1e6),
                    (None, None) => String::new(),
                };
                let end = end.unwrap_or("the search did not end as it should");
                self.found.lacks(what, format!("{name}: {end}{bounds}"));
            }
        }
    }

    fn latency(&mut self) -> Result<(), Stop> {
        let loads: Vec<(String, f64)> = match (self.protocol.latency_pps, self.found.value("pdr")) {
            (Some(pps), _) => vec![(format!("{pps:.0} frames/s"), pps)],
            (None, Some(pdr)) => {
                let at = |share: &f64| (format!("{} % of PDR", (share * 1e4).round() / 100.0), share * pdr);
                self.protocol.latency_at.iter().map(at).collect()
            }
            (None, None) => {
                self.found.lacks("latency", "it is measured at shares of PDR, which was not found");
                return Ok(());
            }
        };
        for (line, pps) in loads {
            (self.meter.tell)(Event::Step(&format!("latency at {line}")));
            let order = self.order(Load::Pps(pps), self.protocol.latency_ms);
            let made = match self.meter.trial(&order, "latency") {
                Ok(made) => made,
                Err(stop) => {
                    self.tolerate(&format!("latency at {line}"), stop)?;
                    continue;
                }
            };
            let Some(latency) = &made.trial.outcome.latency else {
                self.found.lacks(&format!("latency at {line}"), "no frame arrived");
                continue;
            };
            let named = [
                (0.5, "p50", latency.p50),
                (0.9, "p90", latency.p90),
                (0.99, "p99", latency.p99),
                (0.999, "p99.9", latency.p99_9),
                (0.9999, "p99.99", latency.p99_99),
                (0.99999, "p99.999", latency.p99_999),
            ];
            for (quantile, name, ns) in named {
                // A percentile needs a few values beyond it.
                if latency.count as f64 * (1.0 - quantile) < 5.0 {
                    continue;
                }
                let (us, trials) = (ns as f64 / 1e3, vec![made.index]);
                self.found.figures.push(Figure {
                    what: "latency".into(),
                    line: line.clone(),
                    x: Some(quantile),
                    value: us,
                    trials: trials.clone(),
                });
                self.found.figure(&format!("latency {name} at {line}"), us, trials);
            }
        }
        Ok(())
    }

    fn delay(&mut self) -> Result<(), Stop> {
        for pps in self.protocol.loads_pps.clone() {
            let at = format!("delay at {pps:.0} frames/s");
            (self.meter.tell)(Event::Step(&at));
            let order = self.order(Load::Pps(pps), self.protocol.latency_ms);
            let made = match self.meter.trial(&order, "delay") {
                Ok(made) => made,
                Err(stop) => {
                    self.tolerate(&at, stop)?;
                    continue;
                }
            };
            let Some(latency) = &made.trial.outcome.latency else {
                self.found.lacks(&at, "no frame arrived");
                continue;
            };
            let values = [("mean", latency.mean), ("p50", latency.p50 as f64), ("p99", latency.p99 as f64)];
            for (name, ns) in values {
                self.found.figures.push(Figure {
                    what: format!("delay {name}"),
                    line: String::new(),
                    x: Some(pps),
                    value: ns / 1e3,
                    trials: vec![made.index],
                });
            }
        }
        Ok(())
    }

    /// RFC 2544 section 26.3: from the highest load down, until two in a row lose nothing.
    fn loss_curve(&mut self, max_pps: f64) -> Result<(), Stop> {
        let mut without_loss = 0;
        for percent in (1..=10_u32).rev().map(|tenth| 10 * tenth) {
            (self.meter.tell)(Event::Step(&format!("loss at {percent} % load")));
            let order = self.order(Load::Pps(max_pps * f64::from(percent) / 100.0), self.protocol.trial_ms);
            let made = match self.meter.trial(&order, "loss-curve") {
                Ok(made) => made,
                Err(stop) => {
                    self.tolerate(&format!("loss-curve at {percent} % of {:.3} Mpps", max_pps / 1e6), stop)?;
                    continue;
                }
            };
            let loss = 100.0 * made.trial.outcome.loss_ratio();
            self.found.figures.push(Figure {
                what: "loss-curve".into(),
                line: String::new(),
                x: Some(f64::from(percent)),
                value: loss,
                trials: vec![made.index],
            });
            without_loss = if made.trial.outcome.lost == 0 { without_loss + 1 } else { 0 };
            if without_loss == 2 {
                break;
            }
        }
        Ok(())
    }

    /// Core time of all NFs, and packets wasted, at one load.
    fn cpu(&mut self, load_pps: f64) -> Result<(), Stop> {
        (self.meter.tell)(Event::Step("cpu"));
        let order = self.order(Load::Pps(load_pps), self.protocol.trial_ms);
        match self.meter.trial(&order, "cpu") {
            Ok(made) => {
                let nfs = made.trial.outcome.nfs.values();
                // Fused NFs all show the time of their instance.
                let instances: BTreeMap<&str, f64> = nfs.map(|nf| (nf.instance.as_str(), nf.cpu_share)).collect();
                if instances.is_empty() {
                    self.found.lacks("cpu", "the dataplane does not tell the core time of its parts");
                    return Ok(());
                }
                self.found.figure("cpu", 100.0 * instances.values().sum::<f64>(), vec![made.index]);
                self.found.figure("cpu load", load_pps / 1e6, vec![made.index]);
                Ok(())
            }
            Err(stop) => self.tolerate("cpu", stop),
        }
    }
}

fn mean(made: &[Made], of: impl Fn(&Made) -> f64) -> f64 {
    made.iter().map(of).sum::<f64>() / made.len().max(1) as f64
}

fn indexes(made: &[Made]) -> Vec<usize> {
    made.iter().map(|m| m.index).collect()
}
