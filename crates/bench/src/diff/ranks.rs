//! Exact distributions of the two rank statistics when there is no difference, for the ends of intervals.

use statrs::distribution::{ContinuousCDF, Normal};

/// Above this, counting exactly takes long, and the normal distribution is as good.
const EXACT: usize = 40;

/// How many of the `n·m` differences between two samples to leave out at each end, plus one, so that the interval from
/// that one to its mirror image has at least the confidence `1 - alpha` (Hollander, Wolfe, Chicken, section 4.3). `None`
/// when even all of them are too short.
pub(super) fn two_sample(n: usize, m: usize, alpha: f64) -> Option<usize> {
    if n > EXACT || m > EXACT {
        let (n, m) = (n as f64, m as f64);
        return normal(n * m / 2.0, (n * m * (n + m + 1.0) / 12.0).sqrt(), alpha);
    }
    // ways[j][u]: samples of j among those seen, with the Mann–Whitney statistic u.
    let mut ways = vec![vec![0.0f64; n * m + 1]; n + 1];
    ways[0][0] = 1.0;
    for seen in 1..=n + m {
        for j in (1..=n.min(seen)).rev() {
            // The seen-th smallest of all is the j-th of the first sample: seen - j of the other are below it.
            let below = seen - j;
            if below <= m {
                for u in (below..=n * m).rev() {
                    ways[j][u] += ways[j - 1][u - below];
                }
            }
        }
    }
    cut(&ways[n], alpha)
}

/// The same of the `n(n+1)/2` means of pairs of one sample (section 3.3).
pub(super) fn one_sample(n: usize, alpha: f64) -> Option<usize> {
    if n > EXACT {
        let n = n as f64;
        return normal(n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt(), alpha);
    }
    let most = n * (n + 1) / 2;
    let mut ways = vec![0.0f64; most + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        for w in (rank..=most).rev() {
            ways[w] += ways[w - rank];
        }
    }
    cut(&ways, alpha)
}

/// The largest k with P(statistic < k) at most alpha / 2.
fn cut(ways: &[f64], alpha: f64) -> Option<usize> {
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    let mut k = 0;
    for w in ways {
        below += w;
        if below / all > alpha / 2.0 {
            break;
        }
        k += 1;
    }
    (k > 0).then_some(k)
}

fn normal(mean: f64, deviation: f64, alpha: f64) -> Option<usize> {
    let z = Normal::standard().inverse_cdf(1.0 - alpha / 2.0);
    let k = (mean - z * deviation).floor();
    (k >= 1.0).then_some(k as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables A.6 and A.4 of the book; the same numbers are in any table of the Wilcoxon tests (two-sided 5 %).
    #[test]
    fn critical_values_are_those_of_the_tables() {
        // Critical U at two-sided 5 %: 0 for (4,4), 2 for (5,5), 5 for (6,6), 23 for (10,10), 127 for (20,20).
        let u = [
            ((3, 3), None),
            ((4, 4), Some(0)),
            ((5, 5), Some(2)),
            ((6, 6), Some(5)),
            ((10, 10), Some(23)),
            ((20, 20), Some(127)),
            ((3, 5), Some(0)),
            ((4, 10), Some(5)),
        ];
        for ((n, m), critical) in u {
            assert_eq!(two_sample(n, m, 0.05), critical.map(|c| c + 1), "{n} {m}");
            assert_eq!(two_sample(m, n, 0.05), critical.map(|c| c + 1), "{m} {n}");
        }
        // Critical W: none for 5, 0 for 6, 2 for 7, 8 for 10, 52 for 20.
        let w = [(5, None), (6, Some(0)), (7, Some(2)), (10, Some(8)), (20, Some(52))];
        for (n, critical) in w {
            assert_eq!(one_sample(n, 0.05), critical.map(|c| c + 1), "{n}");
        }
    }

    #[test]
    fn the_normal_distribution_takes_over_without_a_step() {
        let near = |exact: usize, normal: usize| exact.abs_diff(normal) <= 2;
        let (n, m) = (40.0f64, 40.0);
        let by_normal = normal(n * m / 2.0, (n * m * (n + m + 1.0) / 12.0).sqrt(), 0.05).unwrap();
        assert!(near(two_sample(40, 40, 0.05).unwrap(), by_normal), "{by_normal}");
        assert!(one_sample(41, 0.05) > one_sample(40, 0.05));
    }
}
