//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    support::instructions(&nf_synthetic::KIND, serde_json::json!({"cost_cycles": 120, "iteration_cycles": 4.0}));
}
