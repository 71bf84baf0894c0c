//! The stateful mode's tables, and its way of a burst.
//!
//! Both directions of a connection are one entry: its key has the ends in the order of their addresses, and the entry
//! says which of them began. Packets are handled in order, so a burst is as its packets one by one; look-ups of states
//! and rules are done for the whole burst before.

use crate::state::Rules;
use crate::stateful::{Invalid, Stateful};
use crate::track::{Kind, Sender, State, Step};
use chainline_flowtable::{
    self as flowtable, Class, Config, FlowTable, Inserted, Keys, OnFull, Position, datagram_key, v4_key, v6_key,
};
use chainline_nf::{Burst, Counter, Ctx, Env, Error, MAX_BURST, Reason, Verdict};
use chainline_packet::icmp::{self, echo};
use chainline_packet::{FiveTuple, Fragment, Layers, parse, proto};

/// What belongs to a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    state: State,
    /// Whether the end that the key names first began it.
    first_began: bool,
}

/// Later fragments go after their first one for this long.
const FRAGMENT_MS: u64 = 30_000;
/// Datagrams in fragments at one time.
const FRAGMENTS: u32 = 8192;

/// How a packet is handled.
#[derive(Clone, Copy, Debug, Default)]
enum Way {
    /// Malformed or not IP.
    #[default]
    Plain,
    /// By the rules alone: ICMP that is neither echo nor error.
    Rules,
    V4(Place),
    V6(Place),
    /// An ICMP error.
    Related,
    LaterFragment,
}

/// A packet that may have a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Its place among the keys.
    key: u8,
    kind: Kind,
    /// Whether it is sent by the end that the key names first.
    from_first: bool,
    first_fragment: bool,
}

/// The connections of one IP version, and the keys of the burst at hand.
struct Side<const N: usize> {
    table: FlowTable<N, Entry>,
    keys: Keys<N>,
}

/// The stateful mode.
pub(crate) struct Connections {
    v4: Side<16>,
    v6: Side<48>,
    /// Datagrams whose first fragment passed.
    fragments: FlowTable<48, ()>,
    ways: Box<[Way; MAX_BURST]>,
    policy: Policy,
    counters: flowtable::Counters,
    sums: Sums,
}

/// What holds for all connections, and their counters and reasons.
struct Policy {
    invalid: Invalid,
    midstream: bool,
    by_state: Counter,
    related: Counter,
    stateless: Counter,
    out_of_state: Counter,
    invalid_state: Reason,
    table_full: Reason,
    fragment: Reason,
}

/// The burst's.
#[derive(Default)]
struct Sums {
    by_state: u64,
    stateless: u64,
    out_of_state: u64,
}

impl<const N: usize> Side<N> {
    fn new(connections: u32, args: &Stateful) -> Result<Self, Error> {
        let config = Config { capacity: connections, timeouts_ms: &args.timeouts.ms(), on_full: args.on_full };
        Ok(Self { table: FlowTable::new(&config).map_err(failed)?, keys: Keys::new() })
    }
}

fn failed(e: flowtable::ConfigError) -> Error {
    Error::Library(format!("firewall: {e}"))
}

impl Connections {
    pub fn new(args: &Stateful, env: &mut Env<'_>) -> Result<Self, Error> {
        args.check()?;
        let policy = Policy {
            invalid: args.invalid,
            midstream: args.midstream,
            by_state: env.counter("by_state", "packets", "packets of known connections"),
            related: env.counter("icmp_related", "packets", "ICMP errors about known connections"),
            stateless: env.counter("stateless", "packets", "packets judged by the rules alone as the table was full"),
            out_of_state: env.counter("out_of_state", "packets", "packets that fit no state"),
            invalid_state: env.drop_reason("invalid_state"),
            table_full: env.drop_reason("table_full"),
            fragment: env.drop_reason("fragment"),
        };
        let fragments = Config { capacity: FRAGMENTS, timeouts_ms: &[FRAGMENT_MS], on_full: OnFull::EvictOldest };
        Ok(Self {
            v4: Side::new(args.connections, args)?,
            v6: Side::new(args.connections6, args)?,
            fragments: FlowTable::new(&fragments).map_err(failed)?,
            ways: Box::new([Way::default(); MAX_BURST]),
            policy,
            counters: flowtable::Counters::declare(env, "connections"),
            sums: Sums::default(),
        })
    }

    pub fn process(&mut self, burst: &mut Burst<'_>, rules: &mut Rules, ctx: &mut Ctx<'_>) {
        self.v4.keys.clear();
        self.v6.keys.clear();
        for (i, packet) in burst.packets().iter().enumerate() {
            let way = self.classify(i, packet.data());
            if let Some(w) = self.ways.get_mut(i) {
                *w = way;
            }
        }
        self.v4.table.look_up(&mut self.v4.keys, ctx.now_ns());
        self.v6.table.look_up(&mut self.v6.keys, ctx.now_ns());
        self.fragments.advance(ctx.now_ns());
        self.ask_rules(burst, rules);
        for (i, (packet, verdict)) in burst.iter_mut().enumerate() {
            let data = packet.data();
            let judge = || rules.judge(i, data, ctx);
            *verdict = match self.ways.get(i).copied().unwrap_or_default() {
                Way::V4(place) => {
                    let verdict = self.policy.follow(&mut self.v4, &mut self.sums, &place, judge);
                    self.remember(verdict, &place, data)
                }
                Way::V6(place) => {
                    let verdict = self.policy.follow(&mut self.v6, &mut self.sums, &place, judge);
                    self.remember(verdict, &place, data)
                }
                Way::Plain => rules.rare(data, &parse(data), ctx),
                Way::Rules => judge(),
                Way::Related => self.relate(data, judge, ctx),
                Way::LaterFragment => self.later(data, rules, ctx),
            };
        }
        self.show(ctx);
    }

    pub fn tick(&mut self, ctx: &Ctx<'_>) {
        self.v4.table.sweep(ctx.now_ns(), |_, _| {});
        self.v6.table.sweep(ctx.now_ns(), |_, _| {});
        self.fragments.sweep(ctx.now_ns(), |_, ()| {});
        self.show(ctx);
    }

    fn show(&mut self, ctx: &Ctx<'_>) {
        let sums = std::mem::take(&mut self.sums);
        ctx.count(self.policy.by_state, sums.by_state);
        ctx.count(self.policy.stateless, sums.stateless);
        ctx.count(self.policy.out_of_state, sums.out_of_state);
        self.counters.show(&self.v4.table.stats().plus(&self.v6.table.stats()), ctx);
    }

    /// What a packet is; its key, if it has one, is put in.
    #[inline]
    fn classify(&mut self, i: usize, data: &[u8]) -> Way {
        let layers = parse(data);
        let flow = &layers.tuple;
        if layers.malformed.is_some() || !flow.is_ip() {
            return Way::Plain;
        }
        if layers.fragment == Fragment::Later {
            return Way::LaterFragment;
        }
        let kind = match flow.proto() {
            proto::TCP => Kind::of_tcp(data.get(usize::from(layers.l4) + 13).copied().unwrap_or(0)),
            proto::UDP | proto::UDP_LITE | proto::SCTP => Kind::Datagram,
            proto::ICMP | proto::ICMPV6 => return self.classify_icmp(i, data, &layers),
            _ => Kind::Other,
        };
        self.push(i, flow, kind, layers.fragment)
    }

    #[cold]
    fn classify_icmp(&mut self, i: usize, data: &[u8], layers: &Layers) -> Way {
        if icmp::is_error(data, layers) {
            return Way::Related;
        }
        match echo_of(data, layers.l4.into(), &layers.tuple) {
            Some((kind, flow)) => self.push(i, &flow, kind, layers.fragment),
            None => Way::Rules,
        }
    }

    #[inline]
    fn push(&mut self, i: usize, flow: &FiveTuple, kind: Kind, fragment: Fragment) -> Way {
        let first_fragment = fragment == Fragment::First;
        // Places in a burst are bytes, see `Keys`.
        if flow.version() == 4 {
            let key = self.v4.keys.len() as u8;
            let (name, from_first) = key4(flow, kind);
            self.v4.keys.push(i, name);
            Way::V4(Place { key, kind, from_first, first_fragment })
        } else {
            let key = self.v6.keys.len() as u8;
            let (name, from_first) = key6(flow, kind);
            self.v6.keys.push(i, name);
            Way::V6(Place { key, kind, from_first, first_fragment })
        }
    }

    /// Looks up the rules for all packets without a connection at once.
    #[inline]
    fn ask_rules(&self, burst: &Burst<'_>, rules: &mut Rules) {
        rules.begin(burst.len());
        let mut ask = |at: usize| {
            if let Some(packet) = burst.packets().get(at) {
                rules.ask(at, packet.data());
            }
        };
        (0..self.v4.keys.len()).filter(|k| self.v4.table.find(&self.v4.keys, *k).is_none()).for_each(|k| {
            ask(self.v4.keys.at(k));
        });
        (0..self.v6.keys.len()).filter(|k| self.v6.table.find(&self.v6.keys, *k).is_none()).for_each(|k| {
            ask(self.v6.keys.at(k));
        });
        rules.answer();
    }

    /// An ICMP error passes if the packet that it tells of is one of a connection, and was sent by whom it goes to.
    #[cold]
    fn relate(&mut self, data: &[u8], judge: impl FnOnce() -> Verdict, ctx: &Ctx<'_>) -> Verdict {
        let layers = parse(data);
        let known = icmp::quoted(data, &layers).is_some_and(|quoted| {
            let ends = match quoted.flow.proto() {
                proto::ICMP | proto::ICMPV6 => echo_of(data, quoted.l4, &quoted.flow),
                proto::TCP | proto::UDP | proto::UDP_LITE | proto::SCTP => Some((Kind::Datagram, quoted.flow)),
                _ => Some((Kind::Other, quoted.flow)),
            };
            ends.is_some_and(|(kind, flow)| layers.tuple.dst() == flow.src() && self.has(&flow, kind))
        });
        if known {
            ctx.count(self.policy.related, 1);
            return Verdict::NEXT;
        }
        self.policy.unfit(&mut self.sums, judge)
    }

    fn has(&self, flow: &FiveTuple, kind: Kind) -> bool {
        fn lives<const N: usize>(table: &FlowTable<N, Entry>, key: &[u8; N]) -> bool {
            table.find_one(key).is_some_and(|at| !table.is_over(at))
        }
        match flow.version() {
            4 => lives(&self.v4.table, &key4(flow, kind).0),
            _ => lives(&self.v6.table, &key6(flow, kind).0),
        }
    }

    /// A first fragment that passes takes the others with it.
    #[inline]
    fn remember(&mut self, verdict: Verdict, place: &Place, data: &[u8]) -> Verdict {
        if place.first_fragment {
            self.remember_datagram(verdict, data);
        }
        verdict
    }

    #[cold]
    fn remember_datagram(&mut self, verdict: Verdict, data: &[u8]) {
        let Some(key) = datagram_key(data, &parse(data)) else { return };
        // The identification comes around: what the last datagram of this name said is void.
        if let Some(at) = self.fragments.find_one(&key) {
            self.fragments.remove(at);
        }
        if verdict == Verdict::NEXT {
            self.fragments.insert(&key, Class(0), (), |_, ()| {});
        }
    }

    #[cold]
    fn later(&mut self, data: &[u8], rules: &Rules, ctx: &Ctx<'_>) -> Verdict {
        let layers = parse(data);
        ctx.count(rules.fragments, 1);
        let known = datagram_key(data, &layers).and_then(|key| self.fragments.find_one(&key));
        let passes = known.is_some_and(|at| !self.fragments.is_over(at));
        if !passes || rules.denies_fragment(data, &layers) {
            return Verdict::drop(self.policy.fragment);
        }
        self.sums.by_state += 1;
        Verdict::NEXT
    }
}

impl Policy {
    /// The verdict on a packet by its connection; `judge` asks the rules.
    #[inline]
    fn follow<const N: usize>(
        &self,
        side: &mut Side<N>,
        sums: &mut Sums,
        place: &Place,
        judge: impl FnOnce() -> Verdict,
    ) -> Verdict {
        let key = usize::from(place.key);
        let Some(at) = side.table.find(&side.keys, key) else { return self.begin(side, sums, place, judge) };
        let Some(entry) = side.table.entry(at).copied() else { return Verdict::drop(self.invalid_state) };
        let from = if place.from_first == entry.first_began { Sender::Origin } else { Sender::Peer };
        if side.table.is_over(at) {
            side.table.remove(at);
            return self.begin(side, sums, place, judge);
        }
        match entry.state.next(from, place.kind) {
            Step::To(state) if state == entry.state => side.table.touch(at),
            Step::To(state) => {
                if let Some(entry) = side.table.entry_mut(at) {
                    entry.state = state;
                }
                side.table.set_class(at, state.class());
            }
            Step::Ignore => {}
            Step::Invalid => return self.unfit(sums, judge),
            Step::Anew => return self.begin_anew(side, sums, at, place, judge),
            Step::End => {
                side.table.remove(at);
            }
        }
        sums.by_state += 1;
        Verdict::NEXT
    }

    /// The next connection between the same ends, if the rules let it begin: nobody else's SYN ends the old one.
    #[cold]
    fn begin_anew<const N: usize>(
        &self,
        side: &mut Side<N>,
        sums: &mut Sums,
        old: Position,
        place: &Place,
        judge: impl FnOnce() -> Verdict,
    ) -> Verdict {
        let verdict = judge();
        if verdict == Verdict::NEXT {
            side.table.remove(old);
            return self.begin(side, sums, place, || verdict);
        }
        verdict
    }

    /// A packet without a connection.
    #[cold]
    fn begin<const N: usize>(
        &self,
        side: &mut Side<N>,
        sums: &mut Sums,
        place: &Place,
        judge: impl FnOnce() -> Verdict,
    ) -> Verdict {
        let Some(state) = State::first(place.kind, self.midstream) else {
            // It may be of a connection that found no room.
            if side.table.on_full() == OnFull::Bypass && place.kind != Kind::Odd && side.table.is_full() {
                sums.stateless += 1;
                return judge();
            }
            return self.unfit(sums, judge);
        };
        let verdict = judge();
        if verdict != Verdict::NEXT {
            return verdict;
        }
        let entry = Entry { state, first_began: place.from_first };
        match side.table.insert(side.keys.key(place.key.into()), state.class(), entry, |_, _| {}) {
            Inserted::New(_) | Inserted::There(_) => verdict,
            Inserted::Full if side.table.on_full() == OnFull::Bypass => {
                sums.stateless += 1;
                verdict
            }
            Inserted::Full => Verdict::drop(self.table_full),
        }
    }

    #[cold]
    fn unfit(&self, sums: &mut Sums, judge: impl FnOnce() -> Verdict) -> Verdict {
        sums.out_of_state += 1;
        match self.invalid {
            Invalid::Drop => Verdict::drop(self.invalid_state),
            Invalid::Match => judge(),
        }
    }
}

/// If the message at `l4` is an echo request or reply: which, and its flow with the identifier as both ports.
fn echo_of(data: &[u8], l4: usize, flow: &FiveTuple) -> Option<(Kind, FiveTuple)> {
    let head: &[u8; 6] = data.get(l4..)?.first_chunk()?;
    let kind = match (flow.proto(), head[0]) {
        (proto::ICMP, echo::REQUEST) | (proto::ICMPV6, echo::REQUEST_V6) => Kind::Request,
        (proto::ICMP, echo::REPLY) | (proto::ICMPV6, echo::REPLY_V6) => Kind::Reply,
        _ => return None,
    };
    let id = u16::from_be_bytes([head[4], head[5]]);
    Some((kind, flow.with_ports(id, id)))
}

/// A connection's key, and whether the sender is the end that it names first. Of pings it says who asked as well, so
/// that two hosts can ping each other with the same identifier.
#[inline]
fn key4(flow: &FiveTuple, kind: Kind) -> ([u8; 16], bool) {
    let from_first = (flow.src_v4(), flow.src_port()) <= (flow.dst_v4(), flow.dst_port());
    let mut key = v4_key(&if from_first { *flow } else { flow.reversed() });
    key[14] = asker(kind, from_first);
    (key, from_first)
}

#[inline]
fn key6(flow: &FiveTuple, kind: Kind) -> ([u8; 48], bool) {
    let number = |bytes| u128::from_be_bytes(bytes);
    let from_first = (number(flow.src_bytes()), flow.src_port()) <= (number(flow.dst_bytes()), flow.dst_port());
    let mut key = v6_key(&if from_first { *flow } else { flow.reversed() });
    key[38] = asker(kind, from_first);
    (key, from_first)
}

#[inline]
fn asker(kind: Kind, from_first: bool) -> u8 {
    match kind {
        Kind::Request => 1 + u8::from(from_first),
        Kind::Reply => 1 + u8::from(!from_first),
        _ => 0,
    }
}
