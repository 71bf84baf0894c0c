//! Arguments.

use crate::pcapng::block_bytes;
use chainline_nf::Error;
use chainline_nf::storage::MAX_BATCH_BYTES;
use std::net::IpAddr;

/// The longest frame that a buffer holds.
pub const MAX_FRAME: u32 = 9018;

/// `args:` of a `logger`.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file, relative to the chain file. What is there stays; a new section begins behind it.
    pub file: String,
    /// Which packets; absent: all.
    #[serde(default, rename = "match")]
    pub matches: Match,
    /// Bytes that are kept of each frame, from its start.
    #[serde(default = "snaplen")]
    pub snaplen: u32,
    /// Size of each of the two buffers: what is written at once at most.
    #[serde(default = "batch_bytes")]
    pub batch_bytes: u32,
    /// Milliseconds after which a buffer is written though it is not full; 0: as soon as the one before is.
    #[serde(default = "flush_ms")]
    pub flush_ms: u32,
    /// The file begins anew when it would become longer than so many bytes; absent: it grows for ever.
    pub max_bytes: Option<u64>,
    /// What packets wait for.
    #[serde(default)]
    pub sync: Sync,
    /// Whether the NF goes on while a buffer is written.
    #[serde(default)]
    pub write: Write,
    /// What becomes of a packet that could not be written.
    #[serde(default)]
    pub on_error: OnError,
}

/// What packets wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// Nothing; the kernel puts the file on disk when it finds the time.
    #[default]
    None,
    /// Nothing; each batch is on disk before the next one is written.
    Async,
    /// Each packet waits until it is on disk.
    Hold,
}

/// Whether the NF goes on while a buffer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Write {
    /// It does, with the other buffer.
    #[default]
    Async,
    /// It stands still, as a program does that calls `write`: there to be compared with.
    Blocking,
}

/// What becomes of a packet that could not be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It goes on.
    #[default]
    Pass,
    /// It is dropped as `not_logged`; with `sync: hold` only, as it is gone otherwise.
    Drop,
}

/// Which packets: all that is set must hold.
#[derive(Clone, Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// `tcp`, `udp`, `icmp`, `icmp6` or `sctp`.
    pub proto: Option<Proto>,
    /// Source or destination is in this prefix: `10.0.0.0/8`, `2001:db8::/32`.
    pub net: Option<String>,
    /// Source or destination port is one of these.
    pub ports: Option<Vec<u16>>,
}

/// An upper layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Proto {
    Icmp = 1,
    Tcp = 6,
    Udp = 17,
    Icmp6 = 58,
    Sctp = 132,
}

fn snaplen() -> u32 {
    MAX_FRAME
}

fn batch_bytes() -> u32 {
    256 << 10
}

fn flush_ms() -> u32 {
    10
}

impl Args {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.file.is_empty() {
            return Err(Error::Args("args.file: found nothing, expected the path of a file".into()));
        }
        if !(1..=MAX_FRAME).contains(&self.snaplen) {
            return Err(Error::Args(format!("args.snaplen: found {}, expected 1 to {MAX_FRAME}", self.snaplen)));
        }
        let least = block_bytes(self.snaplen);
        if !(least..=MAX_BATCH_BYTES).contains(&self.batch_bytes) {
            return Err(Error::Args(format!(
                "args.batch_bytes: found {}, expected {least} (a packet of {} bytes) to {MAX_BATCH_BYTES}",
                self.batch_bytes, self.snaplen
            )));
        }
        // The heads of sections have less than 256 bytes.
        let least = u64::from(self.batch_bytes) + 256;
        if let Some(found) = self.max_bytes.filter(|found| *found < least) {
            return Err(Error::Args(format!(
                "args.max_bytes: found {found}, expected at least {least}: a buffer and the head of a section"
            )));
        }
        if self.on_error == OnError::Drop && self.sync != Sync::Hold {
            return Err(Error::Args("args.on_error: found drop, expected it with `sync: hold` only".into()));
        }
        Ok(())
    }
}

/// [`Match`] as the packets meet it.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    proto: Option<u8>,
    /// Address as in a tuple, mask, version.
    net: Option<(u128, u128, u8)>,
    ports: Option<Vec<u16>>,
}

impl Filter {
    pub fn new(m: &Match) -> Result<Option<Self>, Error> {
        let net = m.net.as_deref().map(prefix).transpose()?;
        let mut ports = m.ports.clone();
        if let Some(ports) = &mut ports {
            ports.sort_unstable();
            if ports.is_empty() {
                return Err(Error::Args("args.match.ports: found an empty list, expected at least one port".into()));
            }
        }
        let filter = Self { proto: m.proto.map(|p| p as u8), net, ports };
        Ok((filter.proto.is_some() || filter.net.is_some() || filter.ports.is_some()).then_some(filter))
    }

    #[inline]
    pub fn takes(&self, frame: &[u8]) -> bool {
        let t = chainline_packet::parse(frame).tuple;
        let is_in = |address: [u8; 16], (net, mask, version): (u128, u128, u8)| {
            t.version() == version && u128::from_be_bytes(address) & mask == net
        };
        t.is_ip()
            && self.proto.is_none_or(|p| t.proto() == p)
            && self.net.is_none_or(|n| is_in(t.src_bytes(), n) || is_in(t.dst_bytes(), n))
            && self.ports.as_ref().is_none_or(|ports| {
                matches!(t.proto(), 6 | 17 | 132)
                    && (ports.binary_search(&t.src_port()).is_ok() || ports.binary_search(&t.dst_port()).is_ok())
            })
    }
}

fn prefix(text: &str) -> Result<(u128, u128, u8), Error> {
    let wrong = |why: &str| Error::Args(format!("args.match.net: found {text:?}, {why}"));
    let form = "expected an address and a length, such as 10.0.0.0/8";
    let (address, len) = text.split_once('/').ok_or_else(|| wrong(form))?;
    let address: IpAddr = address.parse().map_err(|_| wrong(form))?;
    let len: u32 = len.parse().map_err(|_| wrong(form))?;
    // An IPv4 address is in the first four bytes.
    let (bits, width, version) = match address {
        IpAddr::V4(a) => (u128::from(a.to_bits()) << 96, 32, 4),
        IpAddr::V6(a) => (a.to_bits(), 128, 6),
    };
    if len > width {
        return Err(wrong(&format!("expected a length of at most {width}")));
    }
    let mask = if len == 0 { 0 } else { u128::MAX << (128 - len) };
    if bits & !mask != 0 {
        return Err(wrong("expected no bits behind the length"));
    }
    Ok((bits, mask, version))
}
