//! Captures (pcap and pcapng): refused, or replayed with frames that lie in their buffers.

use crate::file::MemFile;
use chainline_chain::model::Rate;

/// The target.
pub fn run(data: &[u8]) {
    let file = MemFile::new(data);
    let rates = [Rate::Max, Rate::Recorded, Rate::PacketsPerSecond(1e6), Rate::BitsPerSecond(1e9)];
    let packets = rates.map(|rate| chainline_manager::fuzz::capture(&file.path(), rate).ok());
    assert!(packets.iter().all(|n| *n == packets[0]), "the rate decides what is read: {packets:?}");
}
