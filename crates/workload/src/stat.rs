//! Tests of distributions, for tests.

/// The chi-square statistic, and the limit that it passes in one of a million right sequences (Wilson and Hilferty's
/// approximation; tests have fixed seeds, so a right one stays right).
pub(crate) fn chi_square(seen: &[u64], expected: &[f64]) -> (f64, f64) {
    let x = seen.iter().zip(expected).map(|(&s, &e)| (s as f64 - e).powi(2) / e).sum();
    let k = (seen.len() as f64 - 1.0).max(1.0);
    let z = 4.75;
    (x, k * (1.0 - 2.0 / (9.0 * k) + z * (2.0 / (9.0 * k)).sqrt()).powi(3))
}
