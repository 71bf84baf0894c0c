//! IPv6 (RFC 8200) and its extension headers.

use crate::bytes::{array, part};
use crate::{Malformed, proto};

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;

/// Extension headers that are followed. RFC 8200 §4.1 knows of seven in one packet (destination options may come
/// twice); a longer chain is an attempt to keep somebody busy or blind.
pub const MAX_EXTENSIONS: usize = 8;

/// A view of the fixed header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Ipv6<'a> {
    /// The header at the start of `data`; `None` if it is not whole or not version 6.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Option<Self> {
        let head: &[u8; HEADER_LEN] = array(data, 0)?;
        (head[0] >> 4 == 6).then_some(Self(head))
    }
    /// Traffic class: differentiated services code point and ECN bits.
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        (u16::from_be_bytes(part(self.0, 0)) >> 4) as u8
    }
    /// Flow label, 20 bits.
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes(part(self.0, 0)) & 0x000f_ffff
    }
    /// Bytes behind the fixed header, as it says of itself.
    #[must_use]
    pub fn payload_length(&self) -> u16 {
        u16::from_be_bytes(part(self.0, 4))
    }
    /// Protocol of the first header behind this one.
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.0[6]
    }
    /// Hop limit.
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.0[7]
    }
    /// Source address.
    #[must_use]
    pub fn src(&self) -> [u8; 16] {
        part(self.0, 8)
    }
    /// Destination address: the next stop, if there is a routing header.
    #[must_use]
    pub fn dst(&self) -> [u8; 16] {
        part(self.0, 24)
    }
}

/// What lies behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// Protocol of the upper layer; in a later fragment, of what the fragment header announces.
    pub proto: u8,
    /// Where the upper layer starts in the data that were given.
    pub offset: usize,
    /// Offset of this fragment in bytes; 0 without a fragment header.
    pub fragment_offset: usize,
    /// Whether more fragments follow.
    pub more_fragments: bool,
    /// Where the fragment's part of the datagram starts; 0 without a fragment header.
    pub fragment_part: usize,
}

/// Follows the extension headers from `offset` in `data`, which ends where the datagram ends. `next` is the
/// protocol of the header at `offset`.
///
/// # Errors
/// [`Malformed::Extensions`] if they run over the end or there are more than [`MAX_EXTENSIONS`].
pub fn upper_layer(data: &[u8], mut offset: usize, mut next: u8) -> Result<Upper, Malformed> {
    let mut upper = Upper { proto: next, offset, fragment_offset: 0, more_fragments: false, fragment_part: 0 };
    for _ in 0..=MAX_EXTENSIONS {
        let units = match next {
            // Lengths in 8 bytes without the first 8, RFC 8200 §4.2; AH in 4 bytes without 8, RFC 4302 §2.2.
            proto::HOP_BY_HOP | proto::ROUTING | proto::DEST_OPTS => 8,
            proto::AH => 4,
            proto::FRAGMENT => 0,
            _ => return Ok(Upper { proto: next, offset, ..upper }),
        };
        let head: [u8; 8] = *array(data, offset).ok_or(Malformed::Extensions)?;
        next = head[0];
        offset += 8 + usize::from(head[1]) * units;
        if offset > data.len() {
            return Err(Malformed::Extensions);
        }
        if units == 0 {
            let field = u16::from_be_bytes(part(&head, 2));
            upper.fragment_offset = usize::from(field & 0xfff8);
            upper.more_fragments = field & 1 != 0;
            upper.fragment_part = offset;
            if upper.fragment_offset != 0 {
                return Ok(Upper { proto: next, offset, ..upper });
            }
        }
    }
    Err(Malformed::Extensions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_rfc_8200_puts_them() {
        let mut data = [0; 40];
        data[..8].copy_from_slice(&[0x6a, 0xb1, 0x23, 0x45, 0, 8, 17, 64]);
        data[23] = 1;
        data[39] = 2;
        let ip = Ipv6::new(&data).unwrap();
        assert_eq!((ip.traffic_class(), ip.flow_label(), ip.payload_length()), (0xab, 0x12345, 8));
        assert_eq!((ip.next_header(), ip.hop_limit(), ip.src()[15], ip.dst()[15]), (17, 64, 1, 2));
        assert!(Ipv6::new(&data[..39]).is_none());
        data[0] = 0x4a;
        assert!(Ipv6::new(&data).is_none());
    }

    #[test]
    fn extension_headers_are_followed_to_the_upper_layer() {
        // Hop-by-hop (8), routing (16), AH (12+... of 4-byte units), destination options (8), TCP.
        let mut data = vec![0; 60];
        data[0] = proto::ROUTING;
        (data[8], data[9]) = (proto::AH, 1);
        (data[24], data[25]) = (proto::DEST_OPTS, 4);
        data[48] = proto::TCP;
        let upper = upper_layer(&data, 0, proto::HOP_BY_HOP).unwrap();
        assert_eq!((upper.proto, upper.offset), (proto::TCP, 56));
        for end in 0..56 {
            assert_eq!(upper_layer(&data[..end], 0, proto::HOP_BY_HOP), Err(Malformed::Extensions), "{end}");
        }
    }

    #[test]
    fn a_chain_without_end_is_given_up() {
        let chain = |n: usize| {
            let mut data = vec![0; n * 8];
            data.chunks_exact_mut(8).for_each(|h| h[0] = proto::DEST_OPTS);
            data[(n - 1) * 8] = proto::UDP;
            upper_layer(&data, 0, proto::DEST_OPTS).map(|u| u.proto)
        };
        assert_eq!(chain(MAX_EXTENSIONS), Ok(proto::UDP));
        assert_eq!(chain(MAX_EXTENSIONS + 1), Err(Malformed::Extensions));
    }

    #[test]
    fn later_fragment_ends_the_walk() {
        let data = [proto::DEST_OPTS, 0, 0x05, 0xa9, 0, 0, 0, 1];
        let upper = upper_layer(&data, 0, proto::FRAGMENT).unwrap();
        assert_eq!(upper.fragment_offset, 0x5a8);
        assert!(upper.more_fragments);
        assert_eq!(upper.proto, proto::DEST_OPTS);
    }
}
