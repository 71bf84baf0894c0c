//! Cost of parsing and hashing one 64-byte frame (60 bytes without FCS); the manager pays it for every packet.

use chainline_packet::{flow_hash, parse};
use divan::{Bencher, black_box, counter::ItemsCount};

/// Frames in a round; few enough for L1, many enough that no branch learns them by heart.
const FRAMES: usize = 64;

fn main() {
    divan::main();
}

fn frame(proto: u8, i: u8) -> [u8; 60] {
    let mut p = [0; 60];
    p[12..15].copy_from_slice(&[8, 0, 0x45]);
    p[16..18].copy_from_slice(&46u16.to_be_bytes());
    (p[22], p[23]) = (64, proto);
    p[26..34].copy_from_slice(&[10, 0, 0, i, 10, 0, 1, i]);
    p[34..38].copy_from_slice(&[0x30, i, 0, 80]);
    if proto == 6 {
        p[46] = 0x50
    } else {
        p[39] = 26
    }
    p
}

fn tagged(p: [u8; 60]) -> [u8; 60] {
    let mut t = p;
    t[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
    t[16..].copy_from_slice(&p[12..56]);
    t[20..22].copy_from_slice(&42u16.to_be_bytes());
    t
}

fn run(bencher: Bencher<'_, '_>, make: impl Fn(u8) -> [u8; 60]) {
    let frames: Vec<_> = (0..FRAMES).map(|i| make(i as u8)).collect();
    bencher.counter(ItemsCount::new(FRAMES)).bench_local(|| {
        for frame in &frames {
            let layers = parse(black_box(frame));
            black_box(flow_hash(&layers.tuple));
            black_box(&layers);
        }
    });
}

#[divan::bench]
fn tcp(bencher: Bencher<'_, '_>) {
    run(bencher, |i| frame(6, i));
}

#[divan::bench]
fn udp_and_tcp_mixed(bencher: Bencher<'_, '_>) {
    run(bencher, |i| frame(if i.count_ones() % 2 == 0 { 6 } else { 17 }, i));
}

#[divan::bench]
fn vlan(bencher: Bencher<'_, '_>) {
    run(bencher, |i| tagged(frame(6, i)));
}

#[divan::bench(args = [64, 256, 1500])]
fn checksum(bencher: Bencher<'_, '_>, len: usize) {
    let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
    bencher.bench_local(|| chainline_packet::checksum::checksum(black_box(&data)));
}
