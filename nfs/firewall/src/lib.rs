//! `firewall`: allows or denies IPv4 and IPv6 packets by the first rule that matches.
//!
//! Rules are compiled into `rte_acl` tables, one for each IP version, so that a burst is looked up at once and
//! thousands of rules cost little more than ten.
//!
//! Stateless, so that replies need rules of their own, unless asked: then a connection is judged once, by its first
//! packet, and what follows passes by its state ([`Stateful`]).

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod connections;
mod rules;
mod state;
mod stateful;
mod track;

pub use config::{Args, ClassBenchAction, Fragments};
pub use rules::Action;
pub use state::State as Firewall;
pub use stateful::{Invalid, Stateful, Timeouts};

use chainline_dpdk::tables::Acl;
use chainline_nf::{Burst, Ctx, Env, Error, Field, Footprint, MAX_BURST, Nf, Sample, Verdict};
use chainline_packet::{Fragment, Layers, ether, parse, proto};
use state::{KEY4, KEY6, Pending, Rules, Ruleset, Tables};

/// The kind, for registries.
pub const KIND: chainline_nf::Kind = chainline_nf::Kind::of::<Firewall>();

impl Nf for Firewall {
    const KIND: &'static str = "firewall";
    const ABOUT: &'static str = "allows or denies packets by addresses, ports and protocol; the first match wins";
    type Args = Args;
    const FOOTPRINT: Option<Footprint> = Footprint::new(
        &[
            Field::EtherType,
            Field::IpSource,
            Field::IpDestination,
            Field::Protocol,
            Field::Fragment,
            Field::SourcePort,
            Field::DestinationPort,
            Field::TcpFlags,
            Field::IcmpType,
            Field::IcmpIdentifier,
            Field::IcmpQuote,
        ],
        &[],
        &[
            chainline_nf::State::new("connections", chainline_nf::Scope::Connection, 80).with("stateful"),
            chainline_nf::State::new("datagrams", chainline_nf::Scope::Datagram, 115).with("stateful"),
        ],
    );
    const SAMPLE: Sample = Sample {
        args: "{\"rules_inline\": [\"allow tcp to any port 80\"], \"stateful\": {\"connections\": 64, \"connections6\": 64}}",
        files: &[],
    };

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        Self::new(&args, env)
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        match &mut self.connections {
            Some(connections) => connections.process(burst, &mut self.rules, ctx),
            None => self.rules.process(burst, ctx),
        }
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(new) = self.reload.look(ctx) {
            let old = std::mem::replace(&mut self.rules.set, new);
            self.reload.retire(old);
        }
        if let Some(connections) = &mut self.connections {
            connections.tick(ctx);
        }
    }

    fn news(&mut self) -> Option<String> {
        self.reload.news()
    }

    fn report(&self) -> Option<String> {
        self.reload.words()
    }
}

impl Rules {
    /// Each packet by the rules.
    fn process(&mut self, burst: &mut Burst<'_>, ctx: &Ctx<'_>) {
        (self.pending4.len, self.pending6.len) = (0, 0);
        for i in 0..burst.len() {
            let data = burst.packets()[i].data();
            let layers = parse(data);
            let whole = layers.malformed.is_none() && layers.fragment != Fragment::Later;
            let detail = if self.set.detail { detail(data, &layers) } else { 0 };
            match layers.tuple.version() {
                4 if whole => self.pending4.push(i, key4(&layers, detail)),
                6 if whole => self.pending6.push(i, key6(&layers, detail)),
                _ => {
                    let verdict = self.rare(burst.packets()[i].data(), &layers, ctx);
                    burst.set(i, verdict);
                }
            }
        }
        let set = &self.set;
        decide(&set.tables.v4, &self.pending4, &mut self.results[..], |at, hit| burst.set(at, set.count_hit(hit, ctx)));
        decide(&set.tables.v6, &self.pending6, &mut self.results[..], |at, hit| burst.set(at, set.count_hit(hit, ctx)));
    }

    /// Malformed packets, later fragments, and what is not IP.
    #[cold]
    fn rare(&self, data: &[u8], layers: &Layers, ctx: &Ctx<'_>) -> Verdict {
        // A packet behind a third VLAN tag would pass as "not IP", unfiltered.
        if layers.malformed.is_some() || ether::is_tag(layers.ethertype) {
            return Verdict::drop(self.malformed);
        }
        if !layers.tuple.is_ip() {
            ctx.count(self.non_ip, 1);
            return self.non_ip_verdict;
        }
        ctx.count(self.fragments, 1);
        let Some(tables) = self.set.fragment_tables.as_ref().filter(|_| !self.denies_fragment(data, layers)) else {
            return Verdict::drop(self.fragment_denied);
        };
        self.set.count_hit(look_up(tables, data, layers, false), ctx)
    }

    /// Whether a later fragment is dropped whatever its datagram is.
    fn denies_fragment(&self, data: &[u8], layers: &Layers) -> bool {
        self.set.fragment_tables.is_none() || covers_tcp_flags(data, layers)
    }
}

impl Ruleset {
    /// The verdict of what a look-up found, counted.
    #[inline]
    fn count_hit(&self, hit: u32, ctx: &Ctx<'_>) -> Verdict {
        let outcome = self.outcomes.get(hit as usize).copied().unwrap_or(self.outcomes[0]);
        ctx.count(outcome.counter, 1);
        outcome.verdict
    }
}

/// What the stateful mode asks: for all packets at once that it may need to know of, then for the verdict on each.
impl Rules {
    /// For a burst of `n`.
    #[inline]
    fn begin(&mut self, n: usize) {
        (self.pending4.len, self.pending6.len) = (0, 0);
        self.asked[..n.min(MAX_BURST)].fill(UNASKED);
    }

    /// Puts in a whole packet or a first fragment; `at` is its place in the burst.
    #[cold]
    fn ask(&mut self, at: usize, data: &[u8]) {
        let layers = parse(data);
        let detail = if self.set.detail { detail(data, &layers) } else { 0 };
        match layers.tuple.version() {
            4 => self.pending4.push(at, key4(&layers, detail)),
            _ => self.pending6.push(at, key6(&layers, detail)),
        }
    }

    #[inline]
    fn answer(&mut self) {
        let asked = &mut self.asked;
        decide(&self.set.tables.v4, &self.pending4, &mut self.results[..], |at, hit| asked[at] = hit);
        decide(&self.set.tables.v6, &self.pending6, &mut self.results[..], |at, hit| asked[at] = hit);
    }

    /// The rules' verdict on a packet, which is counted as theirs.
    #[cold]
    fn judge(&self, at: usize, data: &[u8], ctx: &Ctx<'_>) -> Verdict {
        let asked = self.asked.get(at).copied().unwrap_or(UNASKED);
        // It had a connection when the burst was looked up, or is none that has any.
        let hit = if asked == UNASKED { look_up(&self.set.tables, data, &parse(data), self.set.detail) } else { asked };
        self.set.count_hit(hit, ctx)
    }
}

/// Not looked up.
const UNASKED: u32 = u32::MAX;

/// A look-up of its own, for the rare case.
#[cold]
fn look_up(tables: &Tables, data: &[u8], layers: &Layers, with_detail: bool) -> u32 {
    let detail = if with_detail { detail(data, layers) } else { 0 };
    let mut hit = [0];
    if layers.tuple.version() == 4 {
        tables.v4.classify(&[key4(layers, detail)], &mut hit);
    } else {
        tables.v6.classify(&[key6(layers, detail)], &mut hit);
    }
    hit[0]
}

/// Whether this is an IPv4 fragment that would overwrite the TCP flags of the first one (RFC 3128; RFC 1858 §4 has
/// the remedy): one at an offset of 8 bytes.
fn covers_tcp_flags(data: &[u8], layers: &Layers) -> bool {
    let at = usize::from(layers.l3) + 6;
    let offset = data.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]) & 0x1fff);
    layers.tuple.version() == 4 && layers.tuple.proto() == proto::TCP && offset == 1
}

#[inline]
fn decide<const N: usize>(acl: &Acl, pending: &Pending<N>, results: &mut [u32], mut f: impl FnMut(usize, u32)) {
    let n = pending.len.min(results.len());
    if n == 0 {
        return;
    }
    acl.classify(&pending.keys[..n], &mut results[..n]);
    for (at, hit) in pending.at[..n].iter().zip(&results[..n]) {
        f(usize::from(*at), *hit);
    }
}

#[inline]
fn key4(layers: &Layers, detail: u16) -> [u8; KEY4] {
    let tuple = layers.tuple.to_bytes();
    let mut key = [0; KEY4];
    key[0] = tuple[36];
    key[4..8].copy_from_slice(&tuple[..4]);
    key[8..12].copy_from_slice(&tuple[16..20]);
    key[12..16].copy_from_slice(&tuple[32..36]);
    key[16..18].copy_from_slice(&detail.to_be_bytes());
    key
}

#[inline]
fn key6(layers: &Layers, detail: u16) -> [u8; KEY6] {
    let tuple = layers.tuple.to_bytes();
    let mut key = [0; KEY6];
    key[0] = tuple[36];
    key[4..40].copy_from_slice(&tuple[..36]);
    key[40..42].copy_from_slice(&detail.to_be_bytes());
    key
}

/// TCP flags in the upper byte, or type and code of ICMP; 0 for others.
fn detail(data: &[u8], layers: &Layers) -> u16 {
    let at = |off: usize| data.get(usize::from(layers.l4) + off).copied().unwrap_or(0);
    match layers.tuple.proto() {
        proto::TCP => u16::from(at(13)) << 8,
        proto::ICMP | proto::ICMPV6 => u16::from_be_bytes([at(0), at(1)]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
