//! IPv4 (RFC 791).

use crate::bytes::{array, part};
use crate::checksum;

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;

/// A view of an IPv4 header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    head: &'a [u8; HEADER_LEN],
    options: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// The header at the start of `data`; `None` if it is not whole or not version 4.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Option<Self> {
        let head: &[u8; HEADER_LEN] = array(data, 0)?;
        let first = head[0];
        let options = data.get(HEADER_LEN..usize::from(first & 15) * 4)?;
        (first >> 4 == 4).then_some(Self { head, options })
    }
    /// Differentiated services code point and ECN bits.
    #[must_use]
    pub fn tos(&self) -> u8 {
        self.head[1]
    }
    /// Bytes of the datagram, header included, as it says of itself.
    #[must_use]
    pub fn total_length(&self) -> u16 {
        u16::from_be_bytes(part(self.head, 2))
    }
    /// Identification, the same in all fragments of a datagram.
    #[must_use]
    pub fn identification(&self) -> u16 {
        u16::from_be_bytes(part(self.head, 4))
    }
    /// "Don't fragment".
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        self.head[6] & 0x40 != 0
    }
    /// "More fragments".
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        self.head[6] & 0x20 != 0
    }
    /// Offset of this fragment in its datagram, in bytes.
    #[must_use]
    pub fn fragment_offset(&self) -> usize {
        usize::from(u16::from_be_bytes(part(self.head, 6)) & 0x1fff) * 8
    }
    /// Time to live, in hops.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.head[8]
    }
    /// Protocol of the payload, see [`crate::proto`].
    #[must_use]
    pub fn proto(&self) -> u8 {
        self.head[9]
    }
    /// Header checksum.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes(part(self.head, 10))
    }
    /// Source address.
    #[must_use]
    pub fn src(&self) -> [u8; 4] {
        part(self.head, 12)
    }
    /// Destination address.
    #[must_use]
    pub fn dst(&self) -> [u8; 4] {
        part(self.head, 16)
    }
    /// The options, padded to a multiple of four bytes.
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        self.options
    }
    /// Whether the header checksum is right, options included.
    #[must_use]
    pub fn checksum_ok(&self) -> bool {
        checksum::Sum::new().bytes(self.head).bytes(self.options).fold() == 0xffff
    }
}

/// Takes one from the TTL and puts the header checksum right (RFC 1141, RFC 1624); returns the new TTL.
/// `None`, and no change, if it is 0 or 1: the packet may go no further (RFC 1812 §5.3.1).
#[inline]
#[must_use]
pub fn decrement_ttl(head: &mut [u8; HEADER_LEN]) -> Option<u8> {
    let old = u16::from_be_bytes(part(head, 8));
    let ttl = (old >> 8) as u8;
    if ttl <= 1 {
        return None;
    }
    let new = old - 0x100;
    let sum = checksum::update(u16::from_be_bytes(part(head, 10)), old, new);
    head[8] = ttl - 1;
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(ttl - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_where_rfc_791_puts_them() {
        let mut data = vec![0x46, 0xb9, 0, 24, 0x12, 0x34, 0x60, 2, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 0];
        let sum = checksum::checksum(&data);
        data[10..12].copy_from_slice(&sum.to_be_bytes());
        let ip = Ipv4::new(&data).unwrap();
        assert_eq!((ip.tos(), ip.total_length(), ip.identification()), (0xb9, 24, 0x1234));
        assert_eq!((ip.dont_fragment(), ip.more_fragments(), ip.fragment_offset()), (true, true, 16));
        assert_eq!((ip.ttl(), ip.proto(), ip.checksum()), (64, 17, sum));
        assert_eq!((ip.src(), ip.dst(), ip.options()), ([10, 0, 0, 1], [10, 0, 0, 2], &[1, 1, 1, 0][..]));
        assert!(ip.checksum_ok());
        assert!(Ipv4::new(&data[..23]).is_none());
        data[0] = 0x44;
        assert!(Ipv4::new(&data).is_none());
        data[0] = 0x66;
        assert!(Ipv4::new(&data).is_none());
    }

    proptest! {
        #[test]
        fn ttl_goes_down_and_the_checksum_stays_right(mut head: [u8; 20]) {
            head[10..12].fill(0);
            let sum = checksum::checksum(&head);
            head[10..12].copy_from_slice(&sum.to_be_bytes());
            let before = head;
            match decrement_ttl(&mut head) {
                None => prop_assert!(before[8] <= 1 && head == before),
                Some(ttl) => {
                    prop_assert_eq!(ttl, before[8] - 1);
                    prop_assert_eq!(head[8], ttl);
                    prop_assert!(checksum::ipv4_header_ok(&head));
                }
            }
        }
    }
}
