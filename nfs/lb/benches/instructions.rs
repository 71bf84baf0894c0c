//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    let args =
        serde_json::json!({"services": concat!(env!("CARGO_MANIFEST_DIR"), "/benches/hundred.services"), "flows6": 1});
    support::instructions_towards(&nf_lb::KIND, args, |_| 0xc000_020a);
}
