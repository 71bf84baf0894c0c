//! What a running router keeps: tables, next hops, interfaces, and the addresses of the burst at hand.

use crate::config::{Address, Args, Checked, Known, is_link_local};
use crate::fib::{Fib, Table};
use crate::limit::Bucket;
use chainline_nf::{Counter, Ctx, Env, Error, MAX_BURST, Reason, Verdict};
use chainline_packet::ether::Mac;
use chainline_reload::Reload;
use chainline_routes::Pending;
use std::fmt::Write;
use std::net::IpAddr;

/// Where a burst came from: the interface, and the verdict towards each interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From {
    pub interface: usize,
    /// Where in [`Core::verdicts`] its chain's begin.
    pub row: usize,
}

/// An interface.
#[derive(Debug)]
pub(crate) struct Interface {
    pub mac: Mac,
    pub addresses: Vec<Address>,
    pub errors: Bucket,
}

impl Interface {
    pub fn has(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|a| a.ip == ip)
    }

    /// The address to answer `to` with: of its network, else the first of the same kind. A packet from a global address
    /// gets its answer from one, if there is one (RFC 6724 §5, rule 2).
    pub fn source(&self, to: IpAddr) -> Option<IpAddr> {
        // From behind, as of equal ones the last is the best.
        let same = || self.addresses.iter().rev().filter(|a| a.ip.is_ipv4() == to.is_ipv4());
        let scope = |a: &&Address| is_link_local(a.ip) == is_link_local(to);
        let best = same().filter(scope).max_by_key(|a| (a.net.has(to), a.net.depth() * u8::from(a.net.has(to))));
        best.or_else(|| same().next_back()).map(|a| a.ip)
    }
}

/// Packets that the fast path left alone, by their places in the burst.
#[derive(Debug, Default)]
pub(crate) struct Marks([u64; MAX_BURST / 64]);

impl Marks {
    #[inline]
    pub fn set(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    /// Takes the first one away.
    #[inline]
    pub fn take(&mut self) -> Option<usize> {
        let (i, word) = self.0.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(i * 64 + bit as usize)
    }
}

/// A router.
pub struct State {
    pub(crate) core: Core,
    // Noted is the length of the datagram.
    pub(crate) pending4: Pending<u32, u16>,
    pub(crate) pending6: Pending<[u8; 16], u16>,
    pub(crate) marks: Marks,
    pub(crate) reload: Reload<Table>,
}

/// All but the burst at hand.
pub(crate) struct Core {
    pub fib: Table,
    pub interfaces: Vec<Interface>,
    /// The interface of each chain's packets.
    from: Vec<Option<From>>,
    /// How packets leave: one for each interface, chain after chain.
    pub verdicts: Vec<Verdict>,
    pub counters: Counters,
    pub reasons: Reasons,
    /// Identification of the next datagram of the router's own.
    pub identification: u16,
    /// The interfaces', which stay.
    report: String,
}

pub(crate) struct Counters {
    pub forwarded: Counter,
    pub echo_replies: Counter,
    pub arp_replies: Counter,
    pub nd_replies: Counter,
    pub time_exceeded: Counter,
    pub unreachable: Counter,
    pub packet_too_big: Counter,
    pub suppressed: Counter,
    pub limited: Counter,
}

pub(crate) struct Reasons {
    pub malformed: Reason,
    pub other_host: Reason,
    pub tagged: Reason,
    pub non_ip: Reason,
    pub bad_checksum: Reason,
    pub martian: Reason,
    pub link_local: Reason,
    pub source_route: Reason,
    pub broadcast: Reason,
    pub multicast: Reason,
    pub no_route: Reason,
    pub blackhole: Reason,
    pub no_neighbour: Reason,
    pub ttl_expired: Reason,
    pub too_big: Reason,
    pub to_router: Reason,
    pub fragment: Reason,
    pub arp: Reason,
    pub nd: Reason,
    pub no_interface: Reason,
}

impl State {
    pub(crate) fn new(args: &Args, env: &mut Env<'_>) -> Result<Self, Error> {
        let (core, reload) = Core::new(args, env)?;
        let (pending4, pending6) = (Pending::new(0, 0), Pending::new([0; 16], 0));
        Ok(Self { core, pending4, pending6, marks: Marks::default(), reload })
    }

    pub(crate) fn describe(&self) -> String {
        let (v4, v6) = self.core.fib.fixed;
        let fault = self.reload.words().unwrap_or_default();
        format!("{fault}{}{v4} IPv4 and {v6} IPv6 routes besides those of the interfaces\n", self.core.report)
    }
}

impl Core {
    fn new(args: &Args, env: &mut Env<'_>) -> Result<(Self, Reload<Table>), Error> {
        let (checked, neighbours) = args.check()?;
        let (from, verdicts) = ways(&checked, env)?;
        let path = args.routes.as_ref().map(|file| env.path(file));
        let mut reload = Reload::new(env, "routes", path.clone(), args.reload_s);
        let (own, all, known) = (args.clone(), checked.clone(), neighbours.clone());
        let read = move || Table::new(Fib::read(&own, &all, &known, path.as_deref())?);
        let fib = read()?;
        reload.start(read)?;
        let report = report(&checked, &neighbours);
        let interface =
            |c: Checked| Interface { mac: c.mac, addresses: c.addresses, errors: Bucket::new(args.icmp_errors) };
        let core = Self {
            fib,
            interfaces: checked.into_iter().map(interface).collect(),
            from,
            verdicts,
            counters: Counters::declare(env),
            reasons: Reasons::declare(env),
            identification: 0,
            report,
        };
        Ok((core, reload))
    }

    /// Where the packets of a chain come in.
    #[inline]
    pub fn from(&self, chain: u16) -> Option<From> {
        self.from.get(usize::from(chain)).copied().flatten()
    }

    /// The verdict for what leaves by an interface.
    #[inline]
    pub fn out(&self, from: From, interface: usize) -> Verdict {
        self.verdicts.get(from.row + interface).copied().unwrap_or(Verdict::drop(self.reasons.no_interface))
    }
}

type Ways = (Vec<Option<From>>, Vec<Verdict>);

/// The interface of each chain, and how its packets get to each interface.
fn ways(interfaces: &[Checked], env: &Env<'_>) -> Result<Ways, Error> {
    let (mut from, mut verdicts) = (Vec::new(), Vec::new());
    for (i, interface) in interfaces.iter().enumerate() {
        for chain in interface.chains.iter().copied() {
            let at = usize::from(chain);
            if from.len() <= at {
                from.resize(at + 1, None);
            }
            from[at] = Some(From { interface: i, row: verdicts.len() });
            for (o, out) in interfaces.iter().enumerate() {
                verdicts.push(match out.next.contains(&chain) {
                    true => Verdict::NEXT,
                    false => Verdict::divert(env.target(&out.target).map_err(|e| {
                        Error::Args(format!(
                            "args.interfaces[{o}]: packets of chain {chain} leave by {}: {e}",
                            out.name
                        ))
                    })?),
                });
            }
        }
    }
    Ok((from, verdicts))
}

fn report(interfaces: &[Checked], neighbours: &[Known]) -> String {
    let mut text = String::new();
    for (i, interface) in interfaces.iter().enumerate() {
        let addresses: Vec<_> = interface.addresses.iter().map(|a| format!("{}/{}", a.ip, a.net.depth())).collect();
        let known = neighbours.iter().filter(|n| n.interface == i).count();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}: {}, {}, MTU {}, {known} neighbours",
            interface.name,
            interface.mac,
            addresses.join(", "),
            interface.mtu
        );
    }
    text
}

impl Counters {
    fn declare(env: &mut Env<'_>) -> Self {
        let mut counter = |name: &str, help: &str| env.counter(name, "packets", help);
        Self {
            forwarded: counter("forwarded", "packets sent to a neighbour"),
            echo_replies: counter("echo_replies", "pings of the router's addresses that were answered"),
            arp_replies: counter("arp_replies", "ARP requests that were answered"),
            nd_replies: counter("nd_replies", "neighbour solicitations that were answered"),
            time_exceeded: counter("icmp_time_exceeded", "packets returned as ICMP time exceeded"),
            unreachable: counter("icmp_unreachable", "packets returned as ICMP destination unreachable"),
            packet_too_big: counter("icmp_too_big", "packets returned as fragmentation needed or packet too big"),
            suppressed: counter("icmp_suppressed", "errors not sent because there must be none about such packets"),
            limited: counter("icmp_limited", "errors not sent because there were too many"),
        }
    }
}

impl Reasons {
    fn declare(env: &mut Env<'_>) -> Self {
        Self {
            malformed: env.drop_reason("malformed"),
            other_host: env.drop_reason("other_host"),
            tagged: env.drop_reason("tagged"),
            non_ip: env.drop_reason("non_ip"),
            bad_checksum: env.drop_reason("bad_checksum"),
            martian: env.drop_reason("martian"),
            link_local: env.drop_reason("link_local"),
            source_route: env.drop_reason("source_route"),
            broadcast: env.drop_reason("broadcast"),
            multicast: env.drop_reason("multicast"),
            no_route: env.drop_reason("no_route"),
            blackhole: env.drop_reason("blackhole"),
            no_neighbour: env.drop_reason("no_neighbour"),
            ttl_expired: env.drop_reason("ttl_expired"),
            too_big: env.drop_reason("too_big"),
            to_router: env.drop_reason("to_router"),
            fragment: env.drop_reason("fragment"),
            arp: env.drop_reason("arp"),
            nd: env.drop_reason("nd"),
            no_interface: env.drop_reason("no_interface"),
        }
    }
}

impl Core {
    /// Counts one.
    #[inline]
    pub fn count(&self, counter: impl Fn(&Counters) -> Counter, ctx: &Ctx<'_>) {
        ctx.count(counter(&self.counters), 1);
    }
}
