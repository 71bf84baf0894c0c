//! A router of two interfaces, and packets from the first through the second.

#[path = "../../../forward/benches/support/mod.rs"]
pub mod support;

use serde_json::{Value, json};
use support::Rig;

fn args(routes: &[&str]) -> Value {
    json!({
        "interfaces": [
            {"name": "lan", "mac": "02:00:00:00:00:02", "addresses": ["192.0.2.1/24"]},
            {"name": "wan", "mac": "02:00:00:00:00:03", "addresses": ["198.51.100.1/24"], "next": [0]},
        ],
        "neighbours": [
            {"address": "198.51.100.2", "mac": "02:00:00:00:00:04"},
            {"address": "198.51.100.3", "mac": "02:00:00:00:00:05"},
        ],
        "routes_inline": routes,
        "icmp_errors": {"per_s": 4_000_000_000u32, "burst": 4_000_000_000u32},
    })
}

/// All is forwarded.
pub fn rig(flows: usize) -> Rig {
    towards(&["0.0.0.0/0 via 198.51.100.2", "72.0.0.0/5 via 198.51.100.3"], flows)
}

/// Nothing is: each packet becomes an error.
#[allow(dead_code)]
pub fn lost(flows: usize) -> Rig {
    towards(&[], flows)
}

fn towards(routes: &[&str], flows: usize) -> Rig {
    // 64.0.0.0/4, far apart; no martians among them.
    Rig::diverting(&nf_router::KIND, args(routes), &["lan", "wan"], flows, |i| {
        i.wrapping_mul(0x9e37_79b9) & 0x0fff_ffff | 0x4000_0000
    })
}
