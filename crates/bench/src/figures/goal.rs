//! What figures should be.

use super::Figure;

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// This much or more.
    AtLeast(f64),
    /// This much or less.
    AtMost(f64),
    /// It is what it is.
    None,
}

impl Goal {
    /// Whether it was reached; none without a goal or a value.
    #[must_use]
    pub fn met(self, value: Option<f64>) -> Option<bool> {
        match (self, value) {
            (Self::AtLeast(goal), Some(v)) => Some(v >= goal),
            (Self::AtMost(goal), Some(v)) => Some(v <= goal),
            _ => None,
        }
    }
}

/// A figure by name.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name in the results.
    pub name: String,
    /// What was measured.
    pub figure: Figure,
    /// What it should be.
    pub goal: Goal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals() {
        assert_eq!(Goal::AtLeast(1.0).met(Some(1.0)), Some(true));
        assert_eq!(Goal::AtMost(1.0).met(Some(1.1)), Some(false));
        assert_eq!(Goal::AtMost(1.0).met(None), None);
        assert_eq!(Goal::None.met(Some(1.0)), None);
    }
}
