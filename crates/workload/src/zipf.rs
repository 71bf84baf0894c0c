//! Zipf's law: rank k of n comes in proportion to 1 / k^s.
//!
//! Ranks lie in bins, of one rank each up to 64 and of a 64th of an octave beyond, so that within a bin probabilities
//! differ by a factor of at most (1 + 1/64)^s. A bin is drawn by its hat (width × its first rank's weight), a rank
//! within it evenly, and kept in proportion to its own weight. So the distribution is exact for a hundred million
//! ranks from a table of 1,408 bins that stays in the core's caches; almost every draw is two random numbers and
//! one look at a table.

use crate::alias::Alias;
use crate::rng::Rng;

/// Ranks with a bin of their own, and bins of an octave.
const SINGLE: u32 = 64;

/// The law for a given number of ranks.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    exponent: f64,
    bins: Vec<Bin>,
    alias: Alias,
}

#[derive(Clone, Copy, Debug)]
struct Bin {
    /// Its most likely rank, from 1.
    first: u32,
    width: u32,
    /// 32 random bits below it keep any rank of the bin.
    sure: u32,
}

const TWO_32: f64 = 4_294_967_296.0;

impl Zipf {
    /// Ranks 1 to `n`. `None` for no ranks or a table that cannot be made (an exponent that is no number).
    pub(crate) fn new(n: u32, exponent: f64) -> Option<Self> {
        let weight = |rank: u32| libm::pow(f64::from(rank), -exponent);
        let mut bins = Vec::new();
        let mut first = 1_u32;
        while first <= n {
            let octave = 31 - first.leading_zeros();
            let width = if first < SINGLE { 1 } else { 1 << (octave - SINGLE.trailing_zeros()) };
            let width = width.min(n - first + 1);
            let last = first + width - 1;
            // One less, so that rounding never keeps more than the exact test would.
            let sure = ((weight(last) / weight(first) * TWO_32) as u32).saturating_sub(1);
            bins.push(Bin { first, width, sure });
            first = last.checked_add(1)?;
        }
        let hats: Vec<f64> = bins.iter().map(|b| f64::from(b.width) * weight(b.first)).collect();
        let total: f64 = hats.iter().sum();
        // 2^62 of them in all: the tail's bins keep nine digits even where the law is steep.
        let whole: Vec<u64> = hats.iter().map(|h| (h / total * 4.611_686_018_427_388e18) as u64).collect();
        Some(Self { exponent, alias: Alias::new(&whole)?, bins })
    }

    /// A rank, from 0.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u32 {
        loop {
            let bin = self.bins[self.alias.draw(rng.next_u64()) as usize];
            if bin.width == 1 {
                return bin.first - 1;
            }
            let random = rng.next_u64();
            let rank = bin.first + (((random >> 32) * u64::from(bin.width)) >> 32) as u32;
            let toss = random as u32;
            if toss < bin.sure || self.keeps(bin.first, rank, toss) {
                return rank - 1;
            }
        }
    }

    /// Whether a toss keeps `rank`: it does in the proportion of its weight to the bin's first rank's.
    #[cold]
    fn keeps(&self, first: u32, rank: u32, toss: u32) -> bool {
        f64::from(toss) < libm::pow(f64::from(first) / f64::from(rank), self.exponent) * TWO_32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::chi_square;

    /// Chi-square of draws against the law: single ranks while 50 of them are expected, then ranks together.
    fn agrees(n: u32, exponent: f64, draws: u32) {
        let zipf = Zipf::new(n, exponent).unwrap();
        let mut rng = Rng::new(7);
        let norm: f64 = (1..=n).map(|k| f64::from(k).powf(-exponent)).sum();
        let (mut bounds, mut expected, mut sum) = (Vec::new(), Vec::new(), 0.0);
        for k in 1..=n {
            sum += f64::from(draws) * f64::from(k).powf(-exponent) / norm;
            if sum >= 50.0 || k == n {
                bounds.push(k);
                expected.push(sum);
                sum = 0.0;
            }
        }
        let mut seen = vec![0_u64; bounds.len()];
        for _ in 0..draws {
            let rank = zipf.draw(&mut rng) + 1;
            assert!(rank <= n);
            seen[bounds.partition_point(|b| *b < rank)] += 1;
        }
        let (x, limit) = chi_square(&seen, &expected);
        assert!(x < limit, "n {n} s {exponent}: {x} against {limit}");
    }

    #[test]
    fn draws_follow_the_law() {
        for exponent in [0.2, 0.8, 1.0, 1.2, 2.5] {
            for n in [1, 2, 64, 65, 1000, 70_001] {
                agrees(n, exponent, 200_000);
            }
        }
    }

    #[test]
    fn a_hundred_million_ranks_need_a_small_table() {
        let zipf = Zipf::new(100_000_000, 1.0).unwrap();
        assert!(zipf.bins.len() <= 1408, "{}", zipf.bins.len());
        assert_eq!(zipf.bins.iter().map(|b| u64::from(b.width)).sum::<u64>(), 100_000_000);
        let mut rng = Rng::new(1);
        assert!((0..100_000).all(|_| zipf.draw(&mut rng) < 100_000_000));
    }

    #[test]
    fn absurd_exponents_draw_ranks_all_the_same() {
        for exponent in [1e-9, 16.0, 300.0] {
            let zipf = Zipf::new(1000, exponent).unwrap();
            let mut rng = Rng::new(3);
            assert!((0..1000).all(|_| zipf.draw(&mut rng) < 1000));
        }
        assert!(Zipf::new(10, f64::NAN).is_none());
        assert!(Zipf::new(0, 1.0).is_none());
    }
}
