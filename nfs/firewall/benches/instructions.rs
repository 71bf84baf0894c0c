//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument; with `stateful` besides, as a stateful one.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    let mut args = serde_json::json!({"rules_inline": ["deny tcp from any to any port 23", "allow udp from 10.0.0.0/8 to any port 53"]});
    if std::env::args().any(|a| a == "stateful") {
        args["stateful"] = serde_json::json!({"connections6": 1});
    }
    support::instructions(&nf_firewall::KIND, args);
}
