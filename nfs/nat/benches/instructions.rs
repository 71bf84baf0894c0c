//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    let args = serde_json::json!({"inside": ["10.0.0.0/8"], "pool": ["192.0.2.0/28"]});
    support::instructions_towards(&nf_nat::KIND, args, |_| 0xc633_6401);
}
