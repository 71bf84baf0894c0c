//! When overloaded chains shed at their entry, and how many packets they have inside.

use schemars::JsonSchema;
use serde::Serialize;

/// Backpressure of every chain; with the mechanisms `backpressure` and `all`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Backpressure {
    /// The part of a queue, 0 to 1, from which on it is overloaded, if packets wait for longer than `threshold_us` too.
    #[schemars(range(min = 0, max = 1))]
    pub high: f64,
    /// The part of a queue down to which its chains shed at their entry then; less than `high`.
    #[schemars(range(min = 0, max = 1))]
    pub low: f64,
    /// Microseconds that packets may wait in a long queue. Default: 2000, or twice the target if that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 60_000_000))]
    pub threshold_us: Option<f64>,
    /// Microseconds that packets should spend inside a chain under overload: admission follows the rate at which they
    /// leave. Default: half of `slo.p99_us`; without that 500, or 150 for each instance on the path if that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 60_000_000))]
    pub target_us: Option<f64>,
    /// Marks packets "congestion experienced" (RFC 3168) on their way out of an overloaded chain, if their transport
    /// understands that.
    pub ecn: bool,
}

impl Default for Backpressure {
    fn default() -> Self {
        Self { high: 0.8, low: 0.6, threshold_us: None, target_us: None, ecn: false }
    }
}
