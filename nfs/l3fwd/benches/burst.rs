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
        &nf_l3fwd::KIND,
        serde_json::json!({"routes_inline": ["0.0.0.0/0 via 02:00:00:00:00:03", "64.0.0.0/2 via 02:00:00:00:00:04"]}),
        flows,
    );
}
