//! Packet headers: one-pass parsing for the data path, views of single headers, checksums.
//!
//! [`parse`] copies what a classifier or an NF needs out of a frame into a [`Layers`] value; [`flow_hash`]
//! turns its [`FiveTuple`] into the hash that travels with the packet. Both are called for every received
//! packet, so the common case (untagged IPv4 without options, TCP or UDP) has a path of its own.
//! [`toeplitz`] is the hash of network cards, by which packets are dealt out to replicas.
//! The views in [`ether`], [`ipv4`], [`ipv6`] and [`l4`] show one header at a time to code that wants more of it.
//!
//! Invariants: no panic and no allocation on any input. A byte that decides about a length is read once: the
//! frame may lie in memory that somebody else is writing. Any thread may call; nothing is kept.
//!
//! Deliberately absent: tunnels (an inner packet is payload), MPLS, PPPoE, reassembly, payload protocols.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bytes;
pub mod checksum;
pub mod ecn;
pub mod ether;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod l4;
mod layers;
pub mod toeplitz;
mod tuple;

pub use layers::{Fragment, Layers, MAX_TAGS, Malformed, parse};
pub use tuple::{FiveTuple, flow_hash};

/// IP protocol numbers (IANA "Assigned Internet Protocol Numbers") that the project treats by name.
pub mod proto {
    /// IPv6 hop-by-hop options, RFC 8200 §4.3.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP, RFC 792.
    pub const ICMP: u8 = 1;
    /// TCP, RFC 9293.
    pub const TCP: u8 = 6;
    /// UDP, RFC 768.
    pub const UDP: u8 = 17;
    /// IPv6 routing header, RFC 8200 §4.4.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header, RFC 8200 §4.5.
    pub const FRAGMENT: u8 = 44;
    /// Encapsulating security payload, RFC 4303: what follows is hidden.
    pub const ESP: u8 = 50;
    /// Authentication header, RFC 4302.
    pub const AH: u8 = 51;
    /// ICMPv6, RFC 4443.
    pub const ICMPV6: u8 = 58;
    /// IPv6 "no next header", RFC 8200 §4.7.
    pub const NONE: u8 = 59;
    /// IPv6 destination options, RFC 8200 §4.6.
    pub const DEST_OPTS: u8 = 60;
    /// SCTP, RFC 9260.
    pub const SCTP: u8 = 132;
    /// UDP-Lite, RFC 3828: ports as in UDP.
    pub const UDP_LITE: u8 = 136;
}
