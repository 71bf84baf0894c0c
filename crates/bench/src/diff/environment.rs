//! Where two environments differ: a change may be the host's.

use crate::report::flat;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One entry of the manifest that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Differs {
    /// Path of the entry: `caches.l3`.
    pub what: String,
    /// In A; empty where it has none.
    pub a: String,
    /// In B.
    pub b: String,
    /// Whether figures of two such hosts are hardly to be compared. The commit is not: it is what is compared.
    pub weighty: bool,
}

/// Parts of names of what a figure depends on most.
const WEIGHTY: &[&str] = &[
    "cpu",
    "model",
    "processor",
    "cores",
    "cache",
    "kernel",
    "dpdk",
    "governor",
    "huge",
    "cgroup",
    "mitigation",
    "smt",
    "isol",
    "hypervisor",
    "virtual",
    "microcode",
    "numa",
    "socket",
    "frequency",
    "cmdline",
    "clock",
];
/// Differ in any two runs and tell nothing.
const FLEETING: &[&str] = &["started", "uptime", "pid", "time", "date", "load_average", "free_bytes"];

/// Where two manifests differ, the weighty ones first, else in order of their names.
#[must_use]
pub fn differences(a: &Value, b: &Value) -> Vec<Differs> {
    let map = |v| flat(v).into_iter().filter(|(k, _)| !fleeting(k)).collect::<BTreeMap<_, _>>();
    let (a, b) = (map(a), map(b));
    let empty = String::new();
    let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let mut out: Vec<Differs> = keys
        .into_iter()
        .map(|k| (k, a.get(k).unwrap_or(&empty), b.get(k).unwrap_or(&empty)))
        .filter(|(_, a, b)| a != b)
        .map(|(k, a, b)| Differs { what: k.clone(), a: a.clone(), b: b.clone(), weighty: weighty(k) })
        .collect();
    out.sort_by_key(|d| !d.weighty);
    out
}

fn fleeting(key: &str) -> bool {
    FLEETING.contains(&key.rsplit('.').next().unwrap_or(key))
}

fn weighty(key: &str) -> bool {
    let key = key.to_lowercase();
    WEIGHTY.iter().any(|w| key.contains(w))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn weighty_differences_come_first() {
        let a = json!({"commit": "a", "caches": {"l3": "32 MiB"}, "uptime": 1, "same": [1, 2]});
        let b =
            json!({"commit": "b", "caches": {"l3": "16 MiB"}, "uptime": 2, "same": [1, 2], "governor": "powersave"});
        let found = differences(&a, &b);
        let words: Vec<_> = found.iter().map(|d| (d.what.as_str(), d.a.as_str(), d.b.as_str(), d.weighty)).collect();
        assert_eq!(
            words,
            [("caches.l3", "32 MiB", "16 MiB", true), ("governor", "", "powersave", true), ("commit", "a", "b", false)]
        );
        assert!(differences(&a, &a).is_empty());
    }
}
