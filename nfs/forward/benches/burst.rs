//! Time for bursts of 32 frames of 64 bytes.

mod support;

fn main() {
    divan::main();
}

#[divan::bench(args = [32, 1024, 131_072])]
fn flows(bencher: divan::Bencher<'_, '_>, flows: usize) {
    support::bursts(bencher, &nf_forward::KIND, serde_json::json!({}), flows);
}
