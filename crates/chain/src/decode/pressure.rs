//! Backpressure.

use super::Decoder;
use super::fields::Fields;
use crate::model::Backpressure;
use crate::tree::Node;

/// Longest time that can be asked for: a minute.
const MOST_US: f64 = 60e6;

/// When chains shed.
pub(super) fn backpressure(d: &mut Decoder, node: &Node) -> Option<Backpressure> {
    let mut f = Fields::of(d, node, "a map such as {high: 0.8, low: 0.6}")?;
    let usual = Backpressure::default();
    let high = f.optional(d, "high", |d, n| d.float(n, 0.01..=1.0));
    let low = f.optional(d, "low", |d, n| d.float(n, 0.0..=1.0));
    let spec = Backpressure {
        high: high.unwrap_or(usual.high),
        low: low.unwrap_or(usual.low),
        threshold_us: f.optional(d, "threshold_us", |d, n| d.float(n, 0.0..=MOST_US)),
        target_us: f.optional(d, "target_us", |d, n| d.float(n, 10.0..=MOST_US)),
        ecn: f.optional(d, "ecn", Decoder::bool).unwrap_or(usual.ecn),
    };
    if spec.low >= spec.high && !f.broken {
        let at = f.node("low").or_else(|| f.node("high")).unwrap_or(node);
        let message = format_args!("found a `low` of {}, expected less than `high`, {}", spec.low, spec.high);
        d.error(at.span, message);
    }
    f.finish(d);
    Some(spec)
}
