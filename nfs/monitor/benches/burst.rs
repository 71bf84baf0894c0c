//! Time for bursts of 32 frames of 64 bytes.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    divan::main();
}

#[divan::bench(args = [32, 1024, 131_072])]
fn flows(bencher: divan::Bencher<'_, '_>, flows: usize) {
    support::bursts(bencher, &nf_monitor::KIND, serde_json::json!({"hosts": 262144}), flows);
}
