//! What a search asks for, and what it is told.

use chainline_trial::{Latency, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Makes trials. The one thing that a search needs from the world.
///
/// RFC 9971 calls it *Measurer* ("Architecture Terms"). What is sent (frame sizes, flows, direction) is settled before the search
/// begins and stays the same throughout.
pub trait Measurer {
    /// Makes one trial and waits for its end.
    fn measure(&mut self, input: Input) -> Measured;
}

impl<F: FnMut(Input) -> Measured> Measurer for F {
    fn measure(&mut self, input: Input) -> Measured {
        self(input)
    }
}

/// One trial to make: RFC 9971's *Trial Input*, which has these two attributes and must not have more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Frames a second that are to be sent.
    pub load_pps: f64,
    /// For how many seconds.
    pub duration_s: f64,
}

/// What became of an order to measure.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// A trial that counts.
    Valid(Observation),
    /// A trial that says nothing about the system (steal time, a saturated generator, …), and why. It is repeated.
    Invalid(String),
    /// The user wants an end (Ctrl-C). What was found is kept.
    Stopped,
    /// No more trials are possible, and why: the system under test died, say.
    Broken(String),
}

/// What was counted in a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observation {
    /// Length of the trial as measured, in seconds. For the record: decisions use the intended duration, which is
    /// RFC 9971's default for the *Trial Effective Duration*.
    pub seconds: f64,
    /// Frames that were to be sent.
    pub intended: u64,
    /// Of these, how many arrived, duplicates counted once.
    pub received: u64,
    /// Their latencies, where the measurer has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Longest time between the arrivals of two successive frames in nanoseconds, where the measurer has it; what a reset
    /// test reads the outage from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ns: Option<u64>,
}

impl Observation {
    /// Counts without anything beside.
    #[must_use]
    pub fn counted(seconds: f64, intended: u64, received: u64) -> Self {
        Self { seconds, intended, received, latency: None, gap_ns: None }
    }

    /// RFC 9971's *Trial Loss Ratio*: the share of the frames that were to be sent and did not arrive, 0 to 1. Frames
    /// that the generator did not manage to send count as lost, as its section "Measurer" recommends.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        let lost = self.intended.saturating_sub(self.received);
        if self.intended == 0 { 0.0 } else { lost as f64 / self.intended as f64 }
    }
}

impl From<&Outcome> for Observation {
    fn from(outcome: &Outcome) -> Self {
        Self {
            seconds: outcome.seconds,
            intended: outcome.intended,
            received: outcome.received,
            latency: outcome.latency.clone(),
            gap_ns: outcome.longest_gap_ns,
        }
    }
}

/// A trial that counted: RFC 9971's *Trial Result*.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// What was asked for.
    #[serde(flatten)]
    pub input: Input,
    /// What was counted.
    #[serde(flatten)]
    pub seen: Observation,
}

impl Trial {
    /// See [`Observation::loss_ratio`].
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        self.seen.loss_ratio()
    }

    /// RFC 9971's *Trial Forwarding Rate*: the load times the share that arrived, in frames a second.
    #[must_use]
    pub fn forwarding_pps(&self) -> f64 {
        self.input.load_pps * (1.0 - self.loss_ratio())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_sent_is_lost_and_duplicates_are_no_gain() {
        let seen = |intended, received| Observation { intended, received, ..Observation::default() };
        assert_eq!(seen(1000, 750).loss_ratio(), 0.25);
        assert_eq!(seen(1000, 1001).loss_ratio(), 0.0);
        assert_eq!(seen(0, 0).loss_ratio(), 0.0);
        let outcome = Outcome { intended: 10, sent: 8, received: 7, ..Outcome::default() };
        assert_eq!(Observation::from(&outcome).loss_ratio(), 0.3);
    }
}
