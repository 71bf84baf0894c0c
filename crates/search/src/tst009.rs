//! Binary search with loss verification: ETSI GS NFV-TST 009 V3.4.1 clause 12.3.3. Loads form a ladder of equal steps;
//! a trial without loss moves the search up; one with loss is repeated, in the hope that the loss was the host's and
//! not the system's, and moves the search down only when the repetitions are used up.
//!
//! With one trial a load it is the plain binary search of clause 12.3.2, which is what most people mean by an "RFC 2544
//! throughput test" (RFC 2544 section 24, which gives no algorithm). The same result in much less time: the goals
//! [`Goal::tst009`](crate::Goal::tst009) and [`Goal::rfc2544`](crate::Goal::rfc2544) of [`mlr`](crate::mlr).

use crate::mlr::SearchError;
use crate::session::{End, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The search's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tst009 {
    /// Lowest load in frames a second.
    pub min_pps: f64,
    /// Highest load in frames a second.
    pub max_pps: f64,
    /// Distance of neighbouring loads in frames a second.
    pub step_pps: f64,
    /// Length of a trial in seconds.
    pub duration_s: f64,
    /// The standard's max(r): trials at a load until it is given up, 1 or more.
    pub max_r: u32,
    /// The standard's z: a trial that loses more frames than this is not repeated. None: any loss is.
    pub z: Option<u64>,
}

/// What the search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tst009Found {
    /// Highest load found to hold, in frames a second. None if none did.
    pub throughput_pps: Option<f64>,
    /// Loads that held only when tried again: what loss verification made of them.
    pub verified_pps: Vec<f64>,
    /// Trials made.
    pub trials: u32,
    /// Why the search ended before its end; the throughput is then that found so far.
    pub end: Option<End>,
}

impl Tst009 {
    /// A search from `min_pps` to `max_pps` in steps of 0.5 % of the maximum, trials of 60 s, each load tried up to twice.
    ///
    /// # Errors
    /// When the loads are out of range.
    pub fn new(min_pps: f64, max_pps: f64) -> Result<Self, SearchError> {
        let search = Self { min_pps, max_pps, step_pps: max_pps / 200.0, duration_s: 60.0, max_r: 2, z: None };
        search.check()?;
        Ok(search)
    }

    fn check(&self) -> Result<(), SearchError> {
        let Self { min_pps, max_pps, step_pps, duration_s, .. } = *self;
        let positive = |x: f64| x > 0.0 && x.is_finite();
        let fine = positive(min_pps) && positive(max_pps) && min_pps < max_pps;
        // More rungs than floats of this size tell apart would be no ladder.
        let ladder = positive(step_pps) && (max_pps - min_pps) / step_pps < 1e12;
        if fine && ladder && positive(duration_s) { Ok(()) } else { Err(SearchError::Loads { min_pps, max_pps }) }
    }

    /// Number of the highest rung; the lowest is 0.
    fn top(&self) -> u64 {
        // A hair more, so that a division that should give a whole number does.
        ((self.max_pps - self.min_pps) / self.step_pps * (1.0 + 1e-12)).floor() as u64
    }

    /// Seconds that it takes at most, without overhead.
    #[must_use]
    pub fn estimate_s(&self) -> f64 {
        f64::from(self.top().saturating_add(1).ilog2() + 1) * f64::from(self.max_r.max(1)) * self.duration_s
    }

    /// Searches.
    ///
    /// # Errors
    /// When the parameters are out of range. A session that ends is no error: see [`Tst009Found::end`].
    pub fn run(&self, session: &mut Session<'_>) -> Result<Tst009Found, SearchError> {
        self.check()?;
        session.begin("binary search with loss verification", self.estimate_s());
        let mut found = Tst009Found { throughput_pps: None, verified_pps: Vec::new(), trials: 0, end: None };
        let rungs = climb(0, self.top(), |rung| {
            let load = (self.min_pps + rung as f64 * self.step_pps).min(self.max_pps);
            let (holds, tries) = verify(session, (load, self.duration_s), self.max_r, self.z)?;
            found.trials += tries;
            if holds {
                found.throughput_pps = Some(load);
                if tries > 1 {
                    found.verified_pps.push(load);
                }
            }
            Ok(holds)
        });
        found.end = rungs.err();
        Ok(found)
    }
}

/// Up to `max_r` trials at a load, until one is without loss or loses more than `z` frames. Whether one was, and how
/// many it took.
pub(crate) fn verify(
    session: &mut Session<'_>,
    (load, duration_s): (f64, f64),
    max_r: u32,
    z: Option<u64>,
) -> Result<(bool, u32), End> {
    let mut tries = 0;
    loop {
        let trial = session.measure(load, duration_s)?;
        tries += 1;
        let lost = trial.seen.intended.saturating_sub(trial.seen.received);
        if lost == 0 {
            return Ok((true, tries));
        }
        if tries >= max_r || z.is_some_and(|z| lost > z) {
            return Ok((false, tries));
        }
    }
}

/// Binary search among `low..=high` for the largest that `holds`; what it answered is taken for true of all below or all
/// above. The error is its own.
pub(crate) fn climb<E>(low: u64, high: u64, mut holds: impl FnMut(u64) -> Result<bool, E>) -> Result<Option<u64>, E> {
    let (mut low, mut high, mut best) = (low, high, None);
    while low <= high {
        let middle = low + (high - low) / 2;
        if holds(middle)? {
            best = Some(middle);
            low = middle + 1;
        } else if middle == 0 {
            break;
        } else {
            high = middle - 1;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Budget;
    use crate::trial::{Input, Measured, Observation};

    /// A sharp limit at `capacity`; every `every`th trial loses `lost` frames beside.
    fn hiccups(capacity: f64, every: u64, lost: u64) -> impl FnMut(Input) -> Measured {
        let mut n = 0;
        move |trial| {
            n += 1;
            let intended = (trial.load_pps * trial.duration_s) as u64;
            let received = intended.min((capacity * trial.duration_s) as u64);
            let received = if n % every == 0 { received.saturating_sub(lost) } else { received };
            Measured::Valid(Observation::counted(trial.duration_s, intended, received))
        }
    }

    fn run(search: Tst009, system: &mut impl FnMut(Input) -> Measured) -> Tst009Found {
        search.run(&mut Session::new(system, Budget { seconds: 1e6, ..Budget::default() })).unwrap()
    }

    #[test]
    fn finds_the_rung_below_the_limit_in_as_many_trials_as_halvings() {
        let search = Tst009 { min_pps: 1e5, max_pps: 1e7, step_pps: 1e5, max_r: 1, ..Tst009::new(1e5, 1e7).unwrap() };
        let found = run(search, &mut hiccups(1_234_567.0, 1000, 0));
        assert_eq!((found.throughput_pps, &found.end), (Some(1.2e6), &None));
        assert!(found.trials <= 7 && f64::from(found.trials) * 60.0 <= search.estimate_s(), "{found:?}");
        assert_eq!(run(search, &mut hiccups(1e9, 1000, 0)).throughput_pps, Some(1e7));
        assert_eq!(run(search, &mut hiccups(1e4, 1000, 0)).throughput_pps, None);
    }

    #[test]
    fn a_second_trial_forgives_a_hiccup_unless_it_was_large() {
        // Every second trial loses 100 frames: without a second one, nothing near the limit would hold.
        let search = Tst009::new(1e5, 1e7).unwrap();
        let found = run(search, &mut hiccups(5.02e6, 2, 100));
        assert_eq!(found.throughput_pps, Some(5e6));
        assert!(!found.verified_pps.is_empty());
        let strict = run(Tst009 { z: Some(99), ..search }, &mut hiccups(5.02e6, 2, 100));
        assert!(strict.throughput_pps < Some(5e6), "{strict:?}");
    }

    #[test]
    fn what_is_no_ladder_is_refused() {
        let fine = Tst009::new(1e5, 1e7).unwrap();
        for wrong in [
            Tst009 { step_pps: 0.0, ..fine },
            Tst009 { step_pps: f64::NAN, ..fine },
            Tst009 { step_pps: 1e-300, ..fine },
            Tst009 { min_pps: 2e7, ..fine },
            Tst009 { duration_s: -1.0, ..fine },
        ] {
            assert!(wrong.run(&mut Session::new(&mut hiccups(1.0, 1, 0), Budget::default())).is_err(), "{wrong:?}");
        }
    }
}
