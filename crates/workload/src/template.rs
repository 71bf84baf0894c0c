//! Frames of any shape: VLAN tags, IPv4 or IPv6, UDP or TCP, flows that begin and end.

use crate::flow::{Ends, Prefix, Proto};
use crate::frame::{FCS_BYTES, HEAD_BYTES, Head, IP, MIN_FRAME_BYTES, PATTERN, TTL, fold, sum};
use crate::lifetime::Segment;
use crate::stamp::{STAMP_BYTES, stamp_at};
use std::net::IpAddr;

/// VLAN identifiers, outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vlan {
    /// No tag.
    #[default]
    None,
    /// One tag (IEEE 802.1Q, EtherType 0x8100).
    One(
        /// The identifier, 0 to 4094.
        u16,
    ),
    /// A service tag (EtherType 0x88a8) and a customer tag within it: QinQ, IEEE 802.1ad.
    Two(
        /// The service tag's identifier.
        u16,
        /// The customer tag's.
        u16,
    ),
}

/// The largest VLAN identifier that a frame may carry (4095 is reserved).
pub const MAX_VLAN: u16 = 4094;

impl Vlan {
    /// EtherType and identifier of each tag.
    fn tags(self) -> Vec<(u16, u16)> {
        match self {
            Self::None => vec![],
            Self::One(id) => vec![(0x8100, id)],
            Self::Two(outer, inner) => vec![(0x88a8, outer), (0x8100, inner)],
        }
    }

    /// The largest identifier.
    pub(crate) fn largest(self) -> u16 {
        match self {
            Self::None => 0,
            Self::One(id) => id,
            Self::Two(outer, inner) => outer.max(inner),
        }
    }
}

/// What all frames of a workload have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) src_mac: [u8; 6],
    pub(crate) dst_mac: [u8; 6],
    pub(crate) vlan: Vlan,
    pub(crate) src: Prefix,
    pub(crate) dst: Prefix,
    pub(crate) proto: Proto,
    /// The last bytes are a stamp's.
    pub(crate) stamped: bool,
}

impl Shape {
    fn is_v6(&self) -> bool {
        self.src.addr.is_ipv6()
    }

    /// Where the IP header begins.
    pub(crate) fn l3(&self) -> usize {
        IP + 4 * self.vlan.tags().len()
    }

    /// Where the upper header begins.
    pub(crate) fn l4(&self) -> usize {
        self.l3() + if self.is_v6() { 40 } else { 20 }
    }

    /// Where the payload begins.
    pub(crate) fn payload(&self) -> usize {
        self.l4() + if self.proto == Proto::Tcp { 20 } else { 8 }
    }

    /// The shortest frame that has room for the headers, in bytes with FCS.
    pub(crate) fn min_frame_bytes(&self) -> u32 {
        // The payload begins at an even offset, as a stamp does.
        let stamp = if self.stamped { STAMP_BYTES as u32 } else { 0 };
        (self.payload() as u32 + stamp + FCS_BYTES).max(MIN_FRAME_BYTES)
    }
}

/// Bytes that a template writes: the longest headers (two tags, IPv6, TCP: 82 bytes) lie within two lines.
pub(crate) type Lines = [Head; 2];

/// All that frames of one size and any flow have in common.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// Length in bytes without FCS.
    pub(crate) len: u16,
    /// Payload bytes.
    pub(crate) payload: u16,
    /// How many bytes from the 64th on belong to headers: those of [`crate::Frame::more`].
    pub(crate) more: u8,
    base: [u8; 2 * HEAD_BYTES],
    l3: u8,
    l4: u8,
    v6: bool,
    tcp: bool,
    ip_sum: u32,
    l4_sum: u32,
}

impl Template {
    /// A frame with as much payload as it has room for.
    pub(crate) fn new(shape: &Shape, frame_bytes: u16) -> Self {
        let len = frame_bytes - FCS_BYTES as u16;
        Self::with_payload(shape, len, usize::from(len) - shape.payload())
    }

    /// The shortest frame, without payload: where there are bytes left they are Ethernet's padding.
    pub(crate) fn empty(shape: &Shape) -> Self {
        Self::with_payload(shape, (shape.min_frame_bytes() - FCS_BYTES) as u16, 0)
    }

    fn with_payload(shape: &Shape, len: u16, payload: usize) -> Self {
        let (l3, l4, start) = (shape.l3(), shape.l4(), shape.payload());
        let end = start + payload;
        let mut frame = PATTERN[..usize::from(len).max(2 * HEAD_BYTES)].to_vec();
        frame[..6].copy_from_slice(&shape.dst_mac);
        frame[6..12].copy_from_slice(&shape.src_mac);
        let mut at = 12;
        for (ethertype, id) in shape.vlan.tags() {
            frame[at..at + 2].copy_from_slice(&ethertype.to_be_bytes());
            frame[at + 2..at + 4].copy_from_slice(&id.to_be_bytes());
            at += 4;
        }
        frame[l3..start].fill(0);
        let l4_len = (end - l4) as u16;
        let proto = shape.proto.number();
        if shape.is_v6() {
            frame[at..at + 2].copy_from_slice(&[0x86, 0xdd]);
            frame[l3] = 0x60;
            frame[l3 + 4..l3 + 6].copy_from_slice(&l4_len.to_be_bytes());
            frame[l3 + 6] = proto;
            frame[l3 + 7] = TTL;
            for (prefix, at) in [(shape.src, l3 + 8), (shape.dst, l3 + 24)] {
                // The last 32 bits are the flow's.
                if let IpAddr::V6(a) = prefix.with_low(0) {
                    frame[at..at + 16].copy_from_slice(&a.octets());
                }
            }
        } else {
            frame[at..at + 2].copy_from_slice(&[0x08, 0x00]);
            frame[l3] = 0x45;
            frame[l3 + 2..l3 + 4].copy_from_slice(&((end - l3) as u16).to_be_bytes());
            // Don't fragment, so that the identification may stay 0 (RFC 6864).
            frame[l3 + 6] = 0x40;
            frame[l3 + 8] = TTL;
            frame[l3 + 9] = proto;
        }
        match shape.proto {
            Proto::Udp => frame[l4 + 4..l4 + 6].copy_from_slice(&l4_len.to_be_bytes()),
            // Five words of header; flags are the segment's; the largest window.
            Proto::Tcp => frame[l4 + 12..l4 + 16].copy_from_slice(&[0x50, 0, 0xff, 0xff]),
        }
        // Padding, if there is no payload: zeros (RFC 894).
        if payload == 0 {
            frame[start.min(usize::from(len))..usize::from(len)].fill(0);
        }
        if shape.stamped {
            frame[stamp_at(usize::from(len))..][..STAMP_BYTES].fill(0);
        }
        let addresses = if shape.is_v6() { sum(&frame[l3 + 8..l3 + 40]) } else { 0 };
        let l4_sum = sum(&frame[l4..end]) + addresses + u32::from(l4_len) + u32::from(proto);
        let mut base = [0; 2 * HEAD_BYTES];
        base.copy_from_slice(&frame[..2 * HEAD_BYTES]);
        Self {
            len,
            payload: payload as u16,
            more: start.saturating_sub(HEAD_BYTES) as u8,
            l3: l3 as u8,
            l4: l4 as u8,
            v6: shape.is_v6(),
            tcp: shape.proto == Proto::Tcp,
            ip_sum: sum(&base[l3..l4]),
            l4_sum: u32::from(fold(l4_sum)),
            base,
        }
    }

    /// Writes the headers of a frame of `flow`; without a segment it is one of an established connection whose numbers
    /// stand still.
    #[inline]
    pub(crate) fn write(&self, flow: Ends, segment: Option<Segment>, lines: &mut Lines) {
        let (l3, l4) = (usize::from(self.l3), usize::from(self.l4));
        let mut h = self.base;
        let addresses = flow.address_sum();
        let (src, dst) = if self.v6 { (l3 + 20, l3 + 36) } else { (l3 + 12, l3 + 16) };
        put(&mut h, src, flow.src.to_be_bytes());
        put(&mut h, dst, flow.dst.to_be_bytes());
        if !self.v6 {
            put(&mut h, l3 + 10, (!fold(self.ip_sum + addresses)).to_be_bytes());
        }
        put(&mut h, l4, flow.src_port.to_be_bytes());
        put(&mut h, l4 + 2, flow.dst_port.to_be_bytes());
        let sum = self.l4_sum + addresses + u32::from(flow.src_port) + u32::from(flow.dst_port);
        if self.tcp {
            let (seq, ack, flags) = match segment {
                None => (0, 0, 0x10),
                Some(Segment::Begin { seq }) => (seq, 0, 0x02),
                Some(Segment::Middle { seq, ack }) => (seq, ack, 0x10),
                Some(Segment::End { seq, ack }) => (seq, ack, 0x11),
            };
            put(&mut h, l4 + 4, seq.to_be_bytes());
            put(&mut h, l4 + 8, ack.to_be_bytes());
            put(&mut h, l4 + 13, [flags]);
            let numbers = (seq >> 16) + (seq & 0xffff) + (ack >> 16) + (ack & 0xffff);
            put(&mut h, l4 + 16, (!fold(sum + numbers + u32::from(flags))).to_be_bytes());
        } else {
            // RFC 768: 0 means "no checksum", so a computed 0 is sent as its other form.
            let checksum = !fold(sum);
            put(&mut h, l4 + 6, if checksum == 0 { 0xffff_u16 } else { checksum }.to_be_bytes());
        }
        lines[0].0.copy_from_slice(&h[..HEAD_BYTES]);
        lines[1].0.copy_from_slice(&h[HEAD_BYTES..]);
    }
}

/// Headers lie within the two lines, so this always fits.
#[inline(always)]
fn put<const N: usize>(h: &mut [u8; 2 * HEAD_BYTES], at: usize, bytes: [u8; N]) {
    if let Some(place) = h.get_mut(at..at + N) {
        place.copy_from_slice(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, MAX_FRAME_BYTES, SizeClass};
    use chainline_packet::{checksum, parse};
    use proptest::prelude::*;

    fn shape(v6: bool, vlan: Vlan, proto: Proto) -> Shape {
        let prefix = |n: u8| {
            let v6_addr = IpAddr::from([0x20, 1, 0xd, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, n, 0, 0, 0]);
            Prefix { addr: if v6 { v6_addr } else { IpAddr::from([n, 0, 0, 0]) }, len: if v6 { 104 } else { 8 } }
        };
        Shape {
            src_mac: [2, 0, 0, 0, 0, 1],
            dst_mac: [2, 0, 0, 0, 0, 2],
            vlan,
            src: prefix(10),
            dst: prefix(20),
            proto,
            stamped: false,
        }
    }

    fn bytes(template: &Template, flow: Ends, segment: Option<Segment>) -> Vec<u8> {
        let mut lines = [Head([0; HEAD_BYTES]); 2];
        template.write(flow, segment, &mut lines);
        let [head, second] = &lines;
        let more = &second.0[..usize::from(template.more)];
        let mut buf = vec![0; MAX_FRAME_BYTES as usize];
        let len = Frame { head, more, len: template.len, flow: 0, flow_hash: 0 }.write(&mut buf).unwrap();
        buf.truncate(len);
        buf
    }

    fn any_vlan() -> impl Strategy<Value = Vlan> {
        prop_oneof![
            Just(Vlan::None),
            (0_u16..=MAX_VLAN).prop_map(Vlan::One),
            (0_u16..=MAX_VLAN, 0_u16..=MAX_VLAN).prop_map(|(a, b)| Vlan::Two(a, b))
        ]
    }

    fn any_segment() -> impl Strategy<Value = Option<Segment>> {
        prop_oneof![
            Just(None),
            any::<u32>().prop_map(|seq| Some(Segment::Begin { seq })),
            any::<(u32, u32)>().prop_map(|(seq, ack)| Some(Segment::Middle { seq, ack })),
            any::<(u32, u32)>().prop_map(|(seq, ack)| Some(Segment::End { seq, ack })),
        ]
    }

    proptest! {
        /// Parsing finds what was asked for, and checksums over the finished bytes are right.
        #[test]
        fn frames_are_right_in_every_shape(
            v6: bool, tcp: bool, vlan in any_vlan(), segment in any_segment(), frame_bytes in 64_u16..=9022,
            src: u32, dst: u32, src_port: u16, dst_port: u16, empty: bool
        ) {
            let proto = if tcp { Proto::Tcp } else { Proto::Udp };
            let shape = shape(v6, vlan, proto);
            let frame_bytes = frame_bytes.max(shape.min_frame_bytes() as u16);
            let template = if empty { Template::empty(&shape) } else { Template::new(&shape, frame_bytes) };
            let flow = Ends { src, dst, src_port, dst_port };
            let frame = bytes(&template, flow, segment);
            let layers = parse(&frame);
            prop_assert_eq!(layers.malformed, None);
            prop_assert_eq!(usize::from(layers.tags), vlan.tags().len());
            for (tci, (_, id)) in layers.vlan_ids().iter().zip(vlan.tags()) {
                prop_assert_eq!(*tci, id);
            }
            prop_assert_eq!(layers.tuple.src(), Some(shape.src.with_low(src)));
            prop_assert_eq!(layers.tuple.dst(), Some(shape.dst.with_low(dst)));
            prop_assert_eq!((layers.tuple.src_port(), layers.tuple.dst_port()), (src_port, dst_port));
            prop_assert_eq!(layers.tuple.proto(), proto.number());
            let (l3, l4, end) = (usize::from(layers.l3), usize::from(layers.l4), usize::from(layers.end));
            prop_assert_eq!((l3, l4), (shape.l3(), shape.l4()));
            prop_assert_eq!(end, shape.payload() + usize::from(template.payload));
            if !empty {
                prop_assert_eq!(frame.len() + 4, usize::from(frame_bytes));
                prop_assert_eq!(end, frame.len());
            }
            let l4_len = (end - l4) as u32;
            let pseudo = if v6 {
                let part = |at: usize| -> &[u8; 16] { frame[at..at + 16].try_into().unwrap() };
                checksum::pseudo_ipv6(part(l3 + 8), part(l3 + 24), proto.number(), l4_len)
            } else {
                prop_assert_eq!(checksum::checksum(&frame[l3..l4]), 0);
                checksum::pseudo_ipv4(src.to_be_bytes(), dst.to_be_bytes(), proto.number(), l4_len as u16)
            };
            prop_assert_eq!(pseudo.bytes(&frame[l4..end]).checksum(), 0);
            prop_assert!(tcp || frame[l4 + 6..l4 + 8] != [0, 0], "no checksum");
        }

        /// Where the plain path can make a frame, both make the same.
        #[test]
        fn plain_frames_are_those_of_the_fast_path(tcp: bool, frame_bytes in 64_u16..=9022, src: u32, dst: u32, ports: (u16, u16)) {
            let shape = shape(false, Vlan::None, if tcp { Proto::Tcp } else { Proto::Udp });
            let flow = Ends { src, dst, src_port: ports.0, dst_port: ports.1 };
            let class = SizeClass::new(frame_bytes, shape.proto, shape.src_mac, shape.dst_mac);
            let mut head = Head([0; HEAD_BYTES]);
            class.write_head(flow, &mut head);
            let mut buf = vec![0; usize::from(class.len)];
            let _ = Frame { head: &head, more: &[], len: class.len, flow: 0, flow_hash: 0 }.write(&mut buf).unwrap();
            prop_assert_eq!(bytes(&Template::new(&shape, frame_bytes), flow, None), buf);
        }
    }
}
