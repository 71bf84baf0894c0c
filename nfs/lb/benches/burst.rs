//! Time for bursts of 32 frames of 64 bytes to one service with 100 backends, in address translation.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

const VIP: u32 = 0xc000_020a;

fn main() {
    divan::main();
}

#[divan::bench(args = [32, 1024, 131_072, 1_048_576])]
fn flows(bencher: divan::Bencher<'_, '_>, flows: usize) {
    let args = serde_json::json!({"services": concat!(env!("CARGO_MANIFEST_DIR"), "/benches/hundred.services"), "flows": flows + 1024, "flows6": 1});
    let rig = support::Rig::towards(&nf_lb::KIND, args, flows, |_| VIP);
    support::time(bencher, rig, flows);
}
