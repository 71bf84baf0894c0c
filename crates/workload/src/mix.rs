//! Frame sizes and how often each comes.

use crate::frame::{MAX_FRAME_BYTES, MIN_FRAME_BYTES};
use std::fmt;

/// The most sizes in one mix.
const MAX_SIZES: usize = 64;
/// The longest period of a mix, in frames, after its weights are divided by what they have in common.
const MAX_PERIOD: u32 = 1 << 20;

/// Why a mix is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// A frame size that Ethernet or this system does not have.
    #[error("frame size {0} bytes: expected {MIN_FRAME_BYTES} to {MAX_FRAME_BYTES}, with 4 bytes of FCS")]
    Size(u32),
    /// A weight of zero.
    #[error("frame size {0} bytes has weight 0: expected at least 1, or leave the size out")]
    Weight(u32),
    /// Too many sizes, or none.
    #[error("{0} frame sizes: expected 1 to {MAX_SIZES}")]
    Sizes(usize),
    /// The weights have too long a period.
    #[error("the weights sum to {0} without common divisor: expected at most {MAX_PERIOD}; use smaller weights")]
    Period(u64),
}

/// Frame sizes in a repeating order in which each comes exactly as often as its weight says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    sizes: Vec<u16>,
    /// As given, so that a report can show them.
    weights: Vec<u32>,
    /// Indexes into `sizes`; one period.
    order: Vec<u8>,
}

impl Mix {
    /// Frames of one size, in bytes with FCS.
    ///
    /// # Errors
    /// [`MixError::Size`].
    pub fn constant(frame_bytes: u32) -> Result<Self, MixError> {
        Self::weighted(&[(frame_bytes, 1)])
    }

    /// Frame sizes in bytes with FCS, each with its weight.
    ///
    /// # Errors
    /// A size out of range, a weight of zero, too many sizes or too long a period.
    pub fn weighted(sizes: &[(u32, u32)]) -> Result<Self, MixError> {
        if sizes.is_empty() || sizes.len() > MAX_SIZES {
            return Err(MixError::Sizes(sizes.len()));
        }
        for &(size, weight) in sizes {
            if !(MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&size) {
                return Err(MixError::Size(size));
            }
            if weight == 0 {
                return Err(MixError::Weight(size));
            }
        }
        let common = sizes.iter().fold(0, |g, &(_, w)| gcd(g, w));
        let reduced: Vec<u32> = sizes.iter().map(|&(_, w)| w / common).collect();
        let period: u64 = reduced.iter().map(|&w| u64::from(w)).sum();
        if period > u64::from(MAX_PERIOD) {
            return Err(MixError::Period(period));
        }
        let (sizes, weights) = sizes.iter().map(|&(size, weight)| (size as u16, weight)).unzip();
        Ok(Self { sizes, weights, order: spread(&reduced) })
    }

    /// Frame sizes in bytes with FCS, as given.
    #[must_use]
    pub fn sizes(&self) -> &[u16] {
        &self.sizes
    }

    /// The order of one period, as indexes into [`Mix::sizes`].
    #[must_use]
    pub fn order(&self) -> &[u8] {
        &self.order
    }

    /// Mean frame size over a period, in bytes with FCS.
    #[must_use]
    pub fn mean_frame_bytes(&self) -> f64 {
        let bytes: u64 = self.order.iter().map(|&i| u64::from(self.sizes[usize::from(i)])).sum();
        bytes as f64 / self.order.len() as f64
    }
}

/// The mix as a report states it: `28×64 16×570 4×1518`.
impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (size, weight)) in self.sizes.iter().zip(&self.weights).enumerate() {
            write!(f, "{}{weight}×{size}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Smooth weighted round robin: at each step every size gains its weight, the richest is taken and pays the sum.
/// Equal sizes lie as far apart as they can, so a burst sees the mix and not a run of one size.
fn spread(weights: &[u32]) -> Vec<u8> {
    let sum: i64 = weights.iter().map(|&w| i64::from(w)).sum();
    let mut credit = vec![0_i64; weights.len()];
    let mut order = Vec::new();
    for _ in 0..sum {
        let mut richest = 0;
        for i in 0..weights.len() {
            credit[i] += i64::from(weights[i]);
            if credit[i] > credit[richest] {
                richest = i;
            }
        }
        credit[richest] -= sum;
        order.push(richest as u8);
    }
    order
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn csit_s_imix_has_the_mean_that_csit_states() {
        let mix = Mix::weighted(&[(64, 28), (570, 16), (1518, 4)]).unwrap();
        assert_eq!(mix.to_string(), "28×64 16×570 4×1518");
        assert!((mix.mean_frame_bytes() - 353.833).abs() < 0.001, "{}", mix.mean_frame_bytes());
    }

    #[test]
    fn wrong_mixes_are_refused_with_what_was_found() {
        let words = |m: Result<Mix, MixError>| m.unwrap_err().to_string();
        assert_eq!(words(Mix::constant(60)), "frame size 60 bytes: expected 64 to 9022, with 4 bytes of FCS");
        assert_eq!(words(Mix::constant(9023)), "frame size 9023 bytes: expected 64 to 9022, with 4 bytes of FCS");
        assert_eq!(words(Mix::weighted(&[])), "0 frame sizes: expected 1 to 64");
        assert!(words(Mix::weighted(&[(64, 0)])).starts_with("frame size 64 bytes has weight 0"));
        assert!(words(Mix::weighted(&[(64, u32::MAX), (65, 1)])).starts_with("the weights sum to 4294967296"));
    }

    proptest! {
        #[test]
        fn each_size_comes_as_often_as_its_weight_and_no_run_is_longer_than_needed(
            weights in prop::collection::vec(1_u32..40, 1..8)
        ) {
            let sizes: Vec<_> = weights.iter().enumerate().map(|(i, &w)| (64 + i as u32, w)).collect();
            let mix = Mix::weighted(&sizes).unwrap();
            let common = weights.iter().fold(0, |g, &w| gcd(g, w));
            for (i, &w) in weights.iter().enumerate() {
                let count = mix.order().iter().filter(|&&o| usize::from(o) == i).count();
                prop_assert_eq!(count as u32, w / common);
            }
            // Anywhere in the period a size is less than one frame off its share, times the number of sizes.
            let period = mix.order().len() as f64;
            for (i, &w) in weights.iter().enumerate() {
                let mut seen = 0_f64;
                for (t, &o) in mix.order().iter().enumerate() {
                    seen += f64::from(u8::from(usize::from(o) == i));
                    let due = (t + 1) as f64 * f64::from(w / common) / period;
                    prop_assert!((seen - due).abs() < weights.len() as f64);
                }
            }
        }
    }
}
