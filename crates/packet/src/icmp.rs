//! What ICMP errors (RFC 792) and ICMPv6 errors (RFC 4443 §3) quote of the packet that they tell of.

use crate::{FiveTuple, Layers, ipv6, proto};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Echo request and reply, in ICMP and in ICMPv6.
pub mod echo {
    /// ICMP's request.
    pub const REQUEST: u8 = 8;
    /// ICMP's reply.
    pub const REPLY: u8 = 0;
    /// ICMPv6's request.
    pub const REQUEST_V6: u8 = 128;
    /// ICMPv6's reply.
    pub const REPLY_V6: u8 = 129;
}

/// The packet that an error tells of.
#[derive(Clone, Copy, Debug)]
pub struct Quoted {
    /// Its flow; ports are 0 in protocols that have none.
    pub flow: FiveTuple,
    /// Where its IP header starts in the frame.
    pub l3: usize,
    /// Where its upper layer starts.
    pub l4: usize,
}

/// Bytes of ICMP and ICMPv6 headers before the quoted packet.
const HEADER: usize = 8;

/// Whether the packet is an ICMP or ICMPv6 error: destination unreachable, source quench, packet too big, time exceeded,
/// parameter problem. Redirects are none of these.
#[must_use]
pub fn is_error(data: &[u8], layers: &Layers) -> bool {
    match (layers.tuple.proto(), data.get(usize::from(layers.l4))) {
        (proto::ICMP, Some(kind)) => matches!(kind, 3 | 4 | 11 | 12),
        (proto::ICMPV6, Some(kind)) => matches!(kind, 1..=4),
        _ => false,
    }
}

/// What an error quotes; `None` if the packet is no error, or does not quote what tells the flow: the IP header, and of
/// TCP, UDP, UDP-Lite and SCTP the ports. No checksum is looked at.
#[must_use]
pub fn quoted(data: &[u8], layers: &Layers) -> Option<Quoted> {
    if !is_error(data, layers) {
        return None;
    }
    let data = data.get(..usize::from(layers.end))?;
    let l3 = usize::from(layers.l4) + HEADER;
    let v4 = layers.tuple.proto() == proto::ICMP;
    let (l4, upper) = if v4 {
        let head: &[u8; 20] = data.get(l3..)?.first_chunk()?;
        let later = u16::from_be_bytes([head[6], head[7]]) & 0x1fff != 0;
        if head[0] >> 4 != 4 || head[0] & 15 < 5 || later {
            return None;
        }
        (l3 + usize::from(head[0] & 15) * 4, head[9])
    } else {
        let head: &[u8; 40] = data.get(l3..)?.first_chunk()?;
        if head[0] >> 4 != 6 {
            return None;
        }
        let upper = ipv6::upper_layer(data, l3 + 40, head[6]).ok()?;
        if upper.fragment_offset != 0 {
            return None;
        }
        (upper.offset, upper.proto)
    };
    let (src_port, dst_port) = match upper {
        proto::TCP | proto::UDP | proto::UDP_LITE | proto::SCTP => {
            let p: &[u8; 4] = data.get(l4..)?.first_chunk()?;
            (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]]))
        }
        _ => (0, 0),
    };
    let flow = if v4 {
        let v4 = |at: usize| data.get(at..)?.first_chunk::<4>().map(|b| Ipv4Addr::from(*b));
        FiveTuple::v4(v4(l3 + 12)?, v4(l3 + 16)?, src_port, dst_port, upper)
    } else {
        let v6 = |at: usize| data.get(at..)?.first_chunk::<16>().map(|b| Ipv6Addr::from(*b));
        FiveTuple::v6(v6(l3 + 8)?, v6(l3 + 24)?, src_port, dst_port, upper)
    };
    Some(Quoted { flow, l3, l4 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// An error of `kind` in a frame that quotes `quote`.
    fn error(kind: u8, quote: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, (28 + quote.len()) as u8, 0, 0, 0, 0, 64, 1, 0, 0]);
        frame.extend([10, 0, 0, 9, 10, 0, 0, 1, kind, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend(quote);
        frame
    }

    #[test]
    fn the_quoted_flow_is_found_and_cut_quotes_are_not() {
        let mut quote = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 63, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        quote.extend([0x12, 0x34, 0, 53, 0, 8, 0, 0]);
        let frame = error(3, &quote);
        let flow = FiveTuple::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 0x1234, 53, 17);
        assert_eq!(quoted(&frame, &parse(&frame)).unwrap().flow, flow);
        for len in 0..24 {
            let frame = error(3, &quote[..len]);
            assert!(quoted(&frame, &parse(&frame)).is_none(), "{len}");
        }
        // An echo request and a redirect are no errors; a later fragment has no ports.
        for kind in [8, 5] {
            assert!(quoted(&error(kind, &quote), &parse(&error(kind, &quote))).is_none());
        }
        quote[7] = 1;
        assert!(quoted(&error(3, &quote), &parse(&error(3, &quote))).is_none());
    }
}
