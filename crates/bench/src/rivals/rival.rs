//! A dataplane in its lab with a tester around it: what the search measures.
//!
//! Each trial's packets are counted twice, by the tester and by the dataplane itself. If the two disagree by more than
//! 1 %, something between them lost or made packets, and the trial says so and does not count.

use super::adapter::{PortKind, Spec};
use super::lab::Lab;
use super::started::Started;
use super::tester::{self, Traffic};
use crate::dataplane::steered::{Asked, Steered};
use crate::dataplane::{Counters, Dataplane, DataplaneError};
use chainline_trial::{Load, NfOutcome, Order, Outcome, Ready};
use std::path::Path;
use std::time::Instant;

/// Largest difference between a dataplane's own counters and what was measured, as a share.
pub const AGREEMENT: f64 = 0.01;
/// Frames a second of the probe that shows whether a dataplane that says it is ready carries packets.
const PROBE_PPS: f64 = 2_000.0;
/// Length of a probe in milliseconds.
const PROBE_MS: u64 = 200;
/// Probes until a dataplane that carries nothing is one that is not ready; links and caches may need the first ones.
const PROBES: u32 = 10;

/// Who works on which core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Generator, sink, and the tester's ends of the ports.
    pub tester: usize,
    /// The dataplane: the first one is where its work is done unless it has use for several.
    pub dataplane: Vec<usize>,
}

impl Cores {
    /// Why nothing can be measured on these cores; `None` if it can.
    #[must_use]
    pub fn shared(&self) -> Option<String> {
        let shared = self.dataplane.is_empty() || self.dataplane.contains(&self.tester);
        shared.then(|| "it needs a core for the tester and another for the dataplane".to_owned())
    }
}

/// A dataplane that carries packets.
#[derive(Debug)]
pub struct Rival {
    name: String,
    // Dropped in this order: the tester first, the lab last.
    tester: Steered,
    dataplane: Option<Started>,
    _lab: Lab,
}

impl Rival {
    /// Starts a dataplane and a tester, and waits until packets come through. Without a `spec` nothing is between the
    /// tester's ports: what is measured is what the ports cost.
    ///
    /// # Errors
    /// When something is missing, does not become ready, or says that it is and carries nothing.
    pub fn start(
        name: &str,
        spec: Option<&Spec>,
        kind: PortKind,
        traffic: &Traffic,
        cores: &Cores,
        chainline: &Path,
        stop: Asked,
    ) -> Result<Self, DataplaneError> {
        let lab = if spec.is_some() { Lab::new(kind)? } else { Lab::direct(kind)? };
        let dataplane = spec.map(|s| Started::new(name, s, &lab, &cores.dataplane, chainline)).transpose()?;
        let tester = tester::start(&lab, traffic, cores.tester, chainline, stop)?;
        let mut this = Self { name: name.to_owned(), tester, dataplane, _lab: lab };
        this.probe()?;
        Ok(this)
    }

    /// The version that the dataplane says it has.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.dataplane.as_ref().and_then(Started::version)
    }

    fn probe(&mut self) -> Result<(), DataplaneError> {
        let order = Order { load: Load::Pps(PROBE_PPS), duration_ms: PROBE_MS, ..Order::default() };
        let mut sent = 0;
        for _ in 0..PROBES {
            self.alive()?;
            let outcome = self.tester.trial(&order)?;
            sent += outcome.sent;
            if outcome.received > 0 {
                return Ok(());
            }
        }
        self.alive()?;
        let words = self.dataplane.as_ref().map(Started::last_words).filter(|w| !w.is_empty());
        let words = words.map(|w| format!("; its last words: {w}")).unwrap_or_default();
        let why = format!("it says that it is ready, but of {sent} frames none came through{words}");
        Err(DataplaneError::NotReady { what: self.name.clone(), why })
    }

    fn alive(&mut self) -> Result<(), DataplaneError> {
        self.dataplane.as_mut().map_or(Ok(()), Started::alive)
    }

    fn run_ns(&self) -> u64 {
        self.dataplane.as_ref().map_or(0, Started::run_ns)
    }
}

impl Dataplane for Rival {
    fn name(&self) -> &str {
        &self.name
    }

    fn ready(&self) -> &Ready {
        self.tester.ready()
    }

    fn trial(&mut self, order: &Order) -> Result<Outcome, DataplaneError> {
        if order.reset.is_some() {
            let why = "nothing outside of a tester is reset; expected a chain with `port: none`".into();
            return Err(DataplaneError::Refused { what: self.name.clone(), why });
        }
        self.alive()?;
        if order.warmup_ms > 0 {
            // A trial of its own: the dataplane's counters do not know where a warm-up ends.
            let warmup = Order { duration_ms: order.warmup_ms, warmup_ms: 0, ..order.clone() };
            self.tester.trial(&warmup)?;
        }
        let before = self.counters()?;
        let (ran, began) = (self.run_ns(), Instant::now());
        let outcome = self.tester.trial(&Order { warmup_ms: 0, ..order.clone() });
        // If it died the tester's complaint is only a consequence.
        self.alive()?;
        let mut outcome = outcome?;
        // Over window and drain: a dataplane that polls works in both.
        let share = self.run_ns().saturating_sub(ran) as f64 / 1e9 / began.elapsed().as_secs_f64();
        if self.dataplane.is_none() {
            return Ok(outcome);
        }
        let mut own = Counters::default();
        if let (Some(before), Some(after)) = (before, self.counters()?) {
            own = Counters {
                received: after.received.saturating_sub(before.received),
                transmitted: after.transmitted.saturating_sub(before.transmitted),
            };
            outcome.happenings.extend(disagreement(&self.name, own, &outcome));
        }
        let nf =
            NfOutcome { instance: self.name.clone(), received: own.received, cpu_share: share, ..NfOutcome::default() };
        outcome.nfs.insert(self.name.clone(), nf);
        Ok(outcome)
    }

    fn counters(&mut self) -> Result<Option<Counters>, DataplaneError> {
        self.dataplane.as_mut().map_or(Ok(None), Started::counters)
    }
}

/// Why the figures of a trial are not to be believed, if a dataplane's own counters say otherwise. It cannot have
/// received more than was sent, nor fewer than came back; and what it sent is what came back.
#[must_use]
pub fn disagreement(name: &str, own: Counters, outcome: &Outcome) -> Option<String> {
    let back = outcome.received.saturating_add(outcome.duplicated.unwrap_or(0));
    let above = |a: u64, b: u64| a as f64 > b as f64 * (1.0 + AGREEMENT);
    let ours = format!("the tester sent {} and received {back}", outcome.sent);
    let theirs = format!("{name} counts {} received and {} sent", own.received, own.transmitted);
    let why = if above(own.transmitted, back) {
        "frames were lost between it and the tester"
    } else if above(back, own.transmitted) {
        "more came back than it sent"
    } else if above(own.received, outcome.sent) {
        "it received more than was sent"
    } else if above(back, own.received) {
        "more came back than it received"
    } else {
        return None;
    };
    Some(format!("counters disagree by more than 1 %: {ours}, {theirs}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_must_agree_within_a_hundredth() {
        let outcome = Outcome { sent: 10_000, received: 8_000, ..Outcome::default() };
        let said = |received, transmitted| disagreement("x", Counters { received, transmitted }, &outcome);
        for good in [(10_000, 8_000), (8_000, 8_080), (10_100, 7_921), (7_925, 8_000)] {
            assert_eq!(said(good.0, good.1), None, "{good:?}");
        }
        for (bad, why) in [
            ((10_000, 8_081), "lost between it and the tester"),
            ((10_000, 7_919), "more came back than it sent"),
            ((10_102, 8_000), "received more than was sent"),
            ((7_919, 8_000), "more came back than it received"),
        ] {
            assert!(said(bad.0, bad.1).unwrap().contains(why), "{bad:?}");
        }
        let none = Outcome { sent: 10, ..Outcome::default() };
        assert_eq!(disagreement("x", Counters { received: 10, transmitted: 0 }, &none), None);
        assert!(disagreement("x", Counters { received: 0, transmitted: 1 }, &none).is_some());
    }
}
