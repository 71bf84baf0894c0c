//! Captures on the test's side: read, written, and compared with what a chain made of them.

use pcap::{Capture, Linktype, Packet, PacketHeader};
use std::path::Path;

/// The longest frame in bytes without FCS that a chain carries.
pub const LONGEST: usize = 9018;
/// Raw IP, as libpcap calls it.
const RAW: Linktype = Linktype(12);

/// The frames of a capture as a chain should see them.
#[derive(Default)]
pub struct Frames {
    pub frames: Vec<Vec<u8>>,
    /// Frames longer than a chain carries.
    pub too_long: u64,
}

/// Reads a capture up to its end or first fault. Frames that were cut when they were recorded have their full length
/// again, and raw IP an Ethernet header.
pub fn read(path: &Path) -> Frames {
    let mut file = Capture::from_file(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let raw = file.get_datalink() == RAW;
    let mut all = Frames::default();
    while let Ok(packet) = file.next_packet() {
        let mut frame = Vec::new();
        if raw {
            let v6 = packet.data.first().is_some_and(|b| b >> 4 == 6);
            frame.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
            frame.extend(if v6 { [0x86, 0xdd] } else { [8, 0] });
        }
        let len = frame.len() + packet.data.len().max(packet.header.len as usize);
        if len > LONGEST {
            all.too_long += 1;
            continue;
        }
        frame.extend_from_slice(packet.data);
        frame.resize(len, 0);
        all.frames.push(frame);
    }
    all
}

/// Writes Ethernet frames.
pub fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut file = Capture::dead(Linktype::ETHERNET).unwrap().savefile(path).unwrap();
    for (n, frame) in frames.iter().enumerate() {
        let ts = libc::timeval { tv_sec: n as _, tv_usec: 0 };
        let len = frame.len() as u32;
        file.write(&Packet::new(&PacketHeader { ts, caplen: len, len }, frame));
    }
    file.flush().unwrap();
}

/// The frames of a capture that a filter of libpcap matches.
pub fn matching(path: &Path, filter: &str) -> Vec<Vec<u8>> {
    let mut file = Capture::from_file(path).unwrap();
    file.filter(filter, true).unwrap_or_else(|e| panic!("{filter}: {e}"));
    std::iter::from_fn(|| file.next_packet().ok().map(|p| p.data.to_vec())).collect()
}

/// Where the network header begins, and its EtherType.
fn network(frame: &[u8]) -> Option<(usize, u16)> {
    let mut at = 12;
    loop {
        let ethertype = u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?);
        if ethertype != 0x8100 && ethertype != 0x88a8 {
            return Some((at + 2, ethertype));
        }
        at += 4;
    }
}

/// Clears what a router changes, and returns the TTL or hop limit.
fn clear(frame: &mut [u8]) -> Option<u8> {
    let (addresses, _) = frame.split_at_mut_checked(12)?;
    addresses.fill(0);
    let (at, ethertype) = network(frame)?;
    let ip = frame.get_mut(at..)?;
    match ethertype {
        0x0800 if ip.len() >= 20 => {
            ip[10..12].fill(0);
            Some(std::mem::take(&mut ip[8]))
        }
        0x86dd if ip.len() >= 40 => Some(std::mem::take(&mut ip[7])),
        _ => None,
    }
}

/// The IPv4 header checksum is right (RFC 1071), if there is an IPv4 header.
fn sums_up(frame: &[u8]) -> bool {
    let Some((at, 0x0800)) = network(frame) else { return true };
    let ip = &frame[at..];
    let header = ip.first().and_then(|b| ip.get(..usize::from(b & 15) * 4));
    let words = header.unwrap_or_default().chunks_exact(2).map(|w| u64::from(u16::from_be_bytes([w[0], w[1]])));
    words.sum::<u64>() % 0xffff == 0
}

/// What comes out of a router is what went in, in order and less what was dropped, but for the addresses, a TTL
/// smaller by one, and the checksum that follows.
pub fn assert_routed(input: &[Vec<u8>], output: &[Vec<u8>]) {
    let mut source = input.iter();
    for (n, frame) in output.iter().enumerate() {
        assert!(sums_up(frame), "output frame {n} has a wrong checksum: {frame:02x?}");
        let mut cleared = frame.clone();
        let ttl = clear(&mut cleared);
        let found = source.any(|original| {
            let mut original = original.clone();
            let before = clear(&mut original);
            original == cleared && before == ttl.map(|t| t.wrapping_add(1))
        });
        assert!(found, "output frame {n} is no frame of the input: {frame:02x?}");
    }
}
