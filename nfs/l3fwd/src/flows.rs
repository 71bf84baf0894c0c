//! Exact match: flows that have a next hop of their own, whatever the routes say.

use crate::config::{Args, Format};
use crate::routes::Hops;
use chainline_dpdk::tables::{Array, Hash, NONE};
use chainline_flowtable::{v4_key, v6_key};
use chainline_nf::words::{Fault, Word, Words};
use chainline_nf::{Error, MAX_BURST};
use chainline_packet::{FiveTuple, proto};
use chainline_routes::{digits, lines};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// A key of IPv4 flows, and of IPv6 flows.
pub(crate) type Key4 = [u8; 16];
pub(crate) type Key6 = [u8; 48];

/// The most flows of one IP version.
const MAX_FLOWS: usize = 1 << 26;

/// The destination in a key.
#[inline]
pub(crate) fn dst4(key: &Key4) -> u32 {
    let [_, _, _, _, a, b, c, d, ..] = *key;
    u32::from_be_bytes([a, b, c, d])
}

/// The same of IPv6.
#[inline]
pub(crate) fn dst6(key: &Key6) -> [u8; 16] {
    let mut dst = [0; 16];
    dst.copy_from_slice(&key[16..32]);
    dst
}

/// Flows as they were read, each with its next hop's number.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    v4: Vec<(Key4, u32)>,
    v6: Vec<(Key6, u32)>,
}

/// Where a flow was read, for messages.
#[derive(Clone, Copy)]
enum Place {
    /// A place in `flows_inline`.
    Inline(usize),
    /// A line of the file.
    Line(u32),
}

impl Flows {
    /// Reads the flows that the arguments name. `path` is where the file is, if there is one.
    pub fn read(args: &Args, path: Option<&Path>, hops: &mut Hops) -> Result<Self, Error> {
        let (mut flows, mut places) = (Self::default(), HashMap::new());
        let mut line = |text: &str, place: Place| {
            let mut words = lines::words(text);
            let Some(first) = words.next() else { return Ok(()) };
            let flow = flow(first, &mut words)?;
            let hop = hops.read(Format::Native, &mut words)?;
            lines::end(&mut words)?;
            if let Some(earlier) = places.insert(flow.to_bytes(), place) {
                let earlier = match earlier {
                    Place::Inline(i) => format!("flows_inline[{i}]"),
                    Place::Line(line) => format!("line {line}"),
                };
                return Err(first.fault(format!("the flow is there already, in {earlier}")));
            }
            flows.push(&flow, hop).map_err(|why| first.fault(why))
        };
        for (i, text) in args.flows_inline.iter().enumerate() {
            line(text, Place::Inline(i))
                .map_err(|f| Error::Args(format!("args.flows_inline[{i}]: column {}: {}", f.column, f.message)))?;
        }
        if let Some(path) = path {
            lines::read_file(path, "a flow", &mut |number, text| line(text, Place::Line(number)))?;
        }
        Ok(flows)
    }

    fn push(&mut self, flow: &FiveTuple, hop: u32) -> Result<(), String> {
        match flow.version() {
            4 => self.v4.push((v4_key(flow), hop)),
            _ => self.v6.push((v6_key(flow), hop)),
        }
        match self.v4.len().max(self.v6.len()) {
            n if n > MAX_FLOWS => Err(format!("found more than {MAX_FLOWS} flows")),
            _ => Ok(()),
        }
    }

    /// How many there are over IPv4 and over IPv6.
    pub fn len(&self) -> (usize, usize) {
        (self.v4.len(), self.v6.len())
    }
}

/// Reads `PROTOCOL SOURCE DESTINATION`, of which `first` is the first word.
fn flow(first: Word<'_>, words: &mut Words<'_>) -> Result<FiveTuple, Fault> {
    let number = match first.text {
        "tcp" => proto::TCP,
        "udp" => proto::UDP,
        "sctp" => proto::SCTP,
        text => {
            let number = digits(text).and_then(|n| u8::try_from(n).ok());
            number.ok_or_else(|| first.fault(format!("found '{text}', expected tcp, udp, sctp or a number to 255")))?
        }
    };
    let has_ports = matches!(number, proto::TCP | proto::UDP | proto::UDP_LITE | proto::SCTP);
    let (src, src_port) = end(words.expect("a source")?, has_ports)?;
    let word = words.expect("a destination")?;
    let (dst, dst_port) = end(word, has_ports)?;
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Ok(FiveTuple::v4(src, dst, src_port, dst_port, number)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Ok(FiveTuple::v6(src, dst, src_port, dst_port, number)),
        _ => Err(word.fault(format!("found {dst}, expected an address of the source's IP version"))),
    }
}

/// Reads an address, with a port where there are ports. Port 0 is none: packets whose ports are unknown have it.
fn end(word: Word<'_>, has_port: bool) -> Result<(IpAddr, u16), Fault> {
    if has_port {
        let both: Option<SocketAddr> = word.text.parse().ok().filter(|both: &SocketAddr| both.port() > 0);
        let expected = "expected an address with a port such as 10.0.0.1:80 or [2001:db8::1]:80";
        return both
            .map(|both| (both.ip(), both.port()))
            .ok_or_else(|| word.fault(format!("found '{}', {expected}", word.text)));
    }
    let address = word
        .text
        .parse()
        .map_err(|_| word.fault(format!("found '{}', expected an address: the protocol has no ports", word.text)))?;
    Ok((address, 0))
}

/// Flows of one IP version that can be looked up.
#[derive(Debug)]
struct Table<const N: usize> {
    index: Hash<N>,
    /// By position.
    hops: Array<u32>,
}

/// Flows that can be looked up; absent without any of the version.
#[derive(Debug)]
pub(crate) struct Exact {
    v4: Option<Table<16>>,
    v6: Option<Table<48>>,
}

impl<const N: usize> Table<N> {
    fn new(flows: &[([u8; N], u32)]) -> Result<Option<Self>, Error> {
        if flows.is_empty() {
            return Ok(None);
        }
        let failed = |why: String| Error::Library(format!("l3fwd: {why}"));
        // The last few percent of a table may be refused.
        let entries = (flows.len() + flows.len() / 8).max(64) as u32;
        let mut index = Hash::new(entries).map_err(|e| failed(e.to_string()))?;
        let mut hops = Array::new(index.positions(), NONE).map_err(|e| failed(e.to_string()))?;
        for (key, hop) in flows {
            let at = index.add(key).and_then(|at| hops.get_mut(at as usize));
            *at.ok_or_else(|| failed(format!("a table for {entries} flows has no room for {}", flows.len())))? = *hop;
        }
        Ok(Some(Self { index, hops }))
    }

    /// Finds the next hops of a burst, [`NONE`] for flows that are not there. Cache misses overlap.
    #[inline]
    fn look_up(&self, waiting: &mut Waiting<N>) {
        let n = waiting.len;
        self.index.lookup_bulk(&waiting.keys[..n], &mut waiting.found[..n]);
        for at in &waiting.found[..n] {
            self.hops.prefetch(*at as usize);
        }
        for (hop, at) in waiting.hop[..n].iter_mut().zip(&waiting.found[..n]) {
            *hop = usize::try_from(*at).ok().and_then(|at| self.hops.get(at)).copied().unwrap_or(NONE);
        }
    }
}

impl Exact {
    pub fn new(flows: &Flows) -> Result<Self, Error> {
        Ok(Self { v4: Table::new(&flows.v4)?, v6: Table::new(&flows.v6)? })
    }

    /// Whether IPv4 packets, and IPv6 packets, are looked up.
    #[inline]
    pub fn asks(&self) -> (bool, bool) {
        (self.v4.is_some(), self.v6.is_some())
    }

    #[inline]
    pub fn look_up(&self, v4: &mut Waiting<16>, v6: &mut Waiting<48>) {
        if let Some(table) = self.v4.as_ref().filter(|_| v4.len > 0) {
            table.look_up(v4);
        }
        if let Some(table) = self.v6.as_ref().filter(|_| v6.len > 0) {
            table.look_up(v6);
        }
    }
}

/// Packets of one IP version that wait for their look-up.
#[derive(Debug)]
pub(crate) struct Waiting<const N: usize> {
    pub keys: Box<[[u8; N]; MAX_BURST]>,
    /// Places in the burst.
    pub at: [u8; MAX_BURST],
    /// Where the layer-3 headers start; at most 22.
    pub l3: [u8; MAX_BURST],
    /// What was found.
    pub hop: [u32; MAX_BURST],
    found: [i32; MAX_BURST],
    pub len: usize,
}

const _: () = assert!(MAX_BURST <= 256, "places in a burst are bytes");

impl<const N: usize> Waiting<N> {
    pub fn new() -> Self {
        Self {
            keys: Box::new([[0; N]; MAX_BURST]),
            at: [0; MAX_BURST],
            l3: [0; MAX_BURST],
            hop: [NONE; MAX_BURST],
            found: [-1; MAX_BURST],
            len: 0,
        }
    }

    #[inline]
    pub fn push(&mut self, at: usize, l3: u8, key: [u8; N]) {
        let n = self.len;
        if n < MAX_BURST {
            (self.keys[n], self.at[n], self.l3[n]) = (key, at as u8, l3);
            self.len += 1;
        }
    }
}

#[cfg(test)]
#[path = "flows_tests.rs"]
mod tests;
