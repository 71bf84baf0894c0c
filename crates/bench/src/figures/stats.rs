//! Rounds to figures. Medians with their extremes: a few rounds on a shared host have outliers, and no normal
//! distribution.

use serde::Serialize;
use serde_json::{Map, Value};

/// What became of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// It was measured.
    Measured(Measured),
    /// This host, or this run, could not measure it.
    Unavailable {
        /// Why.
        unavailable: String,
    },
}

/// A measured figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Number of rounds.
    pub rounds: usize,
    /// Median of the rounds.
    pub median: f64,
    /// Smallest round.
    pub min: f64,
    /// Largest round.
    pub max: f64,
    /// Unit of all of them.
    pub unit: &'static str,
    /// The rounds, in order.
    pub values: Vec<f64>,
    /// What else is to be known of it.
    #[serde(flatten)]
    pub notes: Map<String, Value>,
}

/// What one round saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The value.
    pub value: f64,
    /// Others took so much of the host meanwhile that it says little.
    pub disturbed: bool,
}

impl Sample {
    /// What follows from two samples of one round.
    #[must_use]
    pub fn with(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self { value: f(self.value, other.value), disturbed: self.disturbed || other.disturbed }
    }
}

/// The values that count: the undisturbed ones, or all if there are no others.
#[must_use]
pub fn counting(samples: &[Sample]) -> Vec<f64> {
    let any = samples.iter().any(|s| !s.disturbed);
    samples.iter().filter(|s| !(any && s.disturbed)).map(|s| s.value).collect()
}

impl Figure {
    /// A figure from its rounds, each times `scale`. Disturbed rounds are left out if there are others; either way
    /// the figure says how many there were.
    #[must_use]
    pub fn of_samples(samples: &[Sample], scale: f64, unit: &'static str) -> Self {
        let disturbed = samples.iter().filter(|s| s.disturbed).count();
        let figure = Self::of(counting(samples).iter().map(|v| v * scale).collect(), unit);
        match disturbed {
            0 => figure,
            n if n < samples.len() => figure.note("disturbed_rounds_left_out", n),
            n => figure.note("disturbed_rounds", n),
        }
    }

    /// A figure from its rounds; unavailable when there are none.
    #[must_use]
    pub fn of(values: Vec<f64>, unit: &'static str) -> Self {
        let Some(median) = median(&values) else { return Self::unavailable("no round succeeded") };
        let (min, max) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
        Self::Measured(Measured { rounds: values.len(), median, min, max, unit, values, notes: Map::new() })
    }

    /// A figure that is not there.
    #[must_use]
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { unavailable: why.into() }
    }

    /// Adds something to be known of it.
    #[must_use]
    pub fn note(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Self::Measured(m) = &mut self {
            m.notes.insert(name.to_owned(), value.into());
        }
        self
    }

    /// The median, if there is one.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        match self {
            Self::Measured(m) => Some(m.median),
            Self::Unavailable { .. } => None,
        }
    }
}

/// The middle value, or the mean of the two middle ones; none of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    (n > 0).then(|| f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]))
}

/// Slope of the least-squares line through points; none when all have the same x.
#[must_use]
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let (sx, sy) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
    let (mx, my) = (sx / n, sy / n);
    let (above, below) =
        points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + (x - mx) * (y - my), b + (x - mx) * (x - mx)));
    (below > 0.0).then(|| above / below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn results_have_the_keys_that_readers_look_for() {
        let json = |f| serde_json::to_string(&f).unwrap();
        assert_eq!(
            json(Figure::of(vec![2.0, 1.0, 3.0], "ns").note("order", "a")),
            r#"{"rounds":3,"median":2.0,"min":1.0,"max":3.0,"unit":"ns","values":[2.0,1.0,3.0],"order":"a"}"#
        );
        assert_eq!(json(Figure::of(vec![], "ns")), r#"{"unavailable":"no round succeeded"}"#);
    }

    #[test]
    fn disturbed_rounds_count_only_without_others() {
        let sample = |value, disturbed| Sample { value, disturbed };
        let some = Figure::of_samples(&[sample(1.0, true), sample(3.0, false)], 2.0, "ns");
        assert_eq!(some, Figure::of(vec![6.0], "ns").note("disturbed_rounds_left_out", 1));
        let none = Figure::of_samples(&[sample(1.0, true), sample(3.0, true)], 2.0, "ns");
        assert_eq!(none, Figure::of(vec![2.0, 6.0], "ns").note("disturbed_rounds", 2));
        assert_eq!(sample(6.0, false).with(sample(3.0, true), |a, b| a / b), sample(2.0, true));
    }

    #[test]
    fn no_slope_without_distance() {
        assert_eq!(slope(&[]), None);
        assert_eq!(slope(&[(1.0, 5.0), (1.0, 7.0)]), None);
    }

    proptest! {
        #[test]
        fn the_slope_of_a_line_is_its_own(a in -100.0..100.0f64, b in -100.0..100.0f64, n in 2..9) {
            let points: Vec<_> = (0..n).map(|x| (f64::from(x), a * f64::from(x) + b)).collect();
            prop_assert!((slope(&points).unwrap() - a).abs() < 1e-9);
        }

        #[test]
        fn half_of_the_values_are_on_each_side(values in prop::collection::vec(-1e6..1e6f64, 1..20)) {
            let m = median(&values).unwrap();
            let below = values.iter().filter(|v| **v < m).count();
            let above = values.iter().filter(|v| **v > m).count();
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
        }
    }
}
