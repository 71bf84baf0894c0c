//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    support::instructions(
        &nf_firewall::KIND,
        serde_json::json!({"rules_inline": ["deny tcp from any to any port 23", "allow udp from 10.0.0.0/8 to any port 53"]}),
    );
}
