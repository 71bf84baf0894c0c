//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument; with `records` or `heavy` besides, with flow records or heavy hitters.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    let mut args = serde_json::json!({"hosts": 262144});
    // No file is open: no record is written while all flows have a place.
    if std::env::args().any(|a| a == "records") {
        args["flow_records"] = serde_json::json!({"ipfix": "records.ipfix"});
    }
    if std::env::args().any(|a| a == "heavy") {
        args["heavy_hitters"] = serde_json::json!({"of": "flow", "share": 0.005});
    }
    support::instructions(&nf_monitor::KIND, args);
}
