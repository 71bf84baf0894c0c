//! The bytes of a frame: Ethernet II, IPv4 without options, UDP or TCP, a fixed payload. Tags, IPv6 and flows that begin
//! and end are in `template`.

use crate::flow::{Ends, Proto};
use crate::stamp::{STAMP_BYTES, stamp_at};

/// Length of the frame check sequence, which frame sizes count and buffers do not hold.
pub const FCS_BYTES: u32 = 4;
/// The shortest Ethernet frame, with FCS.
pub const MIN_FRAME_BYTES: u32 = 64;
/// The longest frame, with FCS: 9000 bytes of IP and a VLAN tag's worth of room.
pub const MAX_FRAME_BYTES: u32 = 9022;
/// Bytes of a frame that depend on flow and length: one cache line.
pub const HEAD_BYTES: usize = 64;

pub(crate) const IP: usize = 14;
const L4: usize = IP + 20;
const UDP_END: usize = L4 + 8;
const TCP_END: usize = L4 + 20;
const MAX_BYTES: usize = (MAX_FRAME_BYTES - FCS_BYTES) as usize;

pub(crate) const TTL: u8 = 64;

/// Every frame's bytes from the payload on; index 0 is the first byte of the frame. Incrementing octets from the
/// end of a UDP header on, as in the test frame of RFC 2544 appendix C.2.6.4.
pub(crate) static PATTERN: [u8; MAX_BYTES] = {
    let mut bytes = [0; MAX_BYTES];
    let mut i = UDP_END;
    while i < MAX_BYTES {
        bytes[i] = (i - UDP_END) as u8;
        i += 1;
    }
    bytes
};

/// What follows [`Frame::head`] in a frame of `len` bytes (without FCS); empty for the shortest.
#[inline]
#[must_use]
pub fn payload(len: u16) -> &'static [u8] {
    PATTERN.get(HEAD_BYTES..usize::from(len)).unwrap_or_default()
}

/// The first bytes of a frame, on one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Head(pub [u8; HEAD_BYTES]);

const _: () = assert!(size_of::<Head>() == HEAD_BYTES && align_of::<Head>() == HEAD_BYTES);

/// One frame of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The first 64 bytes. A frame of 60 bytes ends before the last four, which are payload nobody sees.
    pub head: &'a Head,
    /// The bytes from the 64th on that differ from [`payload`]: the rest of headers that are longer (TCP over IPv6). Empty
    /// for most.
    pub more: &'a [u8],
    /// Length in bytes without FCS: 60 to 9018.
    pub len: u16,
    /// The flow's number, from 0.
    pub flow: u32,
    /// The flow's hash, as `chainline_packet` gives it for these bytes.
    pub flow_hash: u32,
}

impl Frame<'_> {
    /// Writes the whole frame to the start of `buf`; `None`, and nothing written, if it does not fit.
    #[must_use]
    pub fn write(&self, buf: &mut [u8]) -> Option<usize> {
        let len = usize::from(self.len);
        let buf = buf.get_mut(..len)?;
        let head = len.min(HEAD_BYTES);
        buf[..head].copy_from_slice(&self.head.0[..head]);
        buf[head..].copy_from_slice(payload(self.len));
        if let Some(more) = buf.get_mut(HEAD_BYTES..HEAD_BYTES + self.more.len()) {
            more.copy_from_slice(self.more);
        }
        Some(len)
    }
}

/// All that plain frames of one size and any flow have in common.
#[derive(Clone, Debug)]
pub(crate) struct SizeClass {
    /// Length in bytes without FCS.
    pub(crate) len: u16,
    /// A frame of flow 0.0.0.0:0 → 0.0.0.0:0 with checksums of zero.
    base: Head,
    /// Sums of 16-bit words (RFC 1071) without addresses and ports.
    ip_sum: u32,
    l4_sum: u32,
    proto: Proto,
}

impl SizeClass {
    pub(crate) fn new(frame_bytes: u16, proto: Proto, src_mac: [u8; 6], dst_mac: [u8; 6]) -> Self {
        let len = frame_bytes - FCS_BYTES as u16;
        let ip_len = len - IP as u16;
        let l4_len = len - L4 as u16;
        let mut base = [0; HEAD_BYTES];
        base.copy_from_slice(&PATTERN[..HEAD_BYTES]);
        base[..6].copy_from_slice(&dst_mac);
        base[6..12].copy_from_slice(&src_mac);
        base[12..14].copy_from_slice(&[0x08, 0x00]);
        base[IP] = 0x45;
        base[IP + 2..IP + 4].copy_from_slice(&ip_len.to_be_bytes());
        // Don't fragment, so that the identification may stay 0 (RFC 6864).
        base[IP + 6] = 0x40;
        base[IP + 8] = TTL;
        base[IP + 9] = proto.number();
        match proto {
            Proto::Udp => base[L4 + 4..L4 + 6].copy_from_slice(&l4_len.to_be_bytes()),
            // Sequence and acknowledgement number 0, five words of header, ACK, the largest window (RFC 9293).
            Proto::Tcp => {
                base[L4 + 4..TCP_END].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0])
            }
        }
        // The upper header without ports, the payload, and the pseudo-header's length and protocol (RFC 768, 9293).
        let split = usize::from(len).min(HEAD_BYTES);
        let rest = PATTERN.get(HEAD_BYTES..usize::from(len)).unwrap_or_default();
        let l4_sum = sum(&base[L4..split]) + sum(rest) + u32::from(l4_len) + u32::from(proto.number());
        Self { len, ip_sum: sum(&base[IP..L4]), l4_sum: u32::from(fold(l4_sum)), base: Head(base), proto }
    }

    /// The same with zeros at the end, where a stamp goes.
    pub(crate) fn stamped(mut self) -> Self {
        let end = usize::from(self.len);
        let place = stamp_at(end)..stamp_at(end) + STAMP_BYTES;
        // Taken off in ones' complement; the place begins at an even offset, as words do.
        let there = PATTERN.get(place.clone()).map_or(0, sum);
        self.l4_sum = u32::from(fold(self.l4_sum + u32::from(!fold(there))));
        place.filter(|at| *at < HEAD_BYTES).for_each(|at| self.base.0[at] = 0);
        self
    }

    /// Writes the head of a frame of `flow`.
    #[inline]
    pub(crate) fn write_head(&self, flow: Ends, head: &mut Head) {
        *head = self.base;
        let addresses = flow.address_sum();
        let ports = u32::from(flow.src_port) + u32::from(flow.dst_port);
        let l4_checksum = !fold(self.l4_sum + addresses + ports);
        let h = &mut head.0;
        h[IP + 10..IP + 12].copy_from_slice(&(!fold(self.ip_sum + addresses)).to_be_bytes());
        h[IP + 12..IP + 16].copy_from_slice(&flow.src.to_be_bytes());
        h[IP + 16..IP + 20].copy_from_slice(&flow.dst.to_be_bytes());
        h[L4..L4 + 2].copy_from_slice(&flow.src_port.to_be_bytes());
        h[L4 + 2..L4 + 4].copy_from_slice(&flow.dst_port.to_be_bytes());
        match self.proto {
            // RFC 768: 0 means "no checksum", so a computed 0 is sent as its other form.
            Proto::Udp => {
                let checksum = if l4_checksum == 0 { 0xffff } else { l4_checksum };
                h[L4 + 6..L4 + 8].copy_from_slice(&checksum.to_be_bytes());
            }
            Proto::Tcp => h[L4 + 16..L4 + 18].copy_from_slice(&l4_checksum.to_be_bytes()),
        }
    }
}

/// Sum of big-endian 16-bit words; an odd last byte is the upper half of a word (RFC 1071).
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    let mut words = bytes.chunks_exact(2);
    let whole: u32 = words.by_ref().map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    whole + words.remainder().first().map_or(0, |&b| u32::from(b) << 8)
}

/// A sum of up to 65,537 words as one word, carries added back in.
#[inline]
pub(crate) const fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MACS: ([u8; 6], [u8; 6]) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

    fn frame_of(frame_bytes: u16, proto: Proto, flow: Ends) -> Vec<u8> {
        let class = SizeClass::new(frame_bytes, proto, MACS.0, MACS.1);
        let mut head = Head([0; HEAD_BYTES]);
        class.write_head(flow, &mut head);
        let mut buf = vec![0; 9100];
        let len = Frame { head: &head, more: &[], len: class.len, flow: 0, flow_hash: 0 }.write(&mut buf).unwrap();
        buf.truncate(len);
        buf
    }

    proptest! {
        /// The oracle is a checksum over the finished bytes: a right one makes the sum all ones.
        #[test]
        fn checksums_are_right_at_every_length(
            frame_bytes in 64_u16..=9022, src: u32, dst: u32, src_port: u16, dst_port: u16, tcp: bool
        ) {
            let proto = if tcp { Proto::Tcp } else { Proto::Udp };
            let bytes = frame_of(frame_bytes, proto, Ends { src, dst, src_port, dst_port });
            prop_assert_eq!(bytes.len(), usize::from(frame_bytes) - 4);
            prop_assert_eq!(fold(sum(&bytes[IP..L4])), 0xffff, "IPv4");
            let pseudo = sum(&bytes[IP + 12..L4]) + u32::from(proto.number()) + (bytes.len() - L4) as u32;
            prop_assert_eq!(fold(u32::from(fold(sum(&bytes[L4..]))) + pseudo), 0xffff, "{:?}", proto);
            prop_assert!(tcp || bytes[L4 + 6..L4 + 8] != [0, 0], "no checksum");
        }
    }

    #[test]
    fn a_udp_checksum_of_zero_is_sent_as_all_ones() {
        // One of the 65,536 source ports makes the sum 0xffff.
        let all_ones = (0..=u16::MAX)
            .filter(|&src_port| {
                let bytes = frame_of(64, Proto::Udp, Ends { src: 1, dst: 2, src_port, dst_port: 0 });
                bytes[L4 + 6..L4 + 8] == [0xff, 0xff]
            })
            .count();
        assert_eq!(all_ones, 1);
    }

    #[test]
    fn a_frame_that_does_not_fit_is_not_written() {
        let head = Head([1; HEAD_BYTES]);
        let mut buf = [0; 99];
        assert_eq!(Frame { head: &head, more: &[], len: 100, flow: 0, flow_hash: 0 }.write(&mut buf), None);
        assert_eq!(buf, [0; 99]);
    }
}
