//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    support::instructions(&nf_monitor::KIND, serde_json::json!({"hosts": 262144}));
}
