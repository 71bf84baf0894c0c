//! Trials that others disturbed are repeated, as long as the run has repetitions left.

use crate::host::Ticks;
use std::cell::Cell;

/// A disturbed trial is made so often in all.
pub const ATTEMPTS: usize = 3;

/// Something that others can disturb.
pub trait Attempt {
    /// What others did meanwhile.
    fn ticks(&self) -> Ticks;
}

/// Repetitions left for a whole run: on a host that is never quiet, it still ends.
#[derive(Debug)]
pub struct Repetitions(Cell<usize>);

impl Repetitions {
    /// So many for the run.
    #[must_use]
    pub const fn new(left: usize) -> Self {
        Self(Cell::new(left))
    }

    /// Makes a trial; again if others disturbed it, and of these the least disturbed counts.
    ///
    /// # Errors
    /// That of the first attempt that failed.
    pub fn least_disturbed<T: Attempt, E>(&self, mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        let mut best = attempt()?;
        let mut disturbed = best.ticks().spoil().is_some();
        for _ in 1..ATTEMPTS {
            let Some(left) = self.0.get().checked_sub(1).filter(|_| disturbed) else { break };
            self.0.set(left);
            let trial = attempt()?;
            disturbed = trial.ticks().spoil().is_some();
            if trial.ticks().taken() < best.ticks().taken() {
                best = trial;
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Attempt for u64 {
        fn ticks(&self) -> Ticks {
            Ticks { stolen: *self, foreign: 0, all: 100 }
        }
    }

    fn of(repetitions: usize, stolen: &[u64]) -> (u64, usize) {
        let mut made = 0;
        let trial = || -> Result<u64, ()> {
            made += 1;
            Ok(stolen[made - 1])
        };
        let best = Repetitions::new(repetitions).least_disturbed(trial).unwrap();
        (best, made)
    }

    #[test]
    fn the_least_disturbed_attempt_counts() {
        assert_eq!(of(9, &[0, 9, 9]), (0, 1), "nothing to repeat");
        assert_eq!(of(9, &[9, 1, 9]), (1, 2));
        assert_eq!(of(9, &[9, 5, 7]), (5, 3), "and then it is enough");
        assert_eq!(of(1, &[9, 5, 0]), (5, 2), "the run has no more repetitions");
    }
}
