//! What a running `nat` keeps.

use crate::book::{Back, Book, Out};
use crate::config::{Addresses, Args};
use crate::pool::Pool;
use crate::rewrite::Place;
use crate::track::Origin;
use chainline_flowtable::{self as flowtable, Config, FlowTable, Keys, OnFull};
use chainline_nf::{Counter, Ctx, Env, Error, MAX_BURST, Reason, Target};
use std::hash::{BuildHasher, RandomState};

/// Later fragments find their way by what the first one said, for this long.
const FRAGMENT_MS: u64 = 30_000;
/// Datagrams in fragments at one time.
const FRAGMENTS: u32 = 8192;

/// What is to be done with a packet of the burst.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Way {
    /// It is not this NAT's.
    #[default]
    Pass,
    Drop(Reason),
    /// From inside, with its key's place; `hairpin`: to an external address of the pool.
    Out {
        key: u8,
        place: Place,
        hairpin: bool,
    },
    /// From outside.
    Back {
        key: u8,
        place: Place,
    },
    /// A later fragment or an ICMP error.
    Rare(Origin),
}

/// What became of a datagram's first fragment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memo {
    pub src: [u8; 4],
    pub dst: [u8; 4],
    pub hairpin: bool,
}

/// Flows, mappings, ports.
pub struct State {
    pub(crate) out: FlowTable<16, Out>,
    pub(crate) book: Book,
    pub(crate) fragments: FlowTable<16, Memo>,
    /// Of the burst at hand.
    pub(crate) out_keys: Keys<16>,
    pub(crate) back_keys: Keys<16>,
    pub(crate) ways: Box<[Way; MAX_BURST]>,
    pub(crate) inside: Addresses,
    pub(crate) inside_chains: Option<Vec<u16>>,
    pub(crate) hairpin: Option<Target>,
    pub(crate) inbound_refresh: bool,
    pub(crate) counters: Counters,
    pub(crate) reasons: Reasons,
    /// The burst's.
    pub(crate) sums: Sums,
}

pub(crate) struct Counters {
    pub flows: flowtable::Counters,
    pub mappings: flowtable::Counters,
    pub out: Counter,
    pub back: Counter,
    pub hairpinned: Counter,
    pub icmp_errors: Counter,
    pub fragments: Counter,
    pub other: Counter,
    pub reused: Counter,
    pub subscribers: Counter,
}

pub(crate) struct Reasons {
    pub malformed: Reason,
    pub fragment: Reason,
    pub protocol: Reason,
    pub icmp: Reason,
    pub source: Reason,
    pub destination: Reason,
    pub no_mapping: Reason,
    pub filtered: Reason,
    pub tcp_state: Reason,
    pub no_port: Reason,
    pub limit: Reason,
    pub table_full: Reason,
}

#[derive(Default)]
pub(crate) struct Sums {
    pub out: u64,
    pub back: u64,
    pub other: u64,
}

impl State {
    pub(crate) fn new(args: &Args, env: &mut Env<'_>) -> Result<Self, Error> {
        let (inside, addresses) = args.check()?;
        let hairpin = args.hairpin.as_ref().map(|name| env.target(name)).transpose()?;
        let mut count = |name: &str, help: &str| env.counter(name, "packets", help);
        let (out, back) = (
            count("translated_out", "packets from inside that got an external source"),
            count("translated_in", "packets from outside that got a destination inside"),
        );
        let hairpinned = count("hairpinned", "packets from inside to a host inside by its external address");
        let icmp_errors = count("icmp_errors", "ICMP errors that were translated with what they quote");
        let fragments = count("fragments", "fragments that were translated");
        let other = count("other", "packets that are not this NAT's, passed on as they are");
        let reused = env.counter("ports_reused", "entries", "flows that got a port which may serve others as well");
        let subscribers = env.level("subscribers", "entries", "hosts inside that have a mapping");
        let counters = Counters {
            flows: flowtable::Counters::declare(env, "flows"),
            mappings: flowtable::Counters::declare(env, "mappings"),
            out,
            back,
            hairpinned,
            icmp_errors,
            fragments,
            other,
            reused,
            subscribers,
        };
        let mut reason = |name: &str| env.drop_reason(name);
        let reasons = Reasons {
            malformed: reason("malformed"),
            fragment: reason("fragment"),
            protocol: reason("protocol"),
            icmp: reason("icmp"),
            source: reason("source"),
            destination: reason("destination"),
            no_mapping: reason("no_mapping"),
            filtered: reason("filtered"),
            tcp_state: reason("tcp_state"),
            no_port: reason("no_port"),
            limit: reason("subscriber_limit"),
            table_full: reason("table_full"),
        };
        let t = &args.timeouts;
        // In the order of the classes in `track`.
        let ms = [t.tcp_transitory_s, t.tcp_established_s, t.tcp_unanswered_s, t.udp_unanswered_s, t.udp_s, t.icmp_s]
            .map(|s| u64::from(s) * 1000);
        let failed = |e: flowtable::ConfigError| Error::Library(format!("nat: {e}"));
        let flows = Config { capacity: args.flows, timeouts_ms: &ms, on_full: args.on_full };
        let memos = Config { capacity: FRAGMENTS, timeouts_ms: &[FRAGMENT_MS], on_full: OnFull::EvictOldest };
        let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        let pool = Pool::new(addresses, args.ports, args.blocks.map_or(0, |b| b.ports), seed);
        Ok(Self {
            out: FlowTable::new(&flows).map_err(failed)?,
            book: Book::new(args, pool).map_err(failed)?,
            fragments: FlowTable::new(&memos).map_err(failed)?,
            out_keys: Keys::new(),
            back_keys: Keys::new(),
            ways: Box::new([Way::Pass; MAX_BURST]),
            inside,
            inside_chains: args.inside_chains.clone(),
            hairpin,
            inbound_refresh: args.inbound_refresh,
            counters,
            reasons,
            sums: Sums::default(),
        })
    }

    /// Shows the burst's counts.
    #[inline]
    pub(crate) fn show(&mut self, ctx: &Ctx<'_>) {
        let sums = std::mem::take(&mut self.sums);
        ctx.count(self.counters.out, sums.out);
        ctx.count(self.counters.back, sums.back);
        ctx.count(self.counters.other, sums.other);
        ctx.set(self.counters.subscribers, self.book.subscribers.len() as u64);
        self.counters.flows.show_table(&self.out, ctx);
        self.counters.mappings.show_table(&self.book.mappings, ctx);
    }
}

// A slot of the tables that every packet touches is half a cache line.
const _: () = assert!(size_of::<Out>() <= 28 && size_of::<Back>() <= 24);
