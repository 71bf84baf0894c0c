//! What is measured, and how long and how often.

use chainline_search::{Goal, Search};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Non-drop rate: RFC 9971 with CSIT's goal.
    Ndr,
    /// Partial drop rate, 0.5 % loss.
    Pdr,
    /// Partial drop rate, 0.1 % loss.
    #[serde(rename = "pdr-0.1")]
    PdrStrict,
    /// RFC 2544 throughput: trials of 60 s without loss.
    Rfc2544,
    /// ETSI GS NFV-TST 009: binary search with loss verification.
    Tst009,
    /// RFC 9004: the longest burst without loss, and the size of buffers that it tells.
    BackToBack,
    /// RFC 6201: how long nothing comes through when an NF's process is killed.
    Reset,
    /// 30 minutes with next to no loss.
    Soak,
    /// Maximum receive rate: what arrives when the generator sends all it can.
    Mrr,
    /// What goes through when the generator waits for room.
    Lossless,
    /// Latency percentiles at shares of PDR.
    Latency,
    /// RFC 2544 section 26.3: loss by load, in steps of 10 %.
    LossCurve,
    /// Mean and percentiles of the latency at given loads.
    Delay,
    /// Time of a core that NFs and manager take, at the highest load or at the line's rate.
    Cpu,
    /// What chains and NFs get of the cores that they share, and what is wasted: see [`super::scheduling`].
    Scheduling,
}

impl Measure {
    /// All, by the word in the file.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("ndr", Self::Ndr),
        ("pdr", Self::Pdr),
        ("pdr-0.1", Self::PdrStrict),
        ("rfc2544", Self::Rfc2544),
        ("tst009", Self::Tst009),
        ("back-to-back", Self::BackToBack),
        ("reset", Self::Reset),
        ("soak", Self::Soak),
        ("mrr", Self::Mrr),
        ("lossless", Self::Lossless),
        ("latency", Self::Latency),
        ("loss-curve", Self::LossCurve),
        ("delay", Self::Delay),
        ("cpu", Self::Cpu),
        ("scheduling", Self::Scheduling),
    ];

    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, m)| *m == self).map_or("", |(w, _)| w)
    }

    /// What is searched for by RFC 9971; `None` where that is not how it is found.
    pub(super) fn goal(self) -> Option<Goal> {
        if self == Self::Tst009 { None } else { Goal::preset(self.word()) }
    }
}

/// How it is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Protocol {
    /// What.
    pub measures: Vec<Measure>,
    /// Length of the trials of `mrr`, `lossless`, `loss-curve` and `cpu` in milliseconds.
    pub trial_ms: u64,
    /// Sends this long before each trial's window begins.
    pub warmup_ms: u64,
    /// Waits this long for packets after it.
    pub drain_ms: u64,
    /// Length of each latency trial, and of each reset, in milliseconds.
    pub latency_ms: u64,
    /// Shares of PDR at which latency is measured.
    pub latency_at: Vec<f64>,
    /// Loads at which `delay` is measured, in frames a second.
    pub loads_pps: Vec<f64>,
    /// Measures latency at this load in frames a second instead: the same for all, so that it can be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_pps: Option<f64>,
    /// Further loads of `scheduling`, as shares of the ideal's throughput.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ideal_shares: Vec<f64>,
    /// `scheduling` cuts its window into slices of so many milliseconds; 0: it does not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slice_ms: u64,
    /// When costs change, in milliseconds after the first packet: how long it takes until shares are right again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps_ms: Vec<u64>,
    /// Trials of `mrr` and `lossless`, searches of `back-to-back`, resets of each NF; their mean counts.
    pub trials: u32,
    /// Searches use goals with so short trials: so many of them to a decision. Names say it.
    pub hasty: Option<Hasty>,
    /// Attempts for a trial that was disturbed.
    pub attempts: u32,
    /// The least disturbed attempt counts if all were disturbed.
    pub allow_disturbed: bool,
    /// No load above this, in frames a second.
    pub max_pps: Option<f64>,
    /// For `cpu`: the load is at most what a line of so many bits a second carries.
    pub line_bps: Option<f64>,
    /// Each search may take so many seconds.
    pub budget_s: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's way
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Shorter trials than a goal says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hasty {
    /// Length of a trial in milliseconds.
    pub trial_ms: u64,
    /// Trials to a decision.
    pub trials: u32,
}

impl Default for Protocol {
    fn default() -> Self {
        Self {
            measures: vec![Measure::Ndr, Measure::Pdr, Measure::Latency],
            trial_ms: 1000,
            warmup_ms: 100,
            drain_ms: 200,
            latency_ms: 5000,
            latency_at: vec![0.1, 0.5, 0.9],
            loads_pps: Vec::new(),
            latency_pps: None,
            ideal_shares: Vec::new(),
            slice_ms: 0,
            steps_ms: Vec::new(),
            trials: 10,
            hasty: None,
            attempts: 4,
            allow_disturbed: false,
            max_pps: None,
            line_bps: None,
            budget_s: 7200.0,
        }
    }
}

impl Protocol {
    /// What `--quick` makes of it: shows that everything works, not how fast it is.
    pub fn hurry(&mut self) {
        const HASTY: Hasty = Hasty { trial_ms: 100, trials: 3 };
        self.hasty = Some(HASTY);
        self.trial_ms = self.trial_ms.min(HASTY.trial_ms);
        self.latency_ms = self.latency_ms.min(500);
        self.trials = self.trials.min(HASTY.trials);
        self.warmup_ms = self.warmup_ms.min(50);
        self.drain_ms = self.drain_ms.min(100);
        self.attempts = self.attempts.min(2);
    }
}

impl Protocol {
    pub(super) fn wants(&self, measure: Measure) -> bool {
        self.measures.contains(&measure)
    }

    /// The goals to search for, with what each is called in figures. Latency needs PDR, bursts and resets need NDR.
    pub(super) fn goals(&self) -> Vec<(&'static str, Goal)> {
        let mut wanted: Vec<Measure> = self.measures.iter().copied().filter(|m| m.goal().is_some()).collect();
        if self.wants(Measure::Latency) && self.latency_pps.is_none() && !wanted.contains(&Measure::Pdr) {
            wanted.push(Measure::Pdr);
        }
        let of_ndr = self.wants(Measure::BackToBack) || self.wants(Measure::Reset);
        if of_ndr && !wanted.contains(&Measure::Ndr) {
            wanted.push(Measure::Ndr);
        }
        let hasty = self.hasty;
        let goal = |m: Measure| {
            let goal = m.goal()?;
            Some((m.word(), hasty.map_or(goal.clone(), |h| goal.quick(h.trial_ms as f64 / 1e3, h.trials))))
        };
        wanted.into_iter().filter_map(goal).collect()
    }

    /// Seconds that one case takes in one round, about: all trials with what each takes beside. It is what people are
    /// told before anything was measured.
    #[must_use]
    pub fn estimate_s(&self) -> f64 {
        let beside = (self.warmup_ms + self.drain_ms) as f64 / 1e3;
        let trial = |ms: u64| ms as f64 / 1e3 + beside;
        let trials = f64::from(self.trials.max(1));
        let goals: Vec<Goal> = self.goals().into_iter().map(|(_, goal)| goal).collect();
        // Loads over four decades, as the search has them.
        let search = Search::new(goals, 1e3, 1e7).map_or(0.0, |s| {
            let estimate = s.estimate();
            estimate.likely_s + f64::from(estimate.trials) * beside
        });
        let one = |measure: &Measure| match measure {
            Measure::Mrr | Measure::Lossless => trials * trial(self.trial_ms),
            Measure::Latency if self.latency_pps.is_some() => trial(self.latency_ms),
            Measure::Latency => self.latency_at.len() as f64 * trial(self.latency_ms),
            Measure::Delay => self.loads_pps.len() as f64 * trial(self.latency_ms),
            Measure::Reset => trials * trial(self.latency_ms),
            Measure::LossCurve => 10.0 * trial(self.trial_ms),
            Measure::Cpu => trial(self.trial_ms),
            Measure::Scheduling => {
                (self.loads_pps.len().max(1) + self.ideal_shares.len()) as f64 * trial(self.trial_ms)
            }
            // Bursts take no time, but what comes after each does; there are some ten of them to a search.
            Measure::BackToBack => trials * 10.0 * beside,
            Measure::Tst009 => 8.0 * (self.hasty.map_or(60.0, |h| h.trial_ms as f64 / 1e3) + beside),
            Measure::Ndr | Measure::Pdr | Measure::PdrStrict | Measure::Rfc2544 | Measure::Soak => 0.0,
        };
        search + self.measures.iter().map(one).sum::<f64>()
    }
}

/// Frames a second on a line of `bps` bits a second: each has 20 bytes of preamble and gap besides its own.
#[must_use]
pub fn line_rate_pps(bps: f64, mean_frame_bytes: f64) -> f64 {
    bps / (8.0 * (mean_frame_bytes + 20.0))
}
