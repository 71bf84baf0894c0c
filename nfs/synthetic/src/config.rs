//! Arguments.

use chainline_nf::Error;

/// The most cycles that one packet may cost: about a second.
pub const MAX_COST: u64 = 4_000_000_000;
/// The most state: 64 GiB.
pub const MAX_STATE: u64 = 1 << 36;
/// The most steps.
pub const MAX_STEPS: usize = 1024;
/// The most touches a packet.
pub const MAX_TOUCHES: u32 = 4096;

/// `args:` of a `synthetic` NF.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Cost of a packet in TSC cycles.
    #[serde(default)]
    pub cost_cycles: Cost,
    /// Size of the state in bytes, rounded up to whole cache lines of 64.
    #[serde(default)]
    pub state_bytes: u64,
    /// Cache lines of the state that a packet reads and writes; which ones depends on its flow hash.
    #[serde(default)]
    pub touches: u32,
    /// Frequency of the TSC in Hz; asked from the CPU and the kernel unless given.
    pub tsc_hz: Option<u64>,
    /// Other costs from some time on, in order of time. Time begins with the first packet, and again with the first
    /// packet after half a second without any.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Cost of one iteration of the busy loop in TSC cycles; measured at start-up unless given. Instances that are
    /// to be compared closely should be given the same.
    pub iteration_cycles: Option<f64>,
}

/// Another cost from some time on.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Milliseconds after the first packet.
    pub at_ms: u64,
    /// Cost of a packet from then on, in TSC cycles.
    pub cost_cycles: Cost,
}

/// Cost of a packet in TSC cycles.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a number of cycles, {uniform: [low, high]}, {exponential: mean} or {per_flow: [cycles, ...]}"
)]
pub enum Cost {
    /// Every packet the same.
    Constant(u64),
    /// Drawn for each packet, from a fixed seed.
    Distribution(Distribution),
}

impl Default for Cost {
    fn default() -> Self {
        Self::Constant(0)
    }
}

/// How costs differ.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Evenly between the two, both included.
    Uniform([u64; 2]),
    /// Exponential with this mean.
    Exponential(u64),
    /// One of the list, chosen by the flow hash: a flow's packets all cost the same.
    PerFlow(Vec<u64>),
}

/// Entries of the table that stands for a distribution.
const QUANTILES: u32 = 4096;

impl Args {
    /// Checks the limits and returns the costs to draw from, in cycles, each as likely as the others.
    pub(crate) fn costs(&self) -> Result<Vec<f64>, Error> {
        let wrong = |what: String| Err(Error::Args(format!("args.{what}")));
        if self.state_bytes > MAX_STATE {
            return wrong(format!("state_bytes: {} is more than {MAX_STATE}", self.state_bytes));
        }
        if self.touches > MAX_TOUCHES {
            return wrong(format!("touches: {} is more than {MAX_TOUCHES}", self.touches));
        }
        if self.touches > 0 && self.state_bytes == 0 {
            return wrong("touches: there is nothing to touch, expected state_bytes above 0".into());
        }
        if let Some(c) = self.iteration_cycles.filter(|c| !(0.01..=1000.0).contains(c)) {
            return wrong(format!("iteration_cycles: found {c}, expected 0.01 to 1000"));
        }
        if let Some(hz) = self.tsc_hz.filter(|hz| !(1_000_000..=100_000_000_000).contains(hz)) {
            return wrong(format!("tsc_hz: found {hz}, expected a frequency in Hz, such as 2400000000"));
        }
        if self.steps.len() > MAX_STEPS {
            return wrong(format!("steps: found {} of them, expected at most {MAX_STEPS}", self.steps.len()));
        }
        if let Some(at) = (1..self.steps.len()).find(|i| self.steps[i - 1].at_ms >= self.steps[*i].at_ms) {
            let ms = self.steps[at].at_ms;
            return wrong(format!("steps[{at}].at_ms: found {ms}, expected a later time than the step before has"));
        }
        self.cost_cycles.draws("cost_cycles")
    }
}

impl Cost {
    /// The costs to draw from. `field` is for messages.
    pub(crate) fn draws(&self, field: &str) -> Result<Vec<f64>, Error> {
        let wrong = |what: String| Err(Error::Args(format!("args.{what}")));
        let steps = || (0..QUANTILES).map(|i| (f64::from(i) + 0.5) / f64::from(QUANTILES));
        let costs: Vec<f64> = match self {
            Cost::Constant(c) => vec![*c as f64],
            Cost::Distribution(Distribution::Uniform([low, high])) => {
                if low > high {
                    return wrong(format!("{field}.uniform: found [{low}, {high}], expected the lower one first"));
                }
                let (low, high) = (*low as f64, *high as f64);
                steps().map(|u| low + (high - low) * u).collect()
            }
            Cost::Distribution(Distribution::Exponential(mean)) => {
                let draws: Vec<f64> = steps().map(|u: f64| -u.ln()).collect();
                // The table ends the tail early; what it lacks is given back, so that the mean is right.
                let scale = *mean as f64 * f64::from(QUANTILES) / draws.iter().sum::<f64>();
                draws.into_iter().map(|d| d * scale).collect()
            }
            Cost::Distribution(Distribution::PerFlow(list)) => {
                if list.is_empty() || list.len() > 1 << 16 {
                    let n = list.len();
                    return wrong(format!("{field}.per_flow: found {n} costs, expected 1 to 65536"));
                }
                list.iter().map(|c| *c as f64).collect()
            }
        };
        match costs.iter().find(|c| **c > MAX_COST as f64) {
            Some(c) => wrong(format!("{field}: {c:.0} cycles for a packet are more than {MAX_COST}")),
            None => Ok(costs),
        }
    }
}
