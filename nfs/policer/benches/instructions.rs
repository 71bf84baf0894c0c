//! Runs bursts of 64-byte frames, metered for each flow by trTCM and marked, for a count of instructions a packet:
//! `valgrind --tool=callgrind`, twice, with different numbers of bursts as argument.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    let meter = serde_json::json!({"trtcm": {"cir_bytes_s": 1250, "cbs_bytes": 1, "pir_bytes_s": 125_000_000u64, "pbs_bytes": 1_000_000_000u64}});
    let class = serde_json::json!({"name": "all", "per": "flow", "meter": meter, "yellow": {"dscp": 12}});
    support::instructions(&nf_policer::KIND, serde_json::json!({"classes": [class], "flows": 4096, "flows6": 1}));
}
