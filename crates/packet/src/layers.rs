//! One pass over the headers of a frame.

use crate::bytes::{array, be16, part};
use crate::tuple::FiveTuple;
use crate::{ether, ipv6, proto};

/// VLAN tags that [`parse`] steps over. A frame with more is not IP.
pub const MAX_TAGS: usize = 2;

/// Which part of a datagram a packet carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// All of it.
    #[default]
    Whole,
    /// The first fragment: it has the layer-4 header.
    First,
    /// A later one: no layer-4 header, ports are 0.
    Later,
}

/// What is wrong with a packet; the first fault from the outside in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// The frame ends within the Ethernet header.
    Ethernet,
    /// The frame ends within a VLAN tag.
    Vlan,
    /// The frame ends within the fixed IP header.
    IpHeader,
    /// EtherType and IP version disagree.
    IpVersion,
    /// IHL under 5 or beyond the datagram (RFC 1812 §5.2.2).
    Ihl,
    /// The datagram is shorter than its own header (RFC 1812 §5.2.2).
    TotalLength,
    /// The frame ends before the datagram does.
    Truncated,
    /// IPv6 extension headers run over the end, or there are more than [`ipv6::MAX_EXTENSIONS`].
    Extensions,
    /// A fragment that reaches beyond 65,535 bytes (the "ping of death").
    FragmentRange,
    /// The datagram ends within the layer-4 header (a "tiny fragment", RFC 1858 §3, is one case).
    L4Header,
    /// TCP data offset or UDP length that cannot be.
    L4Length,
}

impl Malformed {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Ethernet,
        Self::Vlan,
        Self::IpHeader,
        Self::IpVersion,
        Self::Ihl,
        Self::TotalLength,
        Self::Truncated,
        Self::Extensions,
        Self::FragmentRange,
        Self::L4Header,
        Self::L4Length,
    ];

    /// A name for counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "ethernet",
            Self::Vlan => "vlan",
            Self::IpHeader => "ip_header",
            Self::IpVersion => "ip_version",
            Self::Ihl => "ihl",
            Self::TotalLength => "total_length",
            Self::Truncated => "truncated",
            Self::Extensions => "extensions",
            Self::FragmentRange => "fragment_range",
            Self::L4Header => "l4_header",
            Self::L4Length => "l4_length",
        }
    }

    /// Whether the fault is in layer 4, so that a router need not care.
    #[must_use]
    pub const fn is_l4(self) -> bool {
        matches!(self, Self::L4Header | Self::L4Length)
    }
}

/// What [`parse`] found. Offsets are in bytes from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Addresses, ports, protocol. [`FiveTuple::NONE`] without a whole IP header; ports are 0 without a whole
    /// layer-4 header, in later fragments, and in protocols that have none.
    pub tuple: FiveTuple,
    /// Tag control information (priority, DEI, VLAN id) of the VLAN tags, outermost first; 0 where there is none.
    pub tci: [u16; MAX_TAGS],
    /// EtherType behind the VLAN tags; a value under 0x0600 is an IEEE 802.3 length.
    pub ethertype: u16,
    /// Where the layer-3 header starts.
    pub l3: u16,
    /// Where the upper layer starts; 0 where it is not in this packet (not IP, later fragment, malformed).
    pub l4: u16,
    /// Where the IP datagram ends, without Ethernet padding; the end of the frame if the packet is not IP or is cut.
    pub end: u16,
    /// Number of VLAN tags.
    pub tags: u8,
    /// Whether the packet is a fragment.
    pub fragment: Fragment,
    /// The first fault, if there is one. What lies outside of it is filled in.
    pub malformed: Option<Malformed>,
}

// One cache line: a burst of 32 is 2 KiB on the stack.
const _: () = assert!(size_of::<Layers>() <= 64);

impl Default for Layers {
    fn default() -> Self {
        Self {
            tuple: FiveTuple::NONE,
            tci: [0; MAX_TAGS],
            ethertype: 0,
            l3: 0,
            l4: 0,
            end: 0,
            tags: 0,
            fragment: Fragment::Whole,
            malformed: None,
        }
    }
}

impl Layers {
    /// VLAN ids, outermost first; 0 where there is no tag.
    #[inline]
    #[must_use]
    pub fn vlan_ids(&self) -> [u16; MAX_TAGS] {
        self.tci.map(|tci| tci & ether::VLAN_ID_MASK)
    }
}

/// EtherType 0x0800, version 4, IHL 5.
const ETHERTYPE_VERSION_IHL: u32 = 0x0008_0045;

/// Bytes that the fast path wants: Ethernet, IPv4 and TCP headers.
const FAST_LEN: usize = 14 + 20 + 20;

/// Parses a frame that starts with its Ethernet header. Never fails: see [`Layers::malformed`].
///
/// Bytes from 65,535 on are not looked at. IPv4 authentication headers are an upper layer; in IPv6, headers are
/// followed up to ESP, "no next header" or an upper layer.
///
/// Under 5 ns for untagged IPv4 with TCP or UDP, see `benches/parse.rs`.
#[inline]
#[must_use]
pub fn parse(data: &[u8]) -> Layers {
    match parse_fast(data) {
        Some(layers) => layers,
        None => parse_any(data),
    }
}

/// The common case: an untagged, unfragmented IPv4 packet without options, TCP or UDP, nothing wrong with it.
#[inline]
fn parse_fast(data: &[u8]) -> Option<Layers> {
    let head: &[u8; FAST_LEN] = data.first_chunk()?;
    let ethertype_version_ihl = u32::from_be_bytes(part(head, 12)) >> 8;
    let fragment_proto = u32::from_be_bytes(part(head, 20));
    let proto = fragment_proto as u8;
    let total = usize::from(u16::from_be_bytes(part(head, 16)));
    let end = 14 + total;
    if ethertype_version_ihl != ETHERTYPE_VERSION_IHL
        || fragment_proto & 0x3fff_0000 != 0
        || end > data.len().min(MAX_LEN)
    {
        return None;
    }
    let (min, ok) = match proto {
        proto::TCP => (40, (20..=total.wrapping_sub(20)).contains(&(usize::from(head[46] >> 4) * 4))),
        proto::UDP => (28, (8..=total.wrapping_sub(20)).contains(&usize::from(u16::from_be_bytes(part(head, 38))))),
        _ => return None,
    };
    (ok && total >= min).then(|| Layers {
        tuple: FiveTuple::v4_raw(part(head, 26), part(head, 30), part(head, 34), proto),
        tci: [0; MAX_TAGS],
        ethertype: ether::IPV4,
        l3: 14,
        l4: 34,
        end: end as u16,
        tags: 0,
        fragment: Fragment::Whole,
        malformed: None,
    })
}

/// Offsets are `u16`.
const MAX_LEN: usize = u16::MAX as usize;

/// Everything: the plain twin of [`parse_fast`].
#[cold]
#[inline(never)]
fn parse_any(data: &[u8]) -> Layers {
    let data = &data[..data.len().min(MAX_LEN)];
    let mut layers = Layers { end: data.len() as u16, ..Layers::default() };
    layers.malformed = walk(data, &mut layers).err();
    layers
}

fn walk(data: &[u8], layers: &mut Layers) -> Result<(), Malformed> {
    let mut ethertype = be16(data, 12).ok_or(Malformed::Ethernet)?;
    let mut l3 = ether::HEADER_LEN;
    while ether::is_tag(ethertype) && usize::from(layers.tags) < MAX_TAGS {
        let tag: &[u8; 4] = array(data, l3).ok_or(Malformed::Vlan)?;
        layers.tci[usize::from(layers.tags)] = u16::from_be_bytes(part(tag, 0));
        layers.tags += 1;
        ethertype = u16::from_be_bytes(part(tag, 2));
        l3 += ether::TAG_LEN;
    }
    layers.ethertype = ethertype;
    layers.l3 = l3 as u16;
    match ethertype {
        ether::IPV4 => walk_ipv4(data, l3, layers),
        ether::IPV6 => walk_ipv6(data, l3, layers),
        _ => Ok(()),
    }
}

fn walk_ipv4(data: &[u8], l3: usize, layers: &mut Layers) -> Result<(), Malformed> {
    let head: &[u8; 20] = array(data, l3).ok_or(Malformed::IpHeader)?;
    if head[0] >> 4 != 4 {
        return Err(Malformed::IpVersion);
    }
    let header_len = usize::from(head[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes(part(head, 2)));
    let (src, dst, proto) = (part(head, 12), part(head, 16), head[9]);
    if header_len < 20 {
        return Err(Malformed::Ihl);
    }
    if total < header_len {
        // Either of the two lies; 20 bytes decide which to blame.
        return Err(if total < 20 { Malformed::TotalLength } else { Malformed::Ihl });
    }
    if l3 + header_len > data.len() {
        return Err(Malformed::IpHeader);
    }
    layers.tuple = FiveTuple::v4_raw(src, dst, [0; 4], proto);
    let fragment = u16::from_be_bytes(part(head, 6));
    let offset = usize::from(fragment & 0x1fff) * 8;
    layers.fragment = fragment_kind(offset, fragment & 0x2000 != 0);
    if offset + (total - header_len) > MAX_LEN - header_len {
        return Err(Malformed::FragmentRange);
    }
    let end = l3 + total;
    let cut = end > data.len();
    if !cut {
        layers.end = end as u16;
    }
    let ports = match layers.fragment {
        Fragment::Later => Ok([0; 4]),
        _ => {
            layers.l4 = (l3 + header_len) as u16;
            l4(&data[..usize::from(layers.end)], l3 + header_len, proto, cut || layers.fragment == Fragment::First)
        }
    };
    finish(layers, ports, cut, |ports| FiveTuple::v4_raw(src, dst, ports, proto))
}

fn walk_ipv6(data: &[u8], l3: usize, layers: &mut Layers) -> Result<(), Malformed> {
    let head: &[u8; 40] = array(data, l3).ok_or(Malformed::IpHeader)?;
    if head[0] >> 4 != 6 {
        return Err(Malformed::IpVersion);
    }
    let (src, dst) = (part(head, 8), part(head, 24));
    let end = l3 + 40 + usize::from(u16::from_be_bytes(part(head, 4)));
    let cut = end > data.len();
    if !cut {
        layers.end = end as u16;
    }
    layers.tuple = FiveTuple::v6_raw(src, dst, [0; 4], head[6]);
    let datagram = &data[..usize::from(layers.end)];
    let upper = match ipv6::upper_layer(datagram, l3 + 40, head[6]) {
        Ok(upper) => upper,
        // In a cut packet the headers did not end: they were not there.
        Err(_) if cut => return Err(Malformed::Truncated),
        Err(fault) => return Err(fault),
    };
    layers.fragment = fragment_kind(upper.fragment_offset, upper.more_fragments);
    layers.tuple = FiveTuple::v6_raw(src, dst, [0; 4], upper.proto);
    let payload = end - l3 - 40;
    let before = upper.fragment_part.saturating_sub(l3 + 40);
    if layers.fragment != Fragment::Whole && upper.fragment_offset + payload.saturating_sub(before) > MAX_LEN {
        return Err(Malformed::FragmentRange);
    }
    let ports = match layers.fragment {
        Fragment::Later => Ok([0; 4]),
        _ => {
            layers.l4 = upper.offset as u16;
            l4(datagram, upper.offset, upper.proto, cut || layers.fragment == Fragment::First)
        }
    };
    finish(layers, ports, cut, |ports| FiveTuple::v6_raw(src, dst, ports, upper.proto))
}

/// A packet that the frame cuts short is [`Malformed::Truncated`], whatever layer 4 says of the rest.
fn finish(
    layers: &mut Layers,
    ports: Result<[u8; 4], Malformed>,
    cut: bool,
    tuple: impl FnOnce([u8; 4]) -> FiveTuple,
) -> Result<(), Malformed> {
    match ports {
        Ok(ports) => layers.tuple = tuple(ports),
        // A header that is not there has no offset.
        Err(Malformed::L4Header) => layers.l4 = 0,
        Err(_) => {}
    }
    if cut { Err(Malformed::Truncated) } else { ports.map(|_| ()) }
}

const fn fragment_kind(offset: usize, more: bool) -> Fragment {
    match (offset, more) {
        // An IPv6 "atomic fragment" (RFC 6946) is whole as well.
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    }
}

/// Checks the layer-4 header at `off` and returns the ports as they are in the packet. `partial`: more of the
/// datagram is elsewhere, so lengths may go beyond what is here.
fn l4(datagram: &[u8], off: usize, proto: u8, partial: bool) -> Result<[u8; 4], Malformed> {
    let have = datagram.len().saturating_sub(off);
    let (header_len, has_ports) = match proto {
        proto::TCP => (20, true),
        proto::UDP | proto::UDP_LITE => (8, true),
        proto::SCTP => (12, true),
        proto::ICMP => (8, false),
        proto::ICMPV6 => (4, false),
        _ => (0, false),
    };
    if have < header_len {
        return Err(Malformed::L4Header);
    }
    let head = &datagram[off.min(datagram.len())..];
    match proto {
        proto::TCP => {
            let data_offset = usize::from(head[12] >> 4) * 4;
            if data_offset < 20 || (data_offset > have && !partial) {
                return Err(Malformed::L4Length);
            }
        }
        proto::UDP => {
            let len = usize::from(u16::from_be_bytes(part(head, 4)));
            if len < 8 || (len > have && !partial) {
                return Err(Malformed::L4Length);
            }
        }
        _ => {}
    }
    Ok(if has_ports { part(head, 0) } else { [0; 4] })
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
