//! Draws from any distribution over few values in constant time: Walker's alias method ("An efficient method for
//! generating discrete random variables with general distributions", ACM TOMS 3(3), 1977), built as by Vose (1991).
//!
//! In whole numbers throughout, so that it draws the same on every machine.

/// A distribution over `0..n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alias(Vec<Cell>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    /// Share of the cell, of 2^32, that is its own value.
    own: u32,
    /// The value of the rest.
    other: u32,
}

impl Alias {
    /// Value `i` comes in proportion to `weights[i]`, to one part in 2^32 of an even share. `None` for no weights, only
    /// zeros, or more than 2^32 of them.
    pub(crate) fn new(weights: &[u64]) -> Option<Self> {
        let n = u32::try_from(weights.len()).ok()?;
        let total: u128 = weights.iter().map(|&w| u128::from(w)).sum();
        if total == 0 {
            return None;
        }
        // Each cell has room for `total`; value i needs weight × n.
        let mut needs: Vec<u128> = weights.iter().map(|&w| u128::from(w) * u128::from(n)).collect();
        let mut cells: Vec<Cell> = (0..n).map(|i| Cell { own: u32::MAX, other: i }).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) = (0..n).partition(|&i| needs[i as usize] < total);
        while let (Some(s), Some(&l)) = (small.pop(), large.last()) {
            let (si, li) = (s as usize, l as usize);
            cells[si] = Cell { own: share(needs[si], total), other: l };
            needs[li] -= total - needs[si];
            if needs[li] < total {
                large.pop();
                small.push(l);
            }
        }
        Some(Self(cells))
    }

    /// The value that 64 random bits stand for.
    #[inline]
    pub(crate) fn draw(&self, random: u64) -> u32 {
        let i = ((random >> 32) * self.0.len() as u64) >> 32;
        let cell = &self.0[i as usize];
        if random as u32 >= cell.own { cell.other } else { i as u32 }
    }
}

/// `part` of `whole` in 2^32nds; `part` is below `whole`.
fn share(part: u128, whole: u128) -> u32 {
    // A sum of 2^32 weights of 64 bits has 96 bits: the shift loses nothing.
    ((part << 32) / whole) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The probability of each value, by adding up cells.
    fn probabilities(alias: &Alias) -> Vec<f64> {
        let n = alias.0.len();
        let mut p = vec![0.0; n];
        for (i, cell) in alias.0.iter().enumerate() {
            let own = if cell.other == i as u32 { 1.0 } else { f64::from(cell.own) / 4_294_967_296.0 };
            p[i] += own / n as f64;
            p[cell.other as usize] += (1.0 - own) / n as f64;
        }
        p
    }

    #[test]
    fn nothing_to_draw_is_refused() {
        assert_eq!(Alias::new(&[]), None);
        assert_eq!(Alias::new(&[0, 0]), None);
    }

    #[test]
    fn the_ends_of_the_random_numbers_are_values() {
        let alias = Alias::new(&[1, 0, u64::MAX]).unwrap();
        for random in [0, u64::MAX, u64::from(u32::MAX), u64::MAX << 32] {
            assert_ne!(alias.draw(random), 1);
        }
        assert_eq!(Alias::new(&[7]).unwrap().draw(u64::MAX), 0);
    }

    proptest! {
        #[test]
        fn values_come_in_proportion_to_their_weights(weights in prop::collection::vec(0_u64..1 << 62, 1..200)) {
            prop_assume!(weights.iter().any(|&w| w > 0));
            let total: f64 = weights.iter().map(|&w| w as f64).sum();
            let alias = Alias::new(&weights).unwrap();
            for (p, &w) in probabilities(&alias).iter().zip(&weights) {
                prop_assert!((p - w as f64 / total).abs() < 1e-9, "{} {}", p, w);
                prop_assert!(w > 0 || *p == 0.0, "a value of weight 0 comes");
            }
        }
    }
}
