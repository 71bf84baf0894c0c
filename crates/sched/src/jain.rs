//! Jain's fairness index (Jain, Chiu and Hawe 1984), by which NFVnice (section 4.3.6, figure 15b) judges shares.

/// `(Σx)² / (n Σx²)` of what each of `n` parties got: 1 when all got the same, `1/n` when one got everything. Nobody,
/// or nobody with anything, is treated alike: 1. Values that are no number, or negative, count as nothing.
#[must_use]
pub fn index(got: &[f64]) -> f64 {
    let got = got.iter().map(|&x| if x.is_finite() && x > 0.0 { x } else { 0.0 });
    // Scaled to the largest, so that squares of large rates stay finite.
    let most = got.clone().fold(0.0, f64::max);
    if most <= 0.0 {
        return 1.0;
    }
    let (sum, squares, n) = got.fold((0.0, 0.0, 0.0), |(s, q, n), x| (s + x / most, q + (x / most).powi(2), n + 1.0));
    sum * sum / (n * squares)
}

#[cfg(test)]
mod tests {
    use super::index;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        assert_eq!(index(&[]), 1.0);
        assert_eq!(index(&[0.0, 0.0]), 1.0);
        assert_eq!(index(&[5.0; 7]), 1.0);
        assert!((index(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        // Shares of 1/6 each with costs 1:2:5:20:40:60: what a scheduler that knows no costs gives (figure 15b).
        let rates = [1.0, 2.0, 5.0, 20.0, 40.0, 60.0].map(|cost| 1.0 / cost);
        assert!((index(&rates) - 0.4136).abs() < 1e-3, "{}", index(&rates));
        assert_eq!(index(&[f64::NAN, 3.0]), 0.5);
    }

    proptest! {
        #[test]
        fn lies_between_one_nth_and_one_and_knows_no_unit(got in prop::collection::vec(0.0f64..1e300, 1..40), unit in 1e-6f64..1.0) {
            let j = index(&got);
            prop_assert!(j <= 1.0 + 1e-9 && j >= 1.0 / got.len() as f64 - 1e-9, "{j}");
            let scaled: Vec<f64> = got.iter().map(|x| x * unit).collect();
            prop_assert!((index(&scaled) - j).abs() < 1e-6);
        }
    }
}
