//! Latencies: percentiles for people, the histogram for whoever computes on.

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nanoseconds at percentiles, and the histogram that they were read from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Number of values.
    pub count: u64,
    /// Smallest.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// 99.99th percentile.
    pub p99_99: u64,
    /// 99.999th percentile.
    pub p99_999: u64,
    /// Largest.
    pub max: u64,
    /// The HDR histogram (three digits), V2 with zlib, in base64, as HdrHistogram's tools read it.
    pub hdr: String,
}

/// Text that is no histogram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no HDR histogram: {0}")]
pub struct HistogramError(String);

impl Latency {
    /// What a histogram says; none of an empty one.
    #[must_use]
    pub fn of(h: &Histogram<u64>) -> Option<Self> {
        if h.is_empty() {
            return None;
        }
        let at = |q| h.value_at_quantile(q);
        let mut bytes = Vec::new();
        // Writing to a vector does not fail.
        let _ = V2DeflateSerializer::new().serialize(h, &mut bytes);
        Some(Self {
            count: h.len(),
            min: h.min(),
            mean: h.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            p99_999: at(0.99999),
            max: h.max(),
            hdr: base64::engine::general_purpose::STANDARD.encode(bytes),
        })
    }

    /// The histogram again.
    ///
    /// # Errors
    /// When [`Latency::hdr`] is not what [`Latency::of`] wrote.
    pub fn histogram(&self) -> Result<Histogram<u64>, HistogramError> {
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(&self.hdr).map_err(|e| HistogramError(e.to_string()))?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|e| HistogramError(format!("{e:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_the_way_through_text() {
        let mut h = Histogram::<u64>::new(3).unwrap();
        (1..=100_000).for_each(|v| h.record(v * 10).unwrap());
        let latency = Latency::of(&h).unwrap();
        assert_eq!(latency.histogram().unwrap(), h);
        assert!(latency.p99_999 >= latency.p99_99 && latency.max >= latency.p99_999);
        assert!(Latency { hdr: "???".into(), ..latency }.histogram().is_err());
        assert_eq!(Latency::of(&Histogram::new(3).unwrap()), None);
    }
}
