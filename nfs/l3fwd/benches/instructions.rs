//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    support::instructions(
        &nf_l3fwd::KIND,
        serde_json::json!({"routes_inline": ["0.0.0.0/0 via 02:00:00:00:00:03", "64.0.0.0/2 via 02:00:00:00:00:04"]}),
    );
}
