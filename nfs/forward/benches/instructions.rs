//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument.

mod support;

fn main() {
    support::instructions(&nf_forward::KIND, serde_json::json!({}));
}
