//! Time for bursts of 32 frames of 64 bytes from inside, each flow a host of its own.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    divan::main();
}

#[divan::bench(args = [32, 1024, 131_072, 1_000_000])]
fn flows(bencher: divan::Bencher<'_, '_>, flows: usize) {
    let args = serde_json::json!({"inside": ["10.0.0.0/8"], "pool": ["192.0.2.0/28"], "flows": flows + 1024, "subscribers": flows + 1024});
    let rig = support::Rig::towards(&nf_nat::KIND, args, flows, |_| 0xc633_6401);
    support::time(bencher, rig, flows);
}
