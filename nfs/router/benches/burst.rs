//! Time for bursts of 32 frames of 64 bytes.

mod rig;

fn main() {
    divan::main();
}

#[divan::bench(args = [32, 1024, 131_072])]
fn flows(bencher: divan::Bencher<'_, '_>, flows: usize) {
    rig::support::time(bencher, rig::rig(flows), flows);
}

/// Nothing but time exceeded: what a traceroute of everybody costs.
#[divan::bench]
fn errors(bencher: divan::Bencher<'_, '_>) {
    rig::support::time(bencher, rig::lost(1024), 1024);
}
