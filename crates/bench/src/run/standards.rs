//! Tests that a standard writes step by step: TST009's search, back-to-back frames, resets. The steps are those of
//! `crates/search`; here they get trials, and what they come to becomes figures.

use super::measure::{Figure, Procedure};
use super::meter::{Searching, Stop};
use super::tell::Event;
use chainline_search::{BackToBack, Budget, Reset, Session, Tst009};
use chainline_trial::{Load, Order};
use std::collections::BTreeMap;

/// How often a range of loads is made smaller as the generator does not keep up with it.
pub(super) const SHORTENED: u32 = 4;
/// Resets are made at this share of NDR: well below the throughput, so that what is lost is the reset's.
const RESET_AT: f64 = 0.5;

/// What a procedure came to, the trials that it used, and why there were no more.
pub(super) type InSession<R> = (R, Vec<usize>, Option<Stop>);

impl Procedure<'_, '_> {
    /// Runs a procedure of `crates/search` over this case. `order` is what is the same in all its trials. What ends the
    /// whole benchmark is an error.
    pub(super) fn in_session<R>(
        &mut self,
        purpose: &'static str,
        order: Order,
        run: impl FnOnce(&mut Session<'_>) -> R,
    ) -> Result<InSession<R>, Stop> {
        let overhead_s = (order.warmup_ms + order.drain_ms) as f64 / 1e3;
        let budget = Budget { seconds: self.protocol.budget_s, overhead_s, repeats: 0, ..Budget::default() };
        let mut searching = Searching { meter: &mut *self.meter, order, purpose, used: Vec::new(), stopped: None };
        let found = run(&mut Session::new(&mut searching, budget));
        let (used, stopped) = (searching.used, searching.stopped);
        match stopped {
            Some(stop @ (Stop::Asked | Stop::Dataplane(_) | Stop::Journal(_))) => Err(stop),
            stopped => Ok((found, used, stopped)),
        }
    }

    /// ETSI GS NFV-TST 009 clause 12.3.3. In haste trials are shorter than its 60 s.
    pub(super) fn tst009(&mut self, mut max_pps: f64) -> Result<(), Stop> {
        const WHAT: &str = "tst009";
        (self.meter.tell)(Event::Step(WHAT));
        for shortened in 0..=SHORTENED {
            let mut search = match Tst009::new(max_pps / 200.0, max_pps) {
                Ok(search) => search,
                Err(e) => {
                    self.found.lacks(WHAT, e.to_string());
                    return Ok(());
                }
            };
            if let Some(hasty) = self.protocol.hasty {
                search.duration_s = hasty.trial_ms as f64 / 1e3;
            }
            let order = self.order(Load::Max, 0);
            let (found, used, stopped) = self.in_session(WHAT, order, |session| search.run(session))?;
            if let Some(Stop::Saturated(pps)) = stopped
                && shortened < SHORTENED
            {
                max_pps = 0.9 * pps;
                continue;
            }
            let found = match found {
                Ok(found) => found,
                Err(e) => {
                    self.found.lacks(WHAT, e.to_string());
                    return Ok(());
                }
            };
            match (found.throughput_pps, &found.end) {
                (Some(pps), None) => {
                    self.found.figure(WHAT, pps, used);
                    if pps > max_pps - search.step_pps {
                        let why = format!("the generator makes no more than {:.3} Mpps", max_pps / 1e6);
                        self.found.remarks.push(format!("TST009 throughput is at least this: {why}"));
                    }
                    if !found.verified_pps.is_empty() {
                        let n = found.verified_pps.len();
                        let word = format!("TST009: {n} loads held only when they were tried again");
                        self.found.remarks.push(word);
                    }
                }
                (None, None) => self.found.lacks(WHAT, format!("even {:.0} frames/s are too many", search.min_pps)),
                (so_far, Some(end)) => {
                    let so_far = so_far.map(|pps| format!(" (at least {:.3} Mpps so far)", pps / 1e6));
                    self.found.lacks(WHAT, format!("{end}{}", so_far.unwrap_or_default()));
                }
            }
            return Ok(());
        }
        Ok(())
    }

    /// RFC 9004: bursts at the highest rate, and what they tell of buffers.
    pub(super) fn back_to_back(&mut self, max_pps: f64) -> Result<(), Stop> {
        const WHAT: &str = "back-to-back";
        let Some(throughput_pps) = self.found.value("ndr") else {
            self.found.lacks(WHAT, "it takes the throughput, NDR, which was not found");
            return Ok(());
        };
        (self.meter.tell)(Event::Step(WHAT));
        let test = BackToBack { repeats: self.protocol.trials.max(1), ..BackToBack::new(max_pps, throughput_pps) };
        // A burst finds the dataplane idle: what came before has left.
        let order = Order { warmup_ms: 0, ..self.order(Load::Max, 0) };
        let (found, used, stopped) = self.in_session(WHAT, order, |session| test.run(session))?;
        match (found.frames, found.corrected_s) {
            (Some(frames), Some(corrected_s)) => {
                self.found.figure(WHAT, frames.mean, used.clone());
                self.found.figure("back-to-back buffer", corrected_s, used);
            }
            _ => {
                let end = || found.end.map(|e| e.to_string());
                let why = found.unavailable.or_else(|| stopped.map(|s| s.to_string())).or_else(end);
                self.found.lacks(WHAT, why.unwrap_or_else(|| "no burst was measured".into()));
            }
        }
        Ok(())
    }

    /// RFC 6201, software reset: each NF's process is killed, and started again by whoever watches it.
    pub(super) fn reset(&mut self) -> Result<(), Stop> {
        const WHAT: &str = "reset";
        let Some(ndr) = self.found.value("ndr") else {
            self.found.lacks(WHAT, "it is measured at half of NDR, which was not found");
            return Ok(());
        };
        // NFs of one process die together.
        let mut by_process: BTreeMap<String, String> = BTreeMap::new();
        for (nf, outcome) in self.meter.trials.last().into_iter().flat_map(|t| &t.outcome.nfs) {
            by_process.entry(outcome.instance.clone()).or_insert_with(|| nf.clone());
        }
        if by_process.is_empty() {
            self.found.lacks(WHAT, "there is no NF that could be killed");
        }
        let load_pps = self.protocol.latency_pps.unwrap_or(RESET_AT * ndr);
        for nf in by_process.into_values() {
            (self.meter.tell)(Event::Step(&format!("reset of {nf}")));
            let duration_s = self.protocol.latency_ms as f64 / 1e3;
            let test = Reset { load_pps, duration_s, repeats: self.protocol.trials.max(1) };
            let order = Order { reset: Some(nf.clone()), ..self.order(Load::Max, 0) };
            let (found, used, stopped) = self.in_session(WHAT, order, |session| test.run(session))?;
            let why = stopped.map(|s| s.to_string()).or_else(|| found.end.map(|e| e.to_string()));
            let Some(by_loss) = found.by_loss_s.filter(|_| why.is_none()) else {
                let why = why.unwrap_or_else(|| "no trial was made".into());
                self.found.lacks(&format!("{WHAT} at {nf}"), why);
                continue;
            };
            let values = [(WHAT, Some(by_loss)), ("reset by time", found.by_time_s)];
            for (what, spread) in values {
                let Some(spread) = spread else { continue };
                self.found.figures.push(Figure {
                    what: what.into(),
                    line: nf.clone(),
                    x: None,
                    value: spread.mean,
                    trials: used.clone(),
                });
            }
            if found.not_recovered > 0 {
                let n = found.not_recovered;
                let word = format!("in {n} resets of {nf} half of the frames or more were lost: lower limits");
                self.found.remarks.push(word);
            }
        }
        Ok(())
    }
}
