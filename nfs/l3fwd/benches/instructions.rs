//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument; with `exact` besides, of flows with next hops of their own.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    let mut args =
        serde_json::json!({"routes_inline": ["0.0.0.0/0 via 02:00:00:00:00:03", "64.0.0.0/2 via 02:00:00:00:00:04"]});
    if std::env::args().any(|a| a == "exact") {
        // All flows of the rig.
        let flow = |i: u32| {
            let [_, a, b, c] = i.to_be_bytes();
            format!("udp 10.{a}.{b}.{c}:12345 192.0.2.1:53 via 02:00:00:00:00:05")
        };
        args["flows_inline"] = (0..1024).map(flow).collect();
        return support::instructions_towards(&nf_l3fwd::KIND, args, |_| 0xc000_0201);
    }
    support::instructions(&nf_l3fwd::KIND, args);
}
