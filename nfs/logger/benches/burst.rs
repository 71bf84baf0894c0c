//! Time for bursts of 32 frames of 64 bytes.

mod files;

fn main() {
    divan::main();
}

#[divan::bench]
fn all_packets(bencher: divan::Bencher<'_, '_>) {
    files::support::time(bencher, files::rig(1024), 1024);
}
