//! Arguments.

use chainline_nf::Error;
use chainline_packet::ether::Mac;
use chainline_routes::Prefix;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

/// The most interfaces.
pub const MAX_INTERFACES: usize = 64;
/// The most chains; as many as a chain file may have.
pub const MAX_CHAINS: u16 = 4096;

/// `args:` of a `router`.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Where packets come in and go out.
    pub interfaces: Vec<Interface>,
    /// Who is reached there, and under which hardware address.
    #[serde(default)]
    pub neighbours: Vec<Neighbour>,
    /// A route file, relative to the chain file.
    #[serde(default)]
    pub routes: Option<PathBuf>,
    /// How often the file is looked at, in seconds; 0 is never. A changed file is taken without losing a packet, a wrong
    /// one leaves the old one in force.
    #[serde(default = "reload_s")]
    pub reload_s: u32,
    /// Routes as in a route file, one each.
    #[serde(default)]
    pub routes_inline: Vec<String>,
    /// How many ICMP and ICMPv6 errors are sent.
    #[serde(default)]
    pub icmp_errors: IcmpErrors,
}

/// An interface.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Its name, for routes, neighbours and messages.
    pub name: String,
    /// Its hardware address.
    pub mac: String,
    /// Its addresses, each with the prefix length of its network: `10.10.0.1/24`, `2001:db8:a::1/64`. A link-local
    /// address is made from the hardware address unless one is given.
    pub addresses: Vec<String>,
    /// The longest IP packet that it takes, in bytes.
    #[serde(default = "mtu")]
    pub mtu: u16,
    /// Chains whose packets come in here, by their place in the chain file's list, from 0. Absent: the one at the
    /// interface's own place.
    #[serde(default)]
    pub chains: Option<Vec<u16>>,
    /// Chains whose packets leave here by the next hop of their path, and so through the NFs behind this one; those of
    /// others are diverted to `target`.
    #[serde(default)]
    pub next: Vec<u16>,
    /// The word of the NF's `divert` list that leads out of here; the interface's name unless given.
    #[serde(default)]
    pub target: Option<String>,
}

/// A neighbour.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: String,
    /// The interface where it is; unless given, the one in whose network the address is.
    #[serde(default)]
    pub interface: Option<String>,
}

/// A token bucket for each interface.
#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IcmpErrors {
    /// Errors a second in the long run, of each interface; 0 sends none.
    pub per_s: u32,
    /// Errors in a row, at least 1.
    pub burst: u32,
}

impl Default for IcmpErrors {
    fn default() -> Self {
        Self { per_s: 1000, burst: 50 }
    }
}

fn reload_s() -> u32 {
    1
}

fn mtu() -> u16 {
    1500
}

/// An address of an interface, and its network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub ip: IpAddr,
    pub net: Prefix,
}

/// An interface as the arguments describe it, checked.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub name: String,
    pub mac: Mac,
    pub addresses: Vec<Address>,
    pub mtu: u16,
    pub chains: Vec<u16>,
    pub next: Vec<u16>,
    pub target: String,
}

/// A neighbour, checked; its interface by number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub ip: IpAddr,
    pub mac: Mac,
    pub interface: usize,
}

/// Link-local addresses, which are no route's business: each interface has the same network of them.
pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(a) if a.is_unicast_link_local())
}

fn unicast(text: &str) -> Result<Mac, String> {
    let mac: Mac = text.parse().map_err(|e| format!("found '{text}', {e}"))?;
    if mac.0[0] & 1 == 0 && mac != Mac::default() {
        Ok(mac)
    } else {
        Err(format!("found '{text}', expected the hardware address of one station"))
    }
}

impl Args {
    /// Checks what types cannot say.
    pub(crate) fn check(&self) -> Result<(Vec<Checked>, Vec<Known>), Error> {
        let found = self.interfaces.len();
        if !(1..=MAX_INTERFACES).contains(&found) {
            return Err(Error::Args(format!("args.interfaces: found {found}, expected 1 to {MAX_INTERFACES}")));
        }
        let wrong = |i: usize, field: &str, why: String| Error::Args(format!("args.interfaces[{i}].{field}: {why}"));
        let mut all: Vec<Checked> = Vec::new();
        for (i, interface) in self.interfaces.iter().enumerate() {
            let checked = interface.check(i).map_err(|(field, why)| wrong(i, field, why))?;
            if all.iter().any(|other| other.name == checked.name) {
                return Err(wrong(i, "name", format!("found '{}' again, expected another", checked.name)));
            }
            for other in &all {
                if let Some(chain) = checked.chains.iter().find(|c| other.chains.contains(c)) {
                    return Err(wrong(i, "chains", format!("chain {chain} comes in at {} already", other.name)));
                }
                if let Some(chain) = checked.next.iter().find(|c| other.next.contains(c)) {
                    return Err(wrong(i, "next", format!("chain {chain} goes on to {} already", other.name)));
                }
            }
            all.push(checked);
        }
        if self.icmp_errors.burst == 0 {
            return Err(Error::Args("args.icmp_errors.burst: found 0, expected at least 1".into()));
        }
        let neighbours = self.neighbours.iter().enumerate().map(|(i, n)| {
            n.check(&all).map_err(|(field, why)| Error::Args(format!("args.neighbours[{i}].{field}: {why}")))
        });
        let neighbours = neighbours.collect::<Result<_, _>>()?;
        Ok((all, neighbours))
    }
}

type Wrong = (&'static str, String);

impl Interface {
    fn check(&self, place: usize) -> Result<Checked, Wrong> {
        let mac = unicast(&self.mac).map_err(|why| ("mac", why))?;
        if self.name.is_empty() || self.name.contains(char::is_whitespace) {
            return Err(("name", format!("found '{}', expected one word", self.name)));
        }
        let mut addresses = Vec::new();
        for text in &self.addresses {
            let (ip, net) = Prefix::with_address(text).map_err(|why| ("addresses", why))?;
            if !may_be_a_host(ip, &net) {
                return Err(("addresses", format!("found '{text}', which no interface can have")));
            }
            addresses.push(Address { ip, net });
        }
        if addresses.is_empty() {
            return Err(("addresses", "found an empty list, expected addresses".into()));
        }
        let v6 = addresses.iter().any(|a| a.ip.is_ipv6());
        if v6 && !addresses.iter().any(|a| is_link_local(a.ip)) {
            let ip = IpAddr::from(eui64(mac));
            addresses.push(Address { ip, net: Prefix::around(ip, 64) });
        }
        // RFC 791 §3.2 and RFC 8200 §5 say what every link must carry.
        let least = if v6 { 1280 } else { 68 };
        if self.mtu < least {
            return Err(("mtu", format!("found {}, expected {least} or more", self.mtu)));
        }
        let chains = match &self.chains {
            Some(chains) => chains.clone(),
            None => vec![place as u16],
        };
        for (field, chains) in [("chains", &chains), ("next", &self.next)] {
            if let Some(chain) = chains.iter().find(|c| **c >= MAX_CHAINS) {
                return Err((field, format!("found {chain}, expected less than {MAX_CHAINS}")));
            }
        }
        Ok(Checked {
            name: self.name.clone(),
            mac,
            addresses,
            mtu: self.mtu,
            chains,
            next: self.next.clone(),
            target: self.target.clone().unwrap_or_else(|| self.name.clone()),
        })
    }
}

impl Neighbour {
    fn check(&self, interfaces: &[Checked]) -> Result<Known, Wrong> {
        let mac = unicast(&self.mac).map_err(|why| ("mac", why))?;
        let ip = self.address;
        let networks = || interfaces.iter().flat_map(|i| &i.addresses);
        if networks().any(|a| a.ip == ip) {
            return Err(("address", format!("found {ip}, which is the router's own")));
        }
        let wrong_net = networks().find(|a| a.net.has(ip) && !may_be_a_host(ip, &a.net));
        if wrong_net.is_some() || !may_be_a_host(ip, &Prefix::of(ip)) {
            return Err(("address", format!("found {ip}, which no host can have")));
        }
        let interface = match &self.interface {
            Some(name) => interfaces.iter().position(|i| i.name == *name).ok_or_else(|| {
                let names: Vec<_> = interfaces.iter().map(|i| i.name.as_str()).collect();
                ("interface", format!("found '{name}', expected one of {}", names.join(", ")))
            })?,
            // Each interface has link-local neighbours.
            None if is_link_local(ip) => {
                return Err(("interface", format!("is absent, and {ip} may be at each: expected its name")));
            }
            None => interface_of(interfaces, ip)
                .ok_or_else(|| ("address", format!("found {ip}, which is in no interface's network")))?,
        };
        Ok(Known { ip, mac, interface })
    }
}

/// The interface in whose network an address is; the longest prefix counts.
pub(crate) fn interface_of(interfaces: &[Checked], ip: IpAddr) -> Option<usize> {
    let nets = interfaces.iter().enumerate().flat_map(|(i, x)| x.addresses.iter().map(move |a| (a.net, i)));
    nets.filter(|(net, _)| net.has(ip)).max_by_key(|(net, _)| net.depth()).map(|(_, i)| i)
}

/// Whether a host in this network can have an address: no broadcast, multicast, loopback or unspecified one.
fn may_be_a_host(ip: IpAddr, net: &Prefix) -> bool {
    if special().iter().any(|s| s.has(ip)) {
        return false;
    }
    match (ip, broadcasts(net)) {
        (IpAddr::V4(ip), Some(both)) => !both.contains(&u32::from(ip)),
        _ => true,
    }
}

/// The addresses of an IPv4 network that no host has: the first, once a broadcast too, and the last. Networks of one
/// or two addresses have none (RFC 3021).
pub(crate) fn broadcasts(net: &Prefix) -> Option<[u32; 2]> {
    match *net {
        Prefix::V4(bits, depth) if depth < 31 => Some([bits, bits | u32::MAX >> depth]),
        _ => None,
    }
}

/// Prefixes where no unicast packet goes to or comes from, whatever the routes say (RFC 1812 §5.3.7, RFC 4291 §2.5).
pub(crate) fn special() -> [Prefix; 8] {
    let v4 = |first: u32, depth| Prefix::V4(first << 24, depth);
    [
        v4(0, 8),
        v4(127, 8),
        MULTICAST_4,
        v4(240, 4),
        Prefix::V6(0, 128),
        Prefix::V6(1, 128),
        // IPv4-mapped: no packet on a wire has one.
        Prefix::V6(0xffff_0000_0000, 96),
        MULTICAST_6,
    ]
}

/// RFC 5771.
pub(crate) const MULTICAST_4: Prefix = Prefix::V4(224 << 24, 4);
/// RFC 4291 §2.7.
pub(crate) const MULTICAST_6: Prefix = Prefix::V6(0xff << 120, 8);
/// RFC 4291 §2.5.6.
pub(crate) const LINK_LOCAL: Prefix = Prefix::V6(0xfe80 << 112, 10);

/// The link-local address of a hardware address (RFC 4291, appendix A).
fn eui64(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}
