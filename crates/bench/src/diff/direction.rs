//! Which way is better: told by the words for what was measured.

use schemars::JsonSchema;
use serde::Serialize;

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The more the better: packets a second.
    More,
    /// The less the better: nanoseconds, losses.
    Less,
}

/// Words for what one wants little of. These come first: a "loss rate" is a loss.
const LESS: &[&str] = &[
    "latency",
    "loss",
    "lost",
    "losses",
    "drop",
    "drops",
    "dropped",
    "delay",
    "jitter",
    "pdv",
    "stall",
    "wait",
    "waiting",
    "cost",
    "misses",
    "miss",
    "wasted",
    "reordered",
    "duplicated",
    "duplicates",
    "overhead",
    "cpu",
    "error",
    "errors",
    "memory",
    "switches",
    "instructions",
    "cycles",
    "time",
    "reset",
    "recovery",
    "power",
    "energy",
];
const MORE: &[&str] = &[
    "throughput",
    "goodput",
    "ndr",
    "pdr",
    "mrr",
    "rate",
    "capacity",
    "bandwidth",
    "speed",
    "efficiency",
    "fairness",
    "received",
    "back",
];
const LESS_UNITS: &[&str] =
    &["ns", "us", "µs", "μs", "ms", "s", "ns/packet", "cycles", "cycles/packet", "B/packet", "J", "W", "nJ/packet"];
const MORE_UNITS: &[&str] = &[
    "pps",
    "kpps",
    "mpps",
    "gpps",
    "bit/s",
    "kbit/s",
    "mbit/s",
    "gbit/s",
    "bps",
    "kbps",
    "mbps",
    "gbps",
    "b/s",
    "mb/s",
    "gb/s",
    "packets/s",
    "frames/s",
    "fps",
    "requests/s",
    "flows/s",
    "/s",
];

/// Which way is better for a series of that name on an axis of that label and unit; `None` when the words do not tell.
/// The unit is asked first, as it is least likely to be prose; then the axis, then the series.
#[must_use]
pub fn better(series: &str, label: &str, unit: &str) -> Option<Better> {
    // Case tells ms from Ms, so it counts in the units of time.
    if MORE_UNITS.contains(&unit.trim().to_lowercase().as_str()) {
        // Packets a second that were lost are no throughput.
        return if says(label, LESS_RATES) || says(series, LESS_RATES) {
            Some(Better::Less)
        } else {
            Some(Better::More)
        };
    }
    if LESS_UNITS.contains(&unit.trim()) {
        return Some(Better::Less);
    }
    [label, series].into_iter().find_map(|text| {
        if says(text, LESS) {
            Some(Better::Less)
        } else if says(text, MORE) {
            Some(Better::More)
        } else {
            None
        }
    })
}

/// Of rates, these are not wanted.
const LESS_RATES: &[&str] =
    &["loss", "lost", "losses", "drop", "drops", "dropped", "wasted", "error", "errors", "misses"];

fn says(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase();
    text.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_tell_which_way_is_better() {
        for (series, label, unit, want) in [
            ("ours", "throughput", "Mpps", Some(Better::More)),
            ("ours", "latency", "µs", Some(Better::Less)),
            ("ours", "lost packets", "Mpps", Some(Better::Less)),
            ("ours", "loss", "%", Some(Better::Less)),
            ("loss", "share", "", Some(Better::Less)),
            ("NDR", "", "", Some(Better::More)),
            ("at NDR", "CPU use", "%", Some(Better::Less)),
            ("ours", "back-to-back burst", "frames", Some(Better::More)),
            ("ours", "rounds", "", None),
            ("", "", "", None),
        ] {
            assert_eq!(better(series, label, unit), want, "{series} {label} {unit}");
        }
    }
}
