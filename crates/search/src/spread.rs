//! Mean and spread of repeated measurements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What repeated measurements of one quantity come to, in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// How many.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Sample standard deviation (n − 1); 0 of a single one.
    pub stdev: f64,
}

impl Spread {
    /// Of some values; none of none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        let stdev = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { n, mean, min, max, stdev })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_example() {
        let s = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((s.n, s.mean, s.min, s.max), (8, 5.0, 2.0, 9.0));
        assert!((s.stdev - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(Spread::of(&[3.0]).map(|s| s.stdev), Some(0.0));
        assert_eq!(Spread::of(&[]), None);
    }
}
