//! Ethernet II, IEEE 802.1Q tags, ARP.

use crate::bytes::{array, part};

/// Bytes of an Ethernet header without tags.
pub const HEADER_LEN: usize = 14;
/// Bytes of a VLAN tag.
pub const TAG_LEN: usize = 4;
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of a customer VLAN tag (IEEE 802.1Q).
pub const VLAN: u16 = 0x8100;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherType of a service VLAN tag (IEEE 802.1ad, "QinQ").
pub const QINQ: u16 = 0x88a8;
/// The VLAN id in a tag's control information.
pub const VLAN_ID_MASK: u16 = 0x0fff;

/// Whether an EtherType announces a VLAN tag.
#[inline]
#[must_use]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, VLAN | QINQ)
}

/// A hardware address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

/// Why a text is no hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacError;

impl std::fmt::Display for MacError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("expected a hardware address like 02:00:00:00:00:01")
    }
}

impl std::error::Error for MacError {}

impl std::str::FromStr for Mac {
    type Err = MacError;

    /// Six pairs of hexadecimal digits, joined by `:` or by `-`.
    fn from_str(text: &str) -> Result<Self, MacError> {
        let bytes: &[u8; 17] = text.as_bytes().try_into().map_err(|_| MacError)?;
        let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8).ok_or(MacError);
        let separator = bytes[2];
        if !matches!(separator, b':' | b'-') || (2..17).step_by(3).any(|i| bytes[i] != separator) {
            return Err(MacError);
        }
        let mut mac = [0; 6];
        for (i, octet) in mac.iter_mut().enumerate() {
            *octet = digit(bytes[i * 3])? << 4 | digit(bytes[i * 3 + 1])?;
        }
        Ok(Self(mac))
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl std::fmt::Debug for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A view of an Ethernet header.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Ethernet<'a> {
    /// The header at the start of `frame`; `None` if it is shorter.
    #[inline]
    #[must_use]
    pub fn new(frame: &'a [u8]) -> Option<Self> {
        array(frame, 0).map(Self)
    }
    /// Destination address.
    #[must_use]
    pub fn dst(&self) -> Mac {
        Mac(part(self.0, 0))
    }
    /// Source address.
    #[must_use]
    pub fn src(&self) -> Mac {
        Mac(part(self.0, 6))
    }
    /// EtherType, or the length if it is under 0x0600.
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        u16::from_be_bytes(part(self.0, 12))
    }
}

/// Swaps destination and source address; `false`, and no change, if the frame has no whole Ethernet header.
#[inline]
#[must_use]
pub fn swap_addresses(frame: &mut [u8]) -> bool {
    let Some(head) = frame.first_chunk_mut::<HEADER_LEN>() else { return false };
    let (dst, src): ([u8; 6], [u8; 6]) = (part(head, 0), part(head, 6));
    head[..6].copy_from_slice(&src);
    head[6..12].copy_from_slice(&dst);
    true
}

/// A view of an ARP packet for IPv4 over Ethernet (RFC 826).
#[derive(Clone, Copy, Debug)]
pub struct Arp<'a>(&'a [u8; 28]);

impl<'a> Arp<'a> {
    /// The packet at the start of `data` (behind the Ethernet header); `None` if it is shorter or for other
    /// hardware or protocol than Ethernet and IPv4.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Option<Self> {
        let packet: &[u8; 28] = array(data, 0)?;
        (packet[..6] == [0, 1, 8, 0, 6, 4]).then_some(Self(packet))
    }
    /// 1 is a request, 2 a reply.
    #[must_use]
    pub fn operation(&self) -> u16 {
        u16::from_be_bytes(part(self.0, 6))
    }
    /// Sender's hardware address.
    #[must_use]
    pub fn sender_mac(&self) -> Mac {
        Mac(part(self.0, 8))
    }
    /// Sender's IPv4 address.
    #[must_use]
    pub fn sender_ip(&self) -> [u8; 4] {
        part(self.0, 14)
    }
    /// Target's hardware address.
    #[must_use]
    pub fn target_mac(&self) -> Mac {
        Mac(part(self.0, 18))
    }
    /// Target's IPv4 address.
    #[must_use]
    pub fn target_ip(&self) -> [u8; 4] {
        part(self.0, 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_is_read_as_it_is_written() {
        let mac: Mac = "02:00:5e:10:00:ff".parse().unwrap();
        assert_eq!(mac, Mac([2, 0, 0x5e, 0x10, 0, 0xff]));
        assert_eq!(mac.to_string(), "02:00:5e:10:00:ff");
        assert_eq!("02-00-5E-10-00-FF".parse(), Ok(mac));
        for wrong in
            ["", "02:00:5e:10:00", "02:00:5e:10:00:fg", "02:00-5e:10:00:ff", "+2:00:5e:10:00:ff", "é2:00:5e:10:00:f"]
        {
            assert_eq!(wrong.parse::<Mac>(), Err(MacError), "{wrong}");
        }
    }

    #[test]
    fn swapping_twice_changes_nothing_and_runts_stay() {
        let frame: Vec<u8> = (0..20).collect();
        let mut swapped = frame.clone();
        assert!(swap_addresses(&mut swapped));
        assert_eq!(swapped[..12], [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]);
        assert!(swap_addresses(&mut swapped));
        assert_eq!(swapped, frame);
        assert!(!swap_addresses(&mut swapped[..13]));
        assert_eq!(swapped, frame);
    }

    #[test]
    fn arp_request_is_read() {
        let mut packet = [0; 28];
        packet[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
        packet[14..18].copy_from_slice(&[10, 0, 0, 1]);
        packet[24..28].copy_from_slice(&[10, 0, 0, 2]);
        let arp = Arp::new(&packet).unwrap();
        assert_eq!((arp.operation(), arp.sender_ip(), arp.target_ip()), (1, [10, 0, 0, 1], [10, 0, 0, 2]));
        assert_eq!((arp.sender_mac(), arp.target_mac()), (Mac::default(), Mac::default()));
        packet[1] = 6;
        assert!(Arp::new(&packet).is_none());
    }
}
