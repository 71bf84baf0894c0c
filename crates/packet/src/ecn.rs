//! Explicit congestion notification (RFC 3168): marking a frame.

use crate::bytes::be16;
use crate::layers::MAX_TAGS;
use crate::{checksum, ether, ipv4, ipv6};

/// The two bits of the codepoint.
const BITS: u8 = 0b11;
/// "Congestion experienced": both.
const CE: u8 = 0b11;

/// Marks the frame "congestion experienced" if its outermost IP header says that its transport understands that
/// (ECT(0) or ECT(1)), behind up to two VLAN tags; an IPv4 checksum is corrected by what changed. Returns whether the
/// frame changed: not if it cannot be marked, is marked already, or is no whole IP header.
pub fn mark(frame: &mut [u8]) -> bool {
    let mut at = ether::HEADER_LEN;
    let mut ethertype = be16(frame, at - 2);
    for _ in 0..MAX_TAGS {
        if !ethertype.is_some_and(ether::is_tag) {
            break;
        }
        at += ether::TAG_LEN;
        ethertype = be16(frame, at - 2);
    }
    match (ethertype, frame.get_mut(at..)) {
        (Some(ether::IPV4), Some(header)) => mark_ipv4(header),
        (Some(ether::IPV6), Some(header)) => mark_ipv6(header),
        _ => false,
    }
}

/// Neither 00, which is "not capable", nor CE itself.
const fn can_be_marked(bits: u8) -> bool {
    bits != 0 && bits != CE
}

fn mark_ipv4(header: &mut [u8]) -> bool {
    let Some(head) = header.first_chunk_mut::<{ ipv4::HEADER_LEN }>() else { return false };
    let [first, tos] = [head[0], head[1]];
    if first >> 4 != 4 || first & 15 < 5 || !can_be_marked(tos & BITS) {
        return false;
    }
    let word = |tos| u16::from_be_bytes([first, tos]);
    let sum = checksum::update(u16::from_be_bytes([head[10], head[11]]), word(tos), word(tos | CE));
    head[1] = tos | CE;
    [head[10], head[11]] = sum.to_be_bytes();
    true
}

/// The codepoint is the end of the traffic class, which begins in the middle of the first byte.
fn mark_ipv6(header: &mut [u8]) -> bool {
    let Some(head) = header.first_chunk_mut::<{ ipv6::HEADER_LEN }>() else { return false };
    let [first, second] = [head[0], head[1]];
    if first >> 4 != 6 || !can_be_marked(second >> 4 & BITS) {
        return false;
    }
    head[1] = second | CE << 4;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TAGS: [&[u8]; 4] = [
        &[],
        &[0x81, 0, 0x20, 7],
        &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7],
        // One more than are looked behind.
        &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7, 0x81, 0, 0, 8],
    ];

    fn frame(tags: &[u8], ip: &[u8]) -> Vec<u8> {
        let ethertype: [u8; 2] = if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        [&[2; 12], tags, &ethertype, ip, &[0xaa; 20]].concat()
    }

    fn v4(tos: u8, options: usize) -> Vec<u8> {
        let mut head = vec![0x45 + options as u8, tos, 0, 60, 1, 2, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 9, 8, 7];
        head.extend(std::iter::repeat_n(1, options * 4));
        let sum = checksum::checksum(&head);
        head[10..12].copy_from_slice(&sum.to_be_bytes());
        head
    }

    fn v6(class: u8, label: u32) -> Vec<u8> {
        let mut head = (6 << 28 | u32::from(class) << 20 | label).to_be_bytes().to_vec();
        head.extend([0, 20, 6, 64]);
        head.extend([0x20; 32]);
        head
    }

    /// All 256 values of the byte, with and without options, behind each number of tags.
    #[test]
    fn ipv4_in_full() {
        for (n, tags) in TAGS.iter().enumerate() {
            for tos in 0..=255 {
                for options in [0, 1, 10] {
                    let before = frame(tags, &v4(tos, options));
                    let mut after = before.clone();
                    let capable = matches!(tos & 3, 1 | 2) && n < 3;
                    assert_eq!(mark(&mut after), capable, "{tos:#x}");
                    let expected = if capable { frame(tags, &v4(tos | 3, options)) } else { before };
                    // Whole, so the checksum is that of a header that was made so, and nothing else changed.
                    assert_eq!(after, expected, "{tos:#x}");
                    assert!(!mark(&mut after), "a second time");
                }
            }
        }
    }

    #[test]
    fn ipv6_in_full() {
        for (n, tags) in TAGS.iter().enumerate() {
            for class in 0..=255 {
                for label in [0, 0xf_ffff, 0x5_a5a5] {
                    let before = frame(tags, &v6(class, label));
                    let mut after = before.clone();
                    let capable = matches!(class & 3, 1 | 2) && n < 3;
                    assert_eq!(mark(&mut after), capable, "{class:#x}");
                    let expected = if capable { frame(tags, &v6(class | 3, label)) } else { before };
                    assert_eq!(after, expected, "{class:#x}");
                }
            }
        }
    }

    /// A header that is not whole, or says that it is another, is left alone.
    #[test]
    fn what_is_no_header_stays_as_it_is() {
        for tags in &TAGS[..3] {
            for (ip, len) in [(v4(2, 0), 20), (v6(2, 0), 40)] {
                let whole = frame(tags, &ip);
                for cut in 0..14 + tags.len() + len {
                    assert!(!mark(&mut whole[..cut].to_vec()), "{cut} bytes");
                }
                for version in (0..16).filter(|v| *v != ip[0] >> 4) {
                    let mut other = whole.clone();
                    other[14 + tags.len()] = version << 4 | ip[0] & 15;
                    assert!(!mark(&mut other), "version {version}");
                }
            }
        }
        for ihl in 0..5 {
            let mut short = frame(&[], &v4(2, 0));
            short[14] = 0x40 | ihl;
            assert!(!mark(&mut short));
        }
    }

    proptest! {
        /// Whatever the frame, at most three bytes change, and a wrong checksum stays as wrong as it was.
        #[test]
        fn only_the_codepoint_and_the_checksum_change(mut frame in proptest::collection::vec(any::<u8>(), 0..80), tos: u8, sum: u16) {
            if frame.len() >= 34 {
                frame[12..16].copy_from_slice(&[8, 0, 0x45, tos]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            let before = frame.clone();
            let marked = mark(&mut frame);
            prop_assert_eq!(marked, before != frame);
            let changed = frame.iter().zip(&before).filter(|(a, b)| a != b).count();
            prop_assert!(changed <= 3);
            if marked && frame.len() >= 34 && frame[12] == 8 {
                let fold = |f: &[u8]| checksum::Sum::new().bytes(&f[14..34]).fold() % 0xffff;
                prop_assert_eq!(fold(&frame), fold(&before));
            }
        }
    }
}
