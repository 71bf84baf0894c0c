//! How many packets flows have, as somebody measured it.

use crate::text::{Field, Lines, TextError};

/// Packets of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// So many, at least 1.
    Constant(
        /// Packets.
        u32,
    ),
    /// As measured.
    Measured(Histogram),
}

impl Lengths {
    /// Mean packets of a flow.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(n) => f64::from(*n),
            Self::Measured(h) => h.mean(),
        }
    }

    /// Share of the flows that have one packet.
    pub(crate) fn share_of_one(&self) -> f64 {
        match self {
            Self::Constant(n) => f64::from(u8::from(*n == 1)),
            Self::Measured(h) => {
                let flows: f64 = h.bins.iter().map(|b| b.flows as f64).sum();
                let ones = h.bins.first().filter(|b| b.first == 1);
                ones.map_or(0.0, |b| b.flows as f64 / (f64::from(b.last - b.first) + 1.0)) / flows
            }
        }
    }
}

/// A histogram of flow lengths: within a bin every length is as likely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    bins: Vec<Bin>,
}

/// Flows of `first` to `last` packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Fewest packets, at least 1.
    pub first: u32,
    /// Most packets, not below `first`.
    pub last: u32,
    /// Flows seen with so many.
    pub flows: u64,
}

/// The most bins of a histogram.
const MAX_BINS: usize = 1 << 20;

impl Histogram {
    /// From lines `LOW,HIGH,FLOWS`: FLOWS flows had LOW up to, but not including, HIGH packets. Further fields are not
    /// looked at, nor is a first line of names, so that the histograms of Jurkiewicz, Rzym and Boryło ("How Many Mice
    /// Make an Elephant?", arXiv:1809.03486; project flow-models) can be given as they are published. Empty lines and
    /// what follows `#` are left out.
    ///
    /// # Errors
    /// Line, what was found and what was expected.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let mut bins: Vec<Bin> = Vec::new();
        for line in Lines::of(text) {
            let line = line?;
            let low = line.number(0, "packets", 1..=u64::from(u32::MAX))?;
            let high = line.number(1, "packets", low + 1..=1 << 32)?;
            let flows = line.number(2, "flows", 0..=u64::MAX)?;
            if bins.last().is_some_and(|b| low <= u64::from(b.last)) {
                return Err(line.wrong(Field(0), "more packets than in the line before: bins in ascending order"));
            }
            if flows > 0 {
                bins.push(Bin { first: low as u32, last: (high - 1) as u32, flows });
            }
            if bins.len() > MAX_BINS {
                return Err(line.wrong(Field(0), &format!("at most {MAX_BINS} lines with flows")));
            }
        }
        if bins.is_empty() {
            Err(TextError::empty("lines such as `1,2,500`: low, high, flows"))
        } else {
            Ok(Self { bins })
        }
    }

    /// The bins that flows were seen in, ascending.
    #[must_use]
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// Mean packets of a flow.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let flows: f64 = self.bins.iter().map(|b| b.flows as f64).sum();
        let middle = |b: &Bin| (f64::from(b.first) + f64::from(b.last)) / 2.0;
        self.bins.iter().map(|b| b.flows as f64 * middle(b)).sum::<f64>() / flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_histogram_is_read_as_it_is() {
        let text = "bin_lo,bin_hi,flows_sum,packets_sum,octets_sum\n1,2,10,10,900\n2,3,5,10,800\n8,16,1,9,99\n";
        let h = Histogram::parse(text).unwrap();
        let bin = |first, last, flows| Bin { first, last, flows };
        assert_eq!(h.bins(), [bin(1, 1, 10), bin(2, 2, 5), bin(8, 15, 1)]);
        assert!((h.mean() - (10.0 + 10.0 + 11.5) / 16.0).abs() < 1e-12);
    }

    #[test]
    fn mistakes_are_shown_with_their_line() {
        let words = |text: &str| Histogram::parse(text).unwrap_err().to_string();
        assert_eq!(words(""), "found no line with numbers, expected lines such as `1,2,500`: low, high, flows");
        assert_eq!(words("1,2,3\n0,2,1"), "line 2, field 1: found \"0\", expected packets from 1 to 4294967295");
        assert_eq!(words("1,2,3\n4,4,1"), "line 2, field 2: found \"4\", expected packets from 5 to 4294967296");
        assert_eq!(words("1,2,3\n7"), "line 2, field 2: found nothing, expected packets from 8 to 4294967296");
        assert!(words("1,9,3\n7,8,1").starts_with("line 2, field 1: found \"7\", expected more packets"));
        assert!(words("1,2,-3").starts_with("line 1, field 3: found \"-3\""));
    }
}
