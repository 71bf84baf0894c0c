//! TCP, UDP, SCTP, ICMP and ICMPv6 headers.

use crate::bytes::{array, part};

/// TCP's flags (RFC 9293 §3.1).
pub mod flags {
    /// The sender has nothing more to send.
    pub const FIN: u8 = 1;
    /// The sender's first sequence number.
    pub const SYN: u8 = 2;
    /// The connection is no more.
    pub const RST: u8 = 4;
    /// The acknowledgment number counts.
    pub const ACK: u8 = 16;
}

/// A view of a TCP header (RFC 9293 §3.1).
#[derive(Clone, Copy, Debug)]
pub struct Tcp<'a> {
    head: &'a [u8; 20],
    options: &'a [u8],
}

impl<'a> Tcp<'a> {
    /// The header at the start of `data`; `None` if it is not whole.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Option<Self> {
        let head: &[u8; 20] = array(data, 0)?;
        let options = data.get(20..usize::from(head[12] >> 4) * 4)?;
        Some(Self { head, options })
    }
    /// Source port.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        u16::from_be_bytes(part(self.head, 0))
    }
    /// Destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        u16::from_be_bytes(part(self.head, 2))
    }
    /// Sequence number.
    #[must_use]
    pub fn seq(&self) -> u32 {
        u32::from_be_bytes(part(self.head, 4))
    }
    /// Acknowledgment number.
    #[must_use]
    pub fn ack(&self) -> u32 {
        u32::from_be_bytes(part(self.head, 8))
    }
    /// CWR, ECE, URG, ACK, PSH, RST, SYN, FIN from the highest bit down.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.head[13]
    }
    /// Receive window, unscaled.
    #[must_use]
    pub fn window(&self) -> u16 {
        u16::from_be_bytes(part(self.head, 14))
    }
    /// Checksum over pseudo-header, header and payload.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes(part(self.head, 16))
    }
    /// The options, padded to a multiple of four bytes.
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        self.options
    }
}

/// A view of a UDP header (RFC 768).
#[derive(Clone, Copy, Debug)]
pub struct Udp<'a>(&'a [u8; 8]);

impl<'a> Udp<'a> {
    /// The header at the start of `data`; `None` if it is not whole.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Option<Self> {
        array(data, 0).map(Self)
    }
    /// Source port.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        u16::from_be_bytes(part(self.0, 0))
    }
    /// Destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        u16::from_be_bytes(part(self.0, 2))
    }
    /// Bytes of header and payload, as it says of itself.
    #[must_use]
    pub fn length(&self) -> u16 {
        u16::from_be_bytes(part(self.0, 4))
    }
    /// Checksum; 0 is "none" over IPv4.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes(part(self.0, 6))
    }
}

/// A view of an SCTP common header (RFC 9260 §3.1).
#[derive(Clone, Copy, Debug)]
pub struct Sctp<'a>(&'a [u8; 12]);

impl<'a> Sctp<'a> {
    /// The header at the start of `data`; `None` if it is not whole.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Option<Self> {
        array(data, 0).map(Self)
    }
    /// Source port.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        u16::from_be_bytes(part(self.0, 0))
    }
    /// Destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        u16::from_be_bytes(part(self.0, 2))
    }
    /// Verification tag.
    #[must_use]
    pub fn tag(&self) -> u32 {
        u32::from_be_bytes(part(self.0, 4))
    }
    /// CRC32c of the packet, not an Internet checksum.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        u32::from_be_bytes(part(self.0, 8))
    }
}

/// A view of what ICMP (RFC 792) and ICMPv6 (RFC 4443) messages have in common.
#[derive(Clone, Copy, Debug)]
pub struct Icmp<'a>(&'a [u8; 4]);

impl<'a> Icmp<'a> {
    /// The header at the start of `data`; `None` if it is not whole.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Option<Self> {
        array(data, 0).map(Self)
    }
    /// Type of message; the numbers of ICMP and ICMPv6 differ.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.0[0]
    }
    /// Code within the type.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.0[1]
    }
    /// Checksum: ICMPv6 covers a pseudo-header, ICMP does not.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes(part(self.0, 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_rfcs_put_them() {
        let mut data: Vec<u8> = (0..24).collect();
        data[12] = 0x60;
        let tcp = Tcp::new(&data).unwrap();
        assert_eq!((tcp.src_port(), tcp.dst_port(), tcp.seq(), tcp.ack()), (0x0001, 0x0203, 0x0405_0607, 0x0809_0a0b));
        assert_eq!((tcp.flags(), tcp.window(), tcp.checksum()), (13, 0x0e0f, 0x1011));
        assert_eq!(tcp.options(), &[20, 21, 22, 23]);
        assert!(Tcp::new(&data[..23]).is_none());
        data[12] = 0x40;
        assert!(Tcp::new(&data).is_none());
        let udp = Udp::new(&data).unwrap();
        assert_eq!((udp.src_port(), udp.dst_port(), udp.length(), udp.checksum()), (1, 0x0203, 0x0405, 0x0607));
        let sctp = Sctp::new(&data[..12]).unwrap();
        assert_eq!(
            (sctp.src_port(), sctp.dst_port(), sctp.tag(), sctp.checksum()),
            (1, 0x0203, 0x0405_0607, 0x0809_0a0b)
        );
        let icmp = Icmp::new(&data[..4]).unwrap();
        assert_eq!((icmp.kind(), icmp.code(), icmp.checksum()), (0, 1, 0x0203));
        assert!(Udp::new(&data[..7]).is_none() && Sctp::new(&data[..11]).is_none() && Icmp::new(&data[..3]).is_none());
    }
}
