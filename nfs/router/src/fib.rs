//! What destinations lead to: next hops, and the routes that follow from interfaces, neighbours and the route file.

use crate::config::{
    Args, Checked, Known, LINK_LOCAL, MULTICAST_4, MULTICAST_6, broadcasts, interface_of, is_link_local, special,
};
use chainline_nf::Error;
use chainline_nf::words::{Fault, Word, Words};
use chainline_packet::ether::Mac;
use chainline_routes::{Place, Prefix, Routes, Tables};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::Path;

/// What becomes of packets to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// To a neighbour.
    Send,
    /// On a link of ours, where nobody has this address.
    NoNeighbour,
    /// An address of the router's own.
    Local,
    /// All hosts of a link.
    Broadcast,
    /// A group.
    Multicast,
    /// No destination at all.
    Martian,
    /// On one link, and which one depends on where the packet came from.
    LinkLocal,
    /// `unreachable`.
    Unreachable,
    /// `blackhole`.
    Blackhole,
}

/// Where a route leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hop {
    /// The neighbour's hardware address and the interface's, as they stand in front of a frame.
    pub addresses: [u8; 12],
    /// Of the interface; 0 unless packets are sent on, so that none is short enough for the fast path.
    pub mtu: u16,
    /// The interface.
    pub out: u8,
    pub kind: Kind,
}

const _: () = assert!(size_of::<Hop>() == 16, "four hops in a cache line");

impl Hop {
    fn only(kind: Kind) -> Self {
        Self { addresses: [0; 12], mtu: 0, out: 0, kind }
    }

    fn send(to: Mac, i: usize, interface: &Checked) -> Self {
        let mut addresses = [0; 12];
        addresses[..6].copy_from_slice(&to.0);
        addresses[6..].copy_from_slice(&interface.mac.0);
        Self { addresses, mtu: interface.mtu, out: i as u8, kind: Kind::Send }
    }
}

/// All hops, each once.
#[derive(Debug, Default)]
struct Hops {
    all: Vec<Hop>,
    known: HashMap<Hop, u32>,
}

impl Hops {
    fn number(&mut self, hop: Hop) -> u32 {
        let all = &mut self.all;
        *self.known.entry(hop).or_insert_with(|| {
            all.push(hop);
            all.len() as u32 - 1
        })
    }
}

/// Routes, sorted, and what they lead to.
#[derive(Debug)]
pub(crate) struct Fib {
    pub routes: Routes,
    pub hops: Vec<Hop>,
    /// IPv4 and IPv6 routes of the arguments and the file.
    pub fixed: (usize, usize),
}

impl Fib {
    /// Reads the routes that the arguments name, and adds those that follow from interfaces and neighbours. `path` is where
    /// the route file is, if there is one.
    pub fn read(args: &Args, interfaces: &[Checked], neighbours: &[Known], path: Option<&Path>) -> Result<Self, Error> {
        let (mut hops, mut routes) = (Hops::default(), Routes::default());
        let mut read = |prefix: &Prefix, words: &mut Words<'_>| {
            hop(prefix, words, interfaces, neighbours).map(|hop| hops.number(hop))
        };
        routes.read_inline(&args.routes_inline, &mut read)?;
        if let Some(path) = path {
            routes.read_file(path, &mut read)?;
        }
        let fixed = (routes.v4.len(), routes.v6.len());
        for (prefix, (hop, place)) in given(interfaces, neighbours)? {
            routes.push(prefix, hops.number(hop), Place::Given(place));
        }
        routes.sort(path.unwrap_or(Path::new("")))?;
        Ok(Self { routes, hops: hops.all, fixed })
    }
}

/// A [`Fib`] that can be asked.
pub(crate) struct Table {
    pub tables: Tables,
    pub hops: Vec<Hop>,
    /// IPv4 and IPv6 routes of the arguments and the file.
    pub fixed: (usize, usize),
}

impl Table {
    pub fn new(fib: Fib) -> Result<Self, Error> {
        let tables = Tables::new(&fib.routes, fib.hops.len()).map_err(|e| Error::Library(format!("router: {e}")))?;
        Ok(Self { tables, hops: fib.hops, fixed: fib.fixed })
    }

    /// What a number of the tables stands for.
    #[inline]
    pub fn hop(&self, number: u32) -> Option<Hop> {
        self.hops.get(number as usize).copied()
    }
}

type Given = BTreeMap<Prefix, (Hop, &'static str)>;

/// What follows from interfaces and neighbours.
fn given(interfaces: &[Checked], neighbours: &[Known]) -> Result<Given, Error> {
    let mut given = Given::new();
    let mut once = |prefix: Prefix, hop: Hop, place: &'static str| match given.insert(prefix, (hop, place)) {
        None => Ok(()),
        Some((_, first)) => Err(Error::Args(format!("args.{place}: {prefix} is there already, in {first}"))),
    };
    // A link-local address or neighbour is found by its interface, not by its address.
    let routed = |ip: IpAddr| !is_link_local(ip);
    for address in interfaces.iter().flat_map(|i| &i.addresses).filter(|a| routed(a.ip)) {
        once(Prefix::of(address.ip), Hop::only(Kind::Local), "interfaces")?;
    }
    for n in neighbours.iter().filter(|n| routed(n.ip)) {
        once(Prefix::of(n.ip), Hop::send(n.mac, n.interface, &interfaces[n.interface]), "neighbours")?;
    }
    let mut nets: BTreeMap<Prefix, usize> = BTreeMap::new();
    for (i, interface) in interfaces.iter().enumerate() {
        for net in interface.addresses.iter().filter(|a| routed(a.ip)).map(|a| a.net) {
            if nets.insert(net, i).is_some_and(|other| other != i) {
                return Err(Error::Args(format!("args.interfaces[{i}].addresses: {net} is another's network too")));
            }
        }
    }
    // What is above stays: an address of a larger network's end may be somebody's in a smaller one.
    let broadcast = Hop::only(Kind::Broadcast);
    given.insert(Prefix::V4(u32::MAX, 32), (broadcast, "broadcasts"));
    for (net, i) in nets {
        for address in broadcasts(&net).into_iter().flatten() {
            given.entry(Prefix::V4(address, 32)).or_insert((broadcast, "broadcasts"));
        }
        let hop = Hop { out: i as u8, ..Hop::only(Kind::NoNeighbour) };
        given.entry(net).or_insert((hop, "interfaces"));
    }
    for prefix in special() {
        let kind = if [MULTICAST_4, MULTICAST_6].contains(&prefix) { Kind::Multicast } else { Kind::Martian };
        given.insert(prefix, (Hop::only(kind), "special addresses"));
    }
    given.insert(LINK_LOCAL, (Hop::only(Kind::LinkLocal), "special addresses"));
    Ok(given)
}

/// Reads `via ADDRESS [dev INTERFACE]`, `dev INTERFACE`, `unreachable` or `blackhole`.
fn hop(prefix: &Prefix, words: &mut Words<'_>, interfaces: &[Checked], neighbours: &[Known]) -> Result<Hop, Fault> {
    if let Some(s) = special().iter().chain([&LINK_LOCAL]).find(|s| s.covers(prefix)) {
        return Err(Fault::new(1, format!("{prefix} is in {s}, where nothing is routed to")));
    }
    let word = words.expect("'via', 'dev', 'unreachable' or 'blackhole'")?;
    match word.text {
        "via" => via(words, interfaces, neighbours),
        "dev" => {
            let out = interface(words.expect("an interface")?, interfaces)?;
            Ok(Hop { out: out as u8, ..Hop::only(Kind::NoNeighbour) })
        }
        "unreachable" => Ok(Hop::only(Kind::Unreachable)),
        "blackhole" => Ok(Hop::only(Kind::Blackhole)),
        other => Err(word.fault(format!("found '{other}', expected 'via', 'dev', 'unreachable' or 'blackhole'"))),
    }
}

fn via(words: &mut Words<'_>, interfaces: &[Checked], neighbours: &[Known]) -> Result<Hop, Fault> {
    let word = words.expect("the address of a neighbour")?;
    let ip: IpAddr =
        word.text.parse().map_err(|_| word.fault(format!("found '{}', expected an address", word.text)))?;
    let dev = match words.peek() {
        Some(Word { text: "dev", .. }) => {
            words.next();
            Some(interface(words.expect("an interface")?, interfaces)?)
        }
        _ => None,
    };
    if is_link_local(ip) && dev.is_none() {
        return Err(word.fault(format!("found {ip}, which may be at each interface: expected 'dev' behind it")));
    }
    let known = neighbours.iter().find(|n| n.ip == ip && dev.is_none_or(|dev| dev == n.interface));
    let known = known.ok_or_else(|| {
        let at = dev.or_else(|| interface_of(interfaces, ip)).map(|i| format!(" at {}", interfaces[i].name));
        word.fault(format!("found {ip}, expected an address of args.neighbours{}", at.unwrap_or_default()))
    })?;
    Ok(Hop::send(known.mac, known.interface, &interfaces[known.interface]))
}

fn interface(word: Word<'_>, interfaces: &[Checked]) -> Result<usize, Fault> {
    interfaces.iter().position(|i| i.name == word.text).ok_or_else(|| {
        let names: Vec<_> = interfaces.iter().map(|i| i.name.as_str()).collect();
        word.fault(format!("found '{}', expected one of {}", word.text, names.join(", ")))
    })
}
