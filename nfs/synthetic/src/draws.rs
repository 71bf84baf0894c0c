//! Which cost a packet gets.

use crate::config::{Args, Cost, Distribution};
use chainline_nf::Error;

// Steele and Vigna's multiplier; the seed is Knuth's.
const STEP: u64 = 0xd134_2543_de82_ef95;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The costs of packets one after the other: the same for the same arguments, in every process. Public so that a
/// simulation can serve exactly the packets that the NF would (see the crate `chainline-queueing`).
#[derive(Clone, Debug)]
pub struct Draws<T> {
    values: Vec<T>,
    by_flow: bool,
    random: u64,
}

fn by_flow(cost: &Cost) -> bool {
    matches!(cost, Cost::Distribution(Distribution::PerFlow(_)))
}

impl Draws<f64> {
    /// Costs in TSC cycles.
    ///
    /// # Errors
    /// When the arguments are out of range.
    pub fn of(args: &Args) -> Result<Self, Error> {
        Ok(Self { values: args.costs()?, by_flow: by_flow(&args.cost_cycles), random: SEED })
    }

    /// Costs of the step with this index, as [`Draws::of`].
    pub(crate) fn of_step(args: &Args, index: usize) -> Result<Self, Error> {
        let cost = args.steps.get(index).map_or(&args.cost_cycles, |s| &s.cost_cycles);
        let values = cost.draws(&format!("steps[{index}].cost_cycles"))?;
        Ok(Self { values, by_flow: by_flow(cost), random: SEED })
    }

    /// Mean of all values, in TSC cycles.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }
}

impl<T: Copy> Draws<T> {
    /// The same draws of other values: `f` of each.
    #[must_use]
    pub fn map<U>(&self, f: impl Fn(T) -> U) -> Draws<U> {
        Draws { values: self.values.iter().map(|v| f(*v)).collect(), by_flow: self.by_flow, random: self.random }
    }

    /// That of the next packet, which belongs to the flow with this hash.
    #[inline]
    pub fn next(&mut self, flow_hash: u32) -> Option<T> {
        let draw = if self.by_flow {
            flow_hash
        } else {
            self.random = self.random.wrapping_mul(STEP).wrapping_add(1);
            (self.random >> 32) as u32
        };
        self.values.get(scale(draw, self.values.len())).copied()
    }

    /// Makes room for the values of all of these, so that taking them over allocates nothing.
    pub(crate) fn make_room<'a>(&mut self, others: impl Iterator<Item = &'a Self>)
    where
        T: 'a,
    {
        let most = others.map(|o| o.values.len()).max().unwrap_or(0);
        self.values.reserve(most.saturating_sub(self.values.len()));
    }

    /// Draws from the values of another from now on.
    pub(crate) fn take_over(&mut self, other: &Self) {
        self.values.clear();
        self.values.extend_from_slice(&other.values);
        self.by_flow = other.by_flow;
    }

    #[cfg(test)]
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }
}

/// Maps 32 bits evenly onto `0..len` without a division.
#[inline]
pub(crate) fn scale(draw: u32, len: usize) -> usize {
    ((u64::from(draw) * len as u64) >> 32) as usize
}
