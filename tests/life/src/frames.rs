//! Captures: made, read, compared.

use crate::Random;
use pcap::{Capture, Linktype, Packet, PacketHeader};
use std::path::Path;

/// `n` Ethernet frames of many lengths and random contents, each different.
#[must_use]
pub fn random(n: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    let frame = |i: usize| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
        frame.extend((i as u64).to_be_bytes());
        frame.extend((0..random.below(400)).map(|_| 0));
        frame.iter_mut().skip(22).for_each(|b| *b = random.next() as u8);
        frame
    };
    (0..n).map(frame).collect()
}

/// Writes Ethernet frames.
pub fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut file = Capture::dead(Linktype::ETHERNET).unwrap().savefile(path).unwrap();
    for (n, frame) in frames.iter().enumerate() {
        let len = frame.len() as u32;
        let ts = libc::timeval { tv_sec: 0, tv_usec: n as _ };
        file.write(&Packet::new(&PacketHeader { ts, caplen: len, len }, frame));
    }
    file.flush().unwrap();
}

/// The frames of a capture.
#[must_use]
pub fn read(path: &Path) -> Vec<Vec<u8>> {
    let mut file = Capture::from_file(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    std::iter::from_fn(|| file.next_packet().ok().map(|p| p.data.to_vec())).collect()
}

/// Fails unless both have the same frames in the same order.
pub fn assert_same(sent: &[Vec<u8>], got: &[Vec<u8>]) {
    let differ = sent.iter().zip(got).position(|(a, b)| a != b);
    assert_eq!((sent.len(), None), (got.len(), differ), "frames, and the first that differs");
}
