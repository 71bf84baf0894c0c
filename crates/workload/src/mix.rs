//! Frame sizes and how often each comes.

use crate::alias::Alias;
use crate::frame::{MAX_FRAME_BYTES, MIN_FRAME_BYTES};
use crate::rng::Rng;
use crate::text::{Field, Lines, TextError};
use std::collections::BTreeMap;
use std::fmt;

/// The most sizes in a mix of weights.
const MAX_SIZES: usize = 256;
/// The longest period of a mix, in frames, after its weights are divided by what they have in common.
const MAX_PERIOD: u32 = 1 << 20;
/// Sizes that a mix is shown with one by one.
const MAX_SHOWN: usize = 16;

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
    /// A sequence that is too long, or empty.
    #[error("a sequence of {0} frames: expected 1 to {MAX_PERIOD}")]
    Length(usize),
    /// A distribution without a frame.
    #[error("a distribution without any frame: expected at least one")]
    Empty,
}

/// Frame sizes, and in which order they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    sizes: Vec<u16>,
    /// As given, so that a report can show them.
    weights: Vec<u64>,
    /// Indexes into `sizes`, one period; empty if sizes are drawn.
    order: Vec<u16>,
}

impl Mix {
    /// Frames of one size, in bytes with FCS.
    ///
    /// # Errors
    /// [`MixError::Size`].
    pub fn constant(frame_bytes: u32) -> Result<Self, MixError> {
        Self::weighted(&[(frame_bytes, 1)])
    }

    /// Frame sizes in exactly this order, again and again (an RFC 6985 genome, for example: [`crate::genome`]).
    ///
    /// # Errors
    /// A size out of range, no size or more than 2^20.
    pub fn sequence(frame_bytes: &[u32]) -> Result<Self, MixError> {
        if frame_bytes.is_empty() || frame_bytes.len() > MAX_PERIOD as usize {
            return Err(MixError::Length(frame_bytes.len()));
        }
        let mut counts = BTreeMap::<u32, u64>::new();
        for &size in frame_bytes {
            in_range(size)?;
            *counts.entry(size).or_default() += 1;
        }
        let index: BTreeMap<u32, u16> = counts.keys().zip(0..).map(|(&size, i)| (size, i)).collect();
        let order = frame_bytes.iter().filter_map(|size| index.get(size).copied()).collect();
        let (sizes, weights) = counts.into_iter().map(|(size, n)| (size as u16, n)).unzip();
        Ok(Self { sizes, weights, order })
    }

    /// Each frame's size is drawn, from the workload's seed, in proportion to the weights: a measured distribution, of
    /// any number of sizes. Equal sizes are added up, weights of zero are left out.
    ///
    /// # Errors
    /// A size out of range, or no weight.
    pub fn drawn(sizes: impl IntoIterator<Item = (u32, u64)>) -> Result<Self, MixError> {
        let mut sum = BTreeMap::<u32, u64>::new();
        for (size, weight) in sizes {
            in_range(size)?;
            let all = sum.entry(size).or_default();
            *all = all.saturating_add(weight);
        }
        sum.retain(|_, weight| *weight > 0);
        if sum.is_empty() {
            return Err(MixError::Empty);
        }
        let (sizes, weights) = sum.into_iter().map(|(size, w)| (size as u16, w)).unzip();
        Ok(Self { sizes, weights, order: Vec::new() })
    }

    /// A distribution from lines `SIZE,WEIGHT` (or `SIZE WEIGHT`, or `SIZE` for a weight of 1), sizes in bytes with FCS;
    /// [`Mix::drawn`]. A first line of names, empty lines and what follows `#` are left out.
    ///
    /// # Errors
    /// Line, what was found and what was expected.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let mut sizes = Vec::new();
        for line in Lines::of(text) {
            let line = line?;
            let size = line.number(0, "a frame size", u64::from(MIN_FRAME_BYTES)..=u64::from(MAX_FRAME_BYTES))?;
            let weight = if line.len() > 1 { line.number(1, "a weight", 0..=u64::MAX)? } else { 1 };
            if line.len() > 2 {
                return Err(line.wrong(Field(2), "a frame size and its weight only"));
            }
            sizes.push((size as u32, weight));
        }
        Self::drawn(sizes).map_err(|_| TextError::empty("lines such as `64,7`: frame size, weight"))
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
            in_range(size)?;
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
        let (sizes, weights) = sizes.iter().map(|&(size, weight)| (size as u16, u64::from(weight))).unzip();
        Ok(Self { sizes, weights, order: spread(&reduced) })
    }

    /// Frame sizes in bytes with FCS, as given.
    #[must_use]
    pub fn sizes(&self) -> &[u16] {
        &self.sizes
    }

    /// Weights of the sizes, as given; of a sequence, how often each comes.
    #[must_use]
    pub fn weights(&self) -> &[u64] {
        &self.weights
    }

    /// The order of one period, as indexes into [`Mix::sizes`]; empty if sizes are drawn.
    #[must_use]
    pub fn order(&self) -> &[u16] {
        &self.order
    }

    /// Mean frame size, over a period or of the distribution, in bytes with FCS.
    #[must_use]
    pub fn mean_frame_bytes(&self) -> f64 {
        let total: f64 = self.weights.iter().map(|&w| w as f64).sum();
        self.sizes.iter().zip(&self.weights).map(|(&size, &w)| f64::from(size) * w as f64).sum::<f64>() / total
    }

    /// Median frame size in bytes with FCS: the smallest that half of the frames do not exceed.
    #[must_use]
    pub fn median_frame_bytes(&self) -> u16 {
        let total: u128 = self.weights.iter().map(|&w| u128::from(w)).sum();
        let mut ascending: Vec<_> = self.sizes.iter().copied().zip(self.weights.iter().copied()).collect();
        ascending.sort_unstable();
        let mut sum = 0;
        let half = |&(_, w): &(u16, u64)| {
            sum += u128::from(w);
            2 * sum >= total
        };
        ascending.iter().copied().find(half).map_or(0, |(size, _)| size)
    }

    /// The largest frame in bytes with FCS.
    #[must_use]
    pub fn largest_frame_bytes(&self) -> u16 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }
}

fn in_range(size: u32) -> Result<(), MixError> {
    if (MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&size) { Ok(()) } else { Err(MixError::Size(size)) }
}

/// The mix as a report states it: `28×64 16×570 4×1518`; of many sizes, what can be said in a line.
impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sizes.len() > MAX_SHOWN {
            let (first, last) = (self.sizes.iter().min().unwrap_or(&0), self.largest_frame_bytes());
            let (median, mean) = (self.median_frame_bytes(), self.mean_frame_bytes());
            return write!(f, "{} sizes from {first} to {last}, median {median}, mean {mean:.1}", self.sizes.len());
        }
        for (i, (size, weight)) in self.sizes.iter().zip(&self.weights).enumerate() {
            write!(f, "{}{weight}×{size}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Takes the sizes of a mix one after the other, as indexes into [`Mix::sizes`].
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    cycle: Vec<u16>,
    next: usize,
    drawn: Option<Box<(Alias, Rng)>>,
}

impl Sizes {
    pub(crate) fn new(mix: &Mix, rng: Rng) -> Self {
        let drawn = if mix.order.is_empty() { Alias::new(&mix.weights).map(|a| Box::new((a, rng))) } else { None };
        // One size needs no drawing.
        let cycle = if mix.order.is_empty() && mix.sizes.len() == 1 { vec![0] } else { mix.order.clone() };
        Self { drawn: drawn.filter(|_| cycle.is_empty()), cycle, next: 0 }
    }

    /// Whether the order repeats itself, so that [`Sizes::cycle`] is not empty.
    pub(crate) fn is_cycle(&self) -> bool {
        self.drawn.is_none()
    }

    /// One period of an order that repeats itself, and which place in it is next.
    #[inline]
    pub(crate) fn cycle(&self) -> (&[u16], usize) {
        (&self.cycle, self.next)
    }

    /// Goes on at a place that is in the period.
    #[inline]
    pub(crate) fn set_next(&mut self, next: usize) {
        self.next = next;
    }

    #[inline]
    pub(crate) fn next(&mut self) -> usize {
        match &mut self.drawn {
            Some(drawn) => drawn.0.draw(drawn.1.next_u64()) as usize,
            None => {
                let index = usize::from(self.cycle[self.next]);
                self.next += 1;
                if self.next == self.cycle.len() {
                    self.next = 0;
                }
                index
            }
        }
    }
}

/// Smooth weighted round robin: at each step every size gains its weight, the richest is taken and pays the sum.
/// Equal sizes lie as far apart as they can, so a burst sees the mix and not a run of one size.
fn spread(weights: &[u32]) -> Vec<u16> {
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
        order.push(richest as u16);
    }
    order
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
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
        assert_eq!(words(Mix::weighted(&[])), "0 frame sizes: expected 1 to 256");
        assert!(words(Mix::weighted(&[(64, 0)])).starts_with("frame size 64 bytes has weight 0"));
        assert!(words(Mix::weighted(&[(64, u32::MAX), (65, 1)])).starts_with("the weights sum to 4294967296"));
    }

    #[test]
    fn a_sequence_keeps_its_order() {
        let mix = Mix::sequence(&[64, 1518, 64, 128]).unwrap();
        let sizes: Vec<u16> = mix.order().iter().map(|&i| mix.sizes()[usize::from(i)]).collect();
        assert_eq!(sizes, [64, 1518, 64, 128]);
        assert_eq!(mix.to_string(), "2×64 1×128 1×1518");
        assert_eq!(Mix::sequence(&[]), Err(MixError::Length(0)));
        assert_eq!(Mix::sequence(&[64, 63]), Err(MixError::Size(63)));
    }

    #[test]
    fn a_distribution_is_read_from_lines() {
        let mix = Mix::parse("size,weight\n64,3 # small\n\n1518 1\n64,1\n200\n").unwrap();
        assert_eq!((mix.sizes(), mix.weights()), ([64, 200, 1518].as_slice(), [4, 1, 1].as_slice()));
        assert_eq!((mix.median_frame_bytes(), mix.largest_frame_bytes()), (64, 1518));
        let words = |text: &str| Mix::parse(text).unwrap_err().to_string();
        assert_eq!(words("64,1\n63,1"), "line 2, field 1: found \"63\", expected a frame size from 64 to 9022");
        assert_eq!(words("64,x"), "line 1, field 2: found \"x\", expected a weight from 0 to 18446744073709551615");
        assert_eq!(words("64,1,2"), "line 1, field 3: found \"2\", expected a frame size and its weight only");
        assert_eq!(words("size\n"), "found no line with numbers, expected lines such as `64,7`: frame size, weight");
        assert_eq!(words("64,0"), "found no line with numbers, expected lines such as `64,7`: frame size, weight");
    }

    #[test]
    fn drawn_sizes_follow_their_weights() {
        let mix = Mix::drawn((64..=1518).map(|size| (size, u64::from(size % 97)))).unwrap();
        let mut sizes = Sizes::new(&mix, Rng::new(8));
        let mut seen = vec![0_u64; mix.sizes().len()];
        (0..1_000_000).for_each(|_| seen[sizes.next()] += 1);
        let total: f64 = mix.weights().iter().map(|&w| w as f64).sum();
        let expected: Vec<f64> = mix.weights().iter().map(|&w| 1e6 * w as f64 / total).collect();
        // Few expected of some sizes make the statistic's own variance large: leave those out.
        let many: Vec<usize> = (0..seen.len()).filter(|&i| expected[i] >= 50.0).collect();
        let (seen, expected): (Vec<_>, Vec<_>) = many.iter().map(|&i| (seen[i], expected[i])).unzip();
        let (x, limit) = crate::stat::chi_square(&seen, &expected);
        assert!(seen.len() > 1000 && x < limit, "{x} against {limit}");
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
