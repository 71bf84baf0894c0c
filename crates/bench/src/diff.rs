//! Two results held against each other, point by point: better, worse, no difference, or not to be compared.
//!
//! A point is a section, a series and a place on the x axis. What is compared are the samples of its rounds, as ratios
//! if all are positive. A point is called better or worse only if both hold:
//!
//! 1. **The interval.** The whole 95 % confidence interval of the ratio of B to A lies beyond the *margin* (1 % unless
//!    told otherwise). With at least four rounds on each side it is the interval of the Hodges–Lehmann estimate, exact
//!    for any distribution of noise (Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, 3rd ed., sections 4.3
//!    and 3.3); with three, where ranks can show nothing at 95 %, Welch's t on logarithms.
//! 2. **The family.** Among forty points two differ by chance at 95 %. So the probability that *any* point is called
//!    different when none is, is held at 5 %: by the permutation of rounds (Westfall, Young, Resampling-Based Multiple
//!    Testing, 1993, section 2.6: step-down maxT) where there are enough of them, else by Holm's method. Rounds are
//!    permuted as wholes, so a slow minute that hit all points of a round is no evidence of forty differences.
//!
//! The bootstrap is not used: with five rounds its percentile intervals are too short. `tests/false_alarms.rs` shows
//! false alarms and power under noise as benchmarks have it.
//!
//! Pure: no clocks, and a fixed seed; the same inputs give the same words.

mod direction;
mod environment;
mod family;
mod matching;
mod ranks;
mod table;
mod verdict;

pub use direction::{Better, better};
pub use environment::{Differs, differences};
pub use matching::{belongs, between, diff};
pub use table::table;
pub use verdict::{Interval, Method, Samples, Tested, judge};

use crate::results::X;
use schemars::JsonSchema;
use serde::Serialize;

/// How sure, and how small a change is of no interest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Settings {
    /// Confidence of each interval, and one less the share of comparisons of equal builds with any false alarm.
    pub confidence: f64,
    /// A change up to this share counts as none, 0.01 for 1 %.
    pub margin: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { confidence: 0.95, margin: 0.01 }
    }
}

/// What became of a point, from A to B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// B differs, and its unit does not tell which way is better.
    Different,
    /// No difference was shown. How large a one could have been missed, the interval tells.
    NoDifference,
    /// There is nothing to compare, or too little.
    CannotCompare,
}

/// Whether a change is a factor or a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// B divided by A; 1 is no change.
    Ratio,
    /// B less A, in the point's unit; 0 is no change. Where samples are zero or negative.
    Difference,
}

/// From A to B.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// What the numbers are.
    pub scale: Scale,
    /// Median of all pairwise changes (Hodges–Lehmann); with three rounds the geometric mean.
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Median of B by (or less) median of A.
    pub of_medians: f64,
    /// Probability that the largest difference among all points is such by chance.
    pub p: f64,
    /// How the interval was made.
    pub method: Method,
    /// Whether round was held against round, as both were measured in one interleaved run.
    pub paired: bool,
}

/// One side of a point.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// Median of the samples.
    pub median: f64,
    /// How many there are.
    pub rounds: usize,
}

/// One point.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// [`crate::results::Section::id`].
    pub section: String,
    /// Name of the series; when two series of one file are compared, both.
    pub series: String,
    /// The place; `null` when a whole section or series is missing.
    pub x: Option<X>,
    /// Unit of the x axis.
    pub x_unit: String,
    /// Unit of the values.
    pub unit: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Why it cannot be compared, or what to know of it.
    pub why: Option<String>,
    /// Which way is better.
    pub better: Option<Better>,
    /// In A.
    pub a: Option<Side>,
    /// In B.
    pub b: Option<Side>,
    /// From A to B, where it can be told.
    pub change: Option<Change>,
}

/// How many points there are of each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Count {
    /// [`Verdict::Better`].
    pub better: usize,
    /// [`Verdict::Worse`].
    pub worse: usize,
    /// [`Verdict::Different`].
    pub different: usize,
    /// [`Verdict::NoDifference`].
    pub no_difference: usize,
    /// [`Verdict::CannotCompare`].
    pub cannot_compare: usize,
}

/// Two results, held against each other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Diff {
    /// What A and B are.
    pub a: String,
    /// The same of B.
    pub b: String,
    /// By which rules.
    pub settings: Settings,
    /// The verdicts, counted.
    pub count: Count,
    /// Each point.
    pub points: Vec<Compared>,
    /// Where the environments differ; the weighty ones first.
    pub environment: Vec<Differs>,
    /// What a reader must know of the whole.
    pub remarks: Vec<String>,
}
