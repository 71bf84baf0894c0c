//! Latency at given loads: RFC 2544 section 26.2 (at the throughput, at least 120 s, repeated at least 20 times, the
//! average reported), with the percentiles that later practice asks for (RFC 8219 section 7.2: the median is typical,
//! the 99.9th percentile the worst case; CSIT: at 10, 50 and 90 % of the PDR).
//!
//! Repetitions are put together histogram by histogram, so percentiles are those of all frames, not averages of
//! percentiles.

use crate::session::{End, Session};
use chainline_trial::Latency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyTest {
    /// Names and loads in frames a second.
    pub loads: Vec<(String, f64)>,
    /// Length of a trial in seconds.
    pub duration_s: f64,
    /// Trials at each load.
    pub repeats: u32,
}

/// Latency at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyAt {
    /// The load's name.
    pub name: String,
    /// The load in frames a second.
    pub load_pps: f64,
    /// Latencies of all frames of all trials; none when no frame came back or the measurer takes no latencies.
    pub latency: Option<Latency>,
    /// Mean latency of each trial in nanoseconds, which shows how repeatable it is.
    pub means_ns: Vec<f64>,
    /// Share of the frames that was lost. Latency of a load that loses frames is that of full buffers.
    pub loss_ratio: f64,
}

/// Latencies by load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyFound {
    /// At the loads in the order given; those that were not reached are missing.
    pub at: Vec<LatencyAt>,
    /// Why it ended before.
    pub end: Option<End>,
}

impl LatencyTest {
    /// At the throughput, as RFC 2544 has it: 20 trials of 120 s.
    #[must_use]
    pub fn rfc2544(throughput_pps: f64) -> Self {
        Self { loads: vec![("throughput".into(), throughput_pps)], duration_s: 120.0, repeats: 20 }
    }

    /// At 10, 50 and 90 % of a rate that is called `of`, one trial of `duration_s` seconds each.
    #[must_use]
    pub fn shares(of: &str, pps: f64, duration_s: f64) -> Self {
        let loads = [10.0, 50.0, 90.0].map(|p| (format!("{p} % of {of}"), pps * p / 100.0)).into();
        Self { loads, duration_s, repeats: 1 }
    }

    /// Seconds that it takes, without overhead.
    #[must_use]
    pub fn estimate_s(&self) -> f64 {
        self.loads.len() as f64 * f64::from(self.repeats) * self.duration_s
    }

    /// Measures.
    pub fn run(&self, session: &mut Session<'_>) -> LatencyFound {
        let mut found = LatencyFound { at: Vec::new(), end: None };
        for (i, (name, load_pps)) in self.loads.iter().enumerate() {
            let left = (self.loads.len() - i) as f64 * f64::from(self.repeats) * self.duration_s;
            session.begin(format!("latency at {name}"), left);
            let (mut all, mut means_ns, mut intended, mut received) = (Vec::new(), Vec::new(), 0u64, 0u64);
            for _ in 0..self.repeats {
                let seen = match session.measure(*load_pps, self.duration_s) {
                    Ok(trial) => trial.seen,
                    Err(end) => {
                        found.end = Some(end);
                        break;
                    }
                };
                intended = intended.saturating_add(seen.intended);
                received = received.saturating_add(seen.received.min(seen.intended));
                if let Some(latency) = seen.latency {
                    means_ns.push(latency.mean);
                    all.push(latency);
                }
            }
            let mut all = all.into_iter();
            let latency = all.next().and_then(|first| all.try_fold(first, |sum, one| merged(&sum, &one)));
            if intended > 0 {
                let loss_ratio = (intended - received) as f64 / intended as f64;
                found.at.push(LatencyAt { name: name.clone(), load_pps: *load_pps, latency, means_ns, loss_ratio });
            }
            if found.end.is_some() {
                break;
            }
        }
        found
    }
}

/// Both together. None where a histogram cannot be read: percentiles of half of the frames would look like all.
fn merged(a: &Latency, b: &Latency) -> Option<Latency> {
    let (mut all, other) = (a.histogram().ok()?, b.histogram().ok()?);
    // A histogram that was read back has just the range of what was in it.
    all.auto(true);
    all.add(other).ok()?;
    Latency::of(&all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Budget;
    use crate::trial::{Input, Measured, Observation};
    use hdrhistogram::Histogram;

    /// Latency of the `n`th trial: its number times a microsecond, for 100 frames.
    fn slower_and_slower() -> impl FnMut(Input) -> Measured {
        let mut n = 0;
        move |trial| {
            n += 1;
            let mut h = Histogram::<u64>::new(3).unwrap();
            h.record_n(n * 1000, 100).unwrap();
            let counted = Observation::counted(trial.duration_s, 100, 99);
            Measured::Valid(Observation { latency: Latency::of(&h), ..counted })
        }
    }

    #[test]
    fn percentiles_are_those_of_all_frames() {
        let test = LatencyTest { loads: vec![("x".into(), 1e3)], duration_s: 1.0, repeats: 4 };
        let found = test.run(&mut Session::new(&mut slower_and_slower(), Budget::default()));
        let at = &found.at[0];
        let latency = at.latency.as_ref().unwrap();
        assert_eq!((latency.count, latency.p50, latency.min), (400, 2000, 1000));
        assert_eq!((at.means_ns.len(), at.loss_ratio), (4, 0.01));
        assert_eq!(LatencyTest::rfc2544(1e6).estimate_s(), 2400.0);
    }

    #[test]
    fn an_early_end_keeps_what_there_is() {
        let test = LatencyTest::shares("PDR", 1e6, 1.0);
        assert_eq!(test.loads[1], ("50 % of PDR".into(), 5e5));
        let budget = Budget { trials: 2, ..Budget::default() };
        let found = test.run(&mut Session::new(&mut slower_and_slower(), budget));
        assert_eq!((found.at.len(), found.end.is_some()), (2, true));
    }
}
