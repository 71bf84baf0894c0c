//! Time for bursts of 32 frames of 64 bytes.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    divan::main();
}

#[divan::bench(args = [32, 1024, 131_072])]
fn flows(bencher: divan::Bencher<'_, '_>, flows: usize) {
    support::bursts(
        bencher,
        &nf_firewall::KIND,
        serde_json::json!({"rules_inline": ["deny tcp from any to any port 23", "allow udp from 10.0.0.0/8 to any port 53"]}),
        flows,
    );
}

#[divan::bench(args = [32, 1024, 131_072, 1_048_576])]
fn connections(bencher: divan::Bencher<'_, '_>, connections: usize) {
    let args = serde_json::json!({"rules_inline": ["deny tcp from any to any port 23", "allow udp from 10.0.0.0/8 to any port 53"],
        "stateful": {"connections": connections + 1024, "connections6": 1}});
    support::bursts(bencher, &nf_firewall::KIND, args, connections);
}
