//! Many points at once: how probable it is that the largest difference among them is nothing.

use super::verdict::moments;

/// As many arrangements of rounds are tried; all of them where there are no more.
const ARRANGEMENTS: usize = 5_000;
/// Any fixed number: the same results give the same words.
const SEED: u64 = 0x5eed;

/// Holm's step-down form of Bonferroni: adjusted probabilities, in the order given.
pub(super) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut out = vec![1.0; p.len()];
    let mut largest = 0.0f64;
    for (rank, i) in order.into_iter().enumerate() {
        largest = largest.max((p[i] * (p.len() - rank) as f64).min(1.0));
        out[i] = largest;
    }
    out
}

/// For each point, the share of arrangements of rounds in which it looks as different as it does, or *any* point does
/// that looks no more different (Westfall and Young's step-down maxT: a point with a
/// large change does not hide smaller ones). `rows` have one shape. Rounds keep all their points together.
///
/// The statistic is the difference of means by (its standard error + s0), as in Tusher, Tibshirani, Chu (PNAS 98, 2001,
/// equation 1), so that of few rounds those that agree by chance do not pass for precise; s0 is a median over points of
/// what no arrangement changes, so the test stays exact.
pub(super) fn max_t(rows: &[(&[f64], &[f64])], paired: bool) -> Vec<f64> {
    let Some((first_a, first_b)) = rows.first() else { return Vec::new() };
    let (n, m) = (first_a.len(), first_b.len());
    let s0 = fudge(rows, paired);
    let mut family = Family {
        values: rows.iter().map(|(a, b)| a.iter().chain(*b).copied().collect()).collect(),
        n,
        m,
        paired,
        s0,
        as_extreme: vec![0; rows.len()],
        observed: Vec::new(),
        order: (0..rows.len()).collect(),
    };
    let as_measured: Vec<bool> = (0..n + m).map(|i| i < n).collect();
    family.observed = (0..rows.len()).map(|k| family.statistic(k, &as_measured)).collect();
    let Family { order, observed, .. } = &mut family;
    order.sort_by(|x, y| observed[*x].total_cmp(&observed[*y]));
    let tried = if paired { family.flips() } else { family.splits(&as_measured) };
    // No point is more certain than one that looks more different.
    let mut out = vec![1.0; rows.len()];
    let mut largest = 0.0f64;
    for k in family.order.iter().rev() {
        largest = largest.max(family.as_extreme[*k] as f64 / tried as f64);
        out[*k] = largest;
    }
    out
}

struct Family {
    /// A's samples of a point, then B's.
    values: Vec<Vec<f64>>,
    n: usize,
    m: usize,
    paired: bool,
    s0: f64,
    as_extreme: Vec<usize>,
    observed: Vec<f64>,
    /// The points, from the one that looks least different.
    order: Vec<usize>,
}

impl Family {
    /// How different A and B of point `k` look when `in_a` says what belongs to A.
    fn statistic(&self, k: usize, in_a: &[bool]) -> f64 {
        let v = &self.values[k];
        if self.paired {
            let n = self.n as f64;
            let d = |i: usize| if in_a[i] { v[self.n + i] - v[i] } else { v[i] - v[self.n + i] };
            let mean = (0..self.n).map(d).sum::<f64>() / n;
            let variance = (0..self.n).map(|i| (d(i) - mean).powi(2)).sum::<f64>() / (n - 1.0);
            return mean.abs() / ((variance / n).sqrt() + self.s0);
        }
        let (mut sum, mut squares) = ([0.0; 2], [0.0; 2]);
        // Sums of squares around a value near all of them, so that nothing cancels.
        let near = v[0];
        for (value, a) in v.iter().zip(in_a) {
            let side = usize::from(!*a);
            sum[side] += value - near;
            squares[side] += (value - near).powi(2);
        }
        let (n, m) = (self.n as f64, self.m as f64);
        let variance = |side: usize, n: f64| ((squares[side] - sum[side].powi(2) / n) / (n - 1.0)).max(0.0);
        let error = (variance(0, n) / n + variance(1, m) / m).sqrt();
        (sum[1] / m - sum[0] / n).abs() / (error + self.s0)
    }

    fn count(&mut self, in_a: &[bool]) {
        let mut largest = 0.0f64;
        for at in 0..self.order.len() {
            let k = self.order[at];
            largest = largest.max(self.statistic(k, in_a));
            // Equal arrangements may come out unequal in the last digits.
            self.as_extreme[k] += usize::from(largest >= self.observed[k] * (1.0 - 1e-9));
        }
    }

    /// Every way to say which n of all samples are A's, or so many by chance and the measured one.
    fn splits(&mut self, as_measured: &[bool]) -> usize {
        let mut tried = 0;
        if binomial(self.n + self.m, self.n).is_some_and(|all| all <= ARRANGEMENTS) {
            let mut in_a = as_measured.to_vec();
            loop {
                self.count(&in_a);
                tried += 1;
                if !next_split(&mut in_a) {
                    return tried;
                }
            }
        }
        let mut rng = fastrand::Rng::with_seed(SEED);
        let mut in_a = as_measured.to_vec();
        self.count(&in_a);
        for _ in 1..ARRANGEMENTS {
            rng.shuffle(&mut in_a);
            self.count(&in_a);
        }
        ARRANGEMENTS
    }

    /// Every way to swap A and B within rounds, or so many by chance and the measured one.
    fn flips(&mut self) -> usize {
        let all = u32::try_from(self.n).ok().and_then(|n| 1usize.checked_shl(n)).filter(|all| *all <= ARRANGEMENTS);
        if let Some(all) = all {
            for bits in 0..all {
                let in_a: Vec<bool> = (0..self.n).map(|i| bits >> i & 1 == 0).collect();
                self.count(&in_a);
            }
            return all;
        }
        let mut rng = fastrand::Rng::with_seed(SEED);
        self.count(&vec![true; self.n]);
        for _ in 1..ARRANGEMENTS {
            let in_a: Vec<bool> = (0..self.n).map(|_| rng.bool()).collect();
            self.count(&in_a);
        }
        ARRANGEMENTS
    }
}

/// The median over points of the standard error that a point would have if A and B were one.
fn fudge(rows: &[(&[f64], &[f64])], paired: bool) -> f64 {
    /// Never quite nothing: equal samples on both sides are no difference of infinite size.
    const LEAST: f64 = 1e-4;
    let mut all: Vec<f64> = rows
        .iter()
        .map(|(a, b)| {
            if paired {
                // Squares do not change when a round is swapped.
                let squares: f64 = a.iter().zip(*b).map(|(a, b)| (b - a).powi(2)).sum();
                return squares.sqrt() / a.len() as f64;
            }
            let together: Vec<f64> = a.iter().chain(*b).copied().collect();
            (moments(&together).1 * (1.0 / a.len() as f64 + 1.0 / b.len() as f64)).sqrt()
        })
        .collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default().max(LEAST)
}

/// As many ways to choose k of n, or `None` beyond a number that can be tried.
fn binomial(n: usize, k: usize) -> Option<usize> {
    // Exact at each step: a product of i + 1 neighbours can be divided by (i + 1)!.
    (0..k).try_fold(1usize, |ways, i| ways.checked_mul(n - i).map(|w| w / (i + 1)))
}

/// The next arrangement in order, from all of A first to all of A last.
fn next_split(in_a: &mut [bool]) -> bool {
    // The last A that has a B right behind it moves on, and all A behind it come close.
    let Some(at) = (0..in_a.len().saturating_sub(1)).rev().find(|i| in_a[*i] && !in_a[i + 1]) else { return false };
    in_a.swap(at, at + 1);
    let behind = in_a[at + 2..].iter().filter(|a| **a).count();
    for (i, a) in in_a[at + 2..].iter_mut().enumerate() {
        *a = i < behind;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_arrangement_comes_once() {
        for (n, m) in [(4, 4), (5, 3), (6, 6)] {
            let mut in_a: Vec<bool> = (0..n + m).map(|i| i < n).collect();
            let mut seen = HashSet::from([in_a.clone()]);
            while next_split(&mut in_a) {
                assert_eq!(in_a.iter().filter(|a| **a).count(), n);
                assert!(seen.insert(in_a.clone()));
            }
            assert_eq!(Some(seen.len()), binomial(n + m, n));
        }
    }

    #[test]
    fn a_clear_difference_is_as_rare_as_the_rounds_allow() {
        let (a, b) = ([1.0, 1.01, 0.99, 1.0], [2.0, 2.01, 1.99, 2.0]);
        // Two of the 70 arrangements: as measured, and its mirror image.
        assert_eq!(max_t(&[(&a, &b)], false), [2.0 / 70.0]);
        let (a, b) = ([1.0, 1.01, 0.99, 1.0, 1.0, 1.1], [2.0, 2.01, 1.99, 2.0, 2.1, 2.0]);
        assert_eq!(max_t(&[(&a, &b)], true), [2.0 / 64.0]);
        // Beside it, a point without a difference stays without one.
        let c = [1.0, 1.02, 0.98, 1.0, 1.01, 0.99];
        let p = max_t(&[(&a, &b), (&c, &c)], false);
        assert!(p[0] <= 2.0 / 924.0 && p[1] == 1.0, "{p:?}");
        // And one with a smaller difference is found beside it.
        let d = [1.1, 1.12, 1.09, 1.1, 1.11, 1.08];
        let p = max_t(&[(&a, &b), (&a, &b), (&c, &d)], false);
        assert!(p.iter().all(|p| *p <= 2.0 / 924.0), "{p:?}");
    }

    #[test]
    fn holm_steps_down() {
        let near = |found: Vec<f64>, want: &[f64]| found.iter().zip(want).all(|(f, w)| (f - w).abs() < 1e-12);
        assert!(near(holm(&[0.01, 0.04, 0.03]), &[0.03, 0.06, 0.06]));
        assert!(near(holm(&[0.9, 0.8]), &[1.0, 1.0]) && holm(&[]).is_empty());
    }
}
