//! The file of services and backends: reading it.
//!
//! ```text
//! service web tcp 192.0.2.10 port 80,443 nat
//! backend 10.0.0.1 weight 2
//! backend 10.0.0.2 drain
//! service dns udp 2001:db8::53 port 53 dsr
//! backend 2001:db8:1::1 mac 02:00:00:00:01:01
//! ```

use chainline_nf::Error;
use chainline_nf::words::{Fault, Word, Words};
use chainline_packet::ether::Mac;
use chainline_packet::proto;
use std::collections::HashMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The most bytes of a file: what is no file of services must not fill the memory.
const MAX_FILE: u64 = 16 << 20;
/// The most services.
const MAX_SERVICES: usize = 4096;
/// The most backends of a service.
const MAX_BACKENDS: usize = 10_000;
/// The largest weight.
const MAX_WEIGHT: u32 = 1000;

/// How packets get to the backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// The destination address becomes the backend's, and the source of replies the service's.
    Nat,
    /// Direct server return: only the destination hardware address changes, and replies do not come by.
    Dsr,
}

/// Whether a backend gets packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Health {
    Up,
    /// Of the flows that it has, and no others.
    Drain,
    /// None: its flows go to others.
    Down,
}

/// A backend of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Backend {
    pub addr: IpAddr,
    /// `None`: as in the packet.
    pub port: Option<u16>,
    pub weight: u32,
    pub health: Health,
    pub mac: Option<Mac>,
}

impl Backend {
    /// As the file has it.
    pub fn name(&self) -> String {
        match self.port {
            Some(port) => SocketAddr::new(self.addr, port).to_string(),
            None => self.addr.to_string(),
        }
    }
}

/// A service: what clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub name: String,
    pub proto: u8,
    pub vip: IpAddr,
    /// Ranges that do not overlap, in ascending order.
    pub ports: Vec<(u16, u16)>,
    pub mode: Mode,
    /// In the order of their addresses, so that the file's order makes no difference.
    pub backends: Vec<Backend>,
}

impl Service {
    /// For people: `tcp 192.0.2.10 port 80,443 nat`.
    pub fn describe(&self) -> String {
        let range = |(low, high): &(u16, u16)| if low == high { low.to_string() } else { format!("{low}-{high}") };
        let ports: Vec<String> = self.ports.iter().map(range).collect();
        let proto = if self.proto == proto::TCP { "tcp" } else { "udp" };
        let mode = if self.mode == Mode::Nat { "nat" } else { "dsr" };
        format!("{proto} {} port {} {mode}", self.vip, ports.join(","))
    }
}

/// Reads a file.
///
/// # Errors
/// [`Error::Read`], and [`Error::File`] with line and column.
pub(crate) fn read(path: &Path) -> Result<Vec<Service>, Error> {
    let cannot = |source| Error::Read { path: path.to_owned(), source };
    let mut text = String::new();
    std::fs::File::open(path).and_then(|f| f.take(MAX_FILE + 1).read_to_string(&mut text)).map_err(cannot)?;
    if text.len() as u64 > MAX_FILE {
        return Err(Error::at(path, 1, 1, format!("the file has more than {MAX_FILE} bytes")));
    }
    parse(&text).map_err(|(line, fault)| Error::at(path, line, fault.column, fault.message))
}

/// Reads a text; a fault comes with its line.
pub(crate) fn parse(text: &str) -> Result<Vec<Service>, (usize, Fault)> {
    let mut file = File::default();
    let mut last = 1;
    for (i, line) in text.lines().enumerate() {
        last = i + 1;
        let line = line.split('#').next().unwrap_or_default();
        file.line(line, last)?;
    }
    file.check_last()?;
    if file.services.is_empty() {
        return Err((last, Fault::new(1, "the file has no service, expected one")));
    }
    Ok(file.services)
}

/// A range of ports at an address that somebody has: first and last port, the line.
type Taken = HashMap<(u8, IpAddr), Vec<(u16, u16, usize)>>;

#[derive(Default)]
struct File {
    services: Vec<Service>,
    names: HashMap<String, usize>,
    vips: Taken,
    /// What replies come from, of `nat` services: each must tell its service.
    sources: Taken,
    /// Backends of the last service by name, with their lines.
    known: HashMap<(IpAddr, Option<u16>), usize>,
    /// The last service's line.
    at: usize,
}

impl File {
    fn line(&mut self, line: &str, number: usize) -> Result<(), (usize, Fault)> {
        let mut words = Words::new(line);
        let Some(first) = words.next() else { return Ok(()) };
        let read = match first.text {
            "service" => {
                self.check_last()?;
                self.service(&mut words, first, number)
            }
            "backend" => self.backend(&mut words, first, number),
            found => Err(first.fault(format!("found '{found}', expected service or backend"))),
        };
        let end = |words: &mut Words<'_>| match words.next() {
            Some(word) => Err(word.fault(format!("found '{}', expected the end of the line", word.text))),
            None => Ok(()),
        };
        read.and_then(|()| end(&mut words)).map_err(|fault| (number, fault))
    }

    fn service(&mut self, words: &mut Words<'_>, first: Word<'_>, number: usize) -> Result<(), Fault> {
        if self.services.len() == MAX_SERVICES {
            return Err(first.fault(format!("more than {MAX_SERVICES} services")));
        }
        let name = words.expect("a name")?;
        if let Some(line) = self.names.insert(name.text.to_owned(), number) {
            return Err(name.fault(format!("there is a service '{}' in line {line}, expected another name", name.text)));
        }
        let word = words.expect("tcp or udp")?;
        let proto = match word.text {
            "tcp" => proto::TCP,
            "udp" => proto::UDP,
            found => return Err(word.fault(format!("found '{found}', expected tcp or udp"))),
        };
        let word = words.expect("an address")?;
        let vip: IpAddr = address(word)?;
        keyword(words, "port")?;
        let word = words.expect("ports like 80,443 or 8000-8099")?;
        let ports = ports(word)?;
        for (low, high) in &ports {
            take(&mut self.vips, (proto, vip), (*low, *high, number))
                .map_err(|line| word.fault(format!("the service in line {line} has ports of {low}-{high}")))?;
        }
        let word = words.expect("nat or dsr")?;
        let mode = match word.text {
            "nat" => Mode::Nat,
            "dsr" => Mode::Dsr,
            found => return Err(word.fault(format!("found '{found}', expected nat or dsr"))),
        };
        self.known.clear();
        self.at = number;
        self.services.push(Service { name: name.text.to_owned(), proto, vip, ports, mode, backends: Vec::new() });
        Ok(())
    }

    fn backend(&mut self, words: &mut Words<'_>, first: Word<'_>, number: usize) -> Result<(), Fault> {
        let Some(service) = self.services.last_mut() else {
            return Err(first.fault("a backend before the first service"));
        };
        if service.backends.len() == MAX_BACKENDS {
            return Err(first.fault(format!("more than {MAX_BACKENDS} backends")));
        }
        let word = words.expect("an address, or address:port")?;
        let (addr, port) = match word.text.parse::<SocketAddr>() {
            Ok(both) => (both.ip(), Some(both.port())),
            Err(_) => (address(word)?, None),
        };
        if addr.is_ipv4() != service.vip.is_ipv4() {
            return Err(word.fault(format!("found {addr}, expected the IP version of {}", service.vip)));
        }
        if addr == service.vip && service.mode == Mode::Nat {
            return Err(word.fault(format!("found {addr}, which is the service's own address")));
        }
        if port == Some(0) {
            return Err(word.fault("found port 0, expected 1 to 65535"));
        }
        if port.is_some() && service.mode == Mode::Dsr {
            return Err(word.fault("found a port, but packets to backends of a dsr service keep theirs"));
        }
        let several = service.ports.len() > 1 || service.ports.iter().any(|(low, high)| low != high);
        if port.is_some() && several {
            return Err(word.fault("found a port, but the service has several, and replies must tell which"));
        }
        if let Some(line) = self.known.insert((addr, port), number) {
            return Err(word.fault(format!("the service has this backend already, in line {line}")));
        }
        if service.mode == Mode::Nat {
            let here: Vec<(u16, u16)> = port.map_or_else(|| service.ports.clone(), |p| vec![(p, p)]);
            for (low, high) in here {
                take(&mut self.sources, (service.proto, addr), (low, high, number)).map_err(|line| {
                    let which = if low == high { format!("port {low}") } else { format!("ports of {low}-{high}") };
                    word.fault(format!(
                        "the backend in line {line} has {which} of {addr} too, and replies must tell their service: \
                         give it another port in one of them, or use dsr"
                    ))
                })?;
            }
        }
        let mut backend = Backend { addr, port, weight: 1, health: Health::Up, mac: None };
        while let Some(word) = words.next() {
            match word.text {
                "up" => backend.health = Health::Up,
                "drain" => backend.health = Health::Drain,
                "down" => backend.health = Health::Down,
                "weight" => {
                    let word = words.expect("a weight")?;
                    let weight = word.text.parse().ok().filter(|w| (1..=MAX_WEIGHT).contains(w));
                    backend.weight = weight
                        .ok_or_else(|| word.fault(format!("found '{}', expected 1 to {MAX_WEIGHT}", word.text)))?;
                }
                "mac" => {
                    let word = words.expect("a hardware address")?;
                    let mac = word.text.parse().map_err(|e| word.fault(format!("found '{}', {e}", word.text)))?;
                    backend.mac = Some(mac);
                }
                found => {
                    return Err(word.fault(format!("found '{found}', expected weight, mac, up, drain or down")));
                }
            }
        }
        if service.mode == Mode::Dsr && backend.mac.is_none() {
            return Err(word.fault("a backend of a dsr service needs its hardware address: mac 02:00:00:00:00:01"));
        }
        service.backends.push(backend);
        Ok(())
    }

    /// The last service is at its end.
    fn check_last(&mut self) -> Result<(), (usize, Fault)> {
        let Some(service) = self.services.last_mut() else { return Ok(()) };
        service.backends.sort_unstable_by_key(|b| (b.addr, b.port));
        if service.backends.is_empty() {
            return Err((self.at, Fault::new(1, format!("service '{}' has no backend, expected one", service.name))));
        }
        Ok(())
    }
}

fn address(word: Word<'_>) -> Result<IpAddr, Fault> {
    let addr: Option<IpAddr> = word.text.parse().ok();
    match addr {
        Some(addr) if addr.is_unspecified() || addr.is_multicast() => {
            Err(word.fault(format!("found {addr}, expected the address of a host")))
        }
        Some(addr) => Ok(addr),
        None => Err(word.fault(format!("found '{}', expected an IPv4 or IPv6 address", word.text))),
    }
}

fn keyword(words: &mut Words<'_>, what: &str) -> Result<(), Fault> {
    let word = words.expect(what)?;
    if word.text == what { Ok(()) } else { Err(word.fault(format!("found '{}', expected {what}", word.text))) }
}

/// `80`, `80,443`, `8000-8099`, in ascending order and joined where they touch.
fn ports(word: Word<'_>) -> Result<Vec<(u16, u16)>, Fault> {
    let mut column = word.column;
    let mut ranges = Vec::new();
    for part in word.text.split(',') {
        let wrong = || Fault::new(column, format!("found '{part}', expected a port or a range like 8000-8099"));
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u16, u16) = (low.parse().map_err(|_| wrong())?, high.parse().map_err(|_| wrong())?);
        if low == 0 || high < low {
            return Err(wrong());
        }
        ranges.push((low, high));
        column += part.len() + 1;
    }
    ranges.sort_unstable();
    if ranges.windows(2).any(|pair| pair[0].1 >= pair[1].0) {
        return Err(word.fault(format!("found '{}', in which a port is twice", word.text)));
    }
    Ok(ranges)
}

/// Notes a range; the line of one that overlaps if there is one.
fn take(taken: &mut Taken, at: (u8, IpAddr), range: (u16, u16, usize)) -> Result<(), usize> {
    let list = taken.entry(at).or_default();
    match list.iter().find(|(low, high, _)| *low <= range.1 && range.0 <= *high) {
        Some((_, _, line)) => Err(*line),
        None => {
            list.push(range);
            Ok(())
        }
    }
}
