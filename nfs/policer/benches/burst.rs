//! Time for bursts of 32 frames of 64 bytes: one meter for all, and one for each flow.

#[path = "../../forward/benches/support/mod.rs"]
mod support;

fn main() {
    divan::main();
}

fn args(per: &str, flows: usize) -> serde_json::Value {
    // Time stands still here: a bucket that lasts.
    let meter = serde_json::json!({"srtcm": {"cir_bytes_s": 12_500_000_000u64, "cbs_bytes": 1_000_000_000_000u64, "ebs_bytes": 0}});
    serde_json::json!({"classes": [{"name": "all", "per": per, "meter": meter, "red": "pass"}], "flows": flows + 1024, "flows6": 1})
}

#[divan::bench]
fn whole(bencher: divan::Bencher<'_, '_>) {
    support::bursts(bencher, &nf_policer::KIND, args("class", 1024), 1024);
}

#[divan::bench(args = [32, 1024, 131_072, 1_048_576])]
fn flows(bencher: divan::Bencher<'_, '_>, flows: usize) {
    support::bursts(bencher, &nf_policer::KIND, args("flow", flows), flows);
}
