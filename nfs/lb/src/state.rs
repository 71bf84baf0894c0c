//! What a running `lb` keeps.

use crate::config::{Args, Passive};
use crate::pool::{Pool, Signs};
use crate::rewrite::Place;
use crate::services::{self, Service};
use chainline_flowtable::{self as flowtable, Class, Config, FlowTable, Inserted, Keys, OnFull, Position};
use chainline_nf::{Counter, Ctx, Env, Error, MAX_BURST, Reason};
use chainline_packet::ether::Mac;
use chainline_reload::Reload;

/// What belongs to a flow: its backend's slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    pub backend: u32,
}

/// Classes of flows, see [`crate::config::Timeouts`].
pub(crate) const OPENING: Class = Class(0);
pub(crate) const ESTABLISHED: Class = Class(1);
pub(crate) const CLOSING: Class = Class(2);
pub(crate) const UDP: Class = Class(3);

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Later fragments find their way by what the first one said, for this long.
const FRAGMENT_MS: u64 = 30_000;
/// Datagrams in fragments at one time.
const FRAGMENTS: u32 = 8192;

/// The flows of one IP version, and those of the burst at hand.
pub(crate) struct Side<const N: usize> {
    pub table: FlowTable<N, Flow>,
    pub keys: Keys<N>,
    /// For each key.
    pub places: Box<[Place; MAX_BURST]>,
}

impl<const N: usize> Side<N> {
    fn new(flows: u32, args: &Args) -> Result<Self, Error> {
        let t = &args.timeouts;
        let ms = [t.tcp_opening_s, t.tcp_s, t.tcp_closing_s, t.udp_s].map(|s| u64::from(s) * 1000);
        let config = Config { capacity: flows, timeouts_ms: &ms, on_full: args.on_full };
        let table = FlowTable::new(&config).map_err(|e| Error::Library(format!("lb: {e}")))?;
        Ok(Self { table, keys: Keys::new(), places: Box::new([Place::default(); MAX_BURST]) })
    }

    #[inline]
    pub fn push(&mut self, at: usize, key: [u8; N], place: Place) {
        if let Some(p) = self.places.get_mut(self.keys.len()) {
            *p = place;
        }
        self.keys.push(at, key);
    }
}

/// Where the rest of a datagram goes: a backend's slot, on the way there or back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    pub backend: u32,
    pub back: bool,
}

/// Services, flows, counters.
pub struct State {
    pub(crate) v4: Side<16>,
    pub(crate) v6: Side<48>,
    pub(crate) fragments: FlowTable<48, Way>,
    pub(crate) core: Core,
    pub(crate) reload: Reload<Vec<Service>>,
}

/// What both IP versions have in common.
pub(crate) struct Core {
    pub pool: Pool,
    pub mac: Option<Mac>,
    pub passive: Option<Passive>,
    /// A backend was taken for dead since the last tick.
    pub new_suspect: bool,
    pub counters: Counters,
    pub reasons: Reasons,
    /// The burst's.
    pub sums: Sums,
}

pub(crate) struct Counters {
    pub flows: flowtable::Counters,
    pub balanced: Counter,
    pub returned: Counter,
    pub other: Counter,
    pub icmp: Counter,
    pub fragments: Counter,
    pub moved: Counter,
    pub stateless: Counter,
    pub suspected: Counter,
}

pub(crate) struct Reasons {
    pub no_backend: Reason,
    pub table_full: Reason,
    pub malformed: Reason,
    pub fragment: Reason,
}

#[derive(Default)]
pub(crate) struct Sums {
    pub balanced: u64,
    pub returned: u64,
    pub other: u64,
}

impl State {
    pub(crate) fn new(args: &Args, env: &mut Env<'_>) -> Result<Self, Error> {
        let mac = args.check()?;
        let path = args.services.as_ref().map(|file| env.path(file));
        let mut count = |name: &str, unit: &str, help: &str| env.counter(name, unit, help);
        let counters = Counters {
            balanced: count("balanced", "packets", "packets sent to a backend"),
            returned: count("returned", "packets", "replies that got their service's address"),
            other: count("other", "packets", "packets that are no service's, passed on as they are"),
            icmp: count("icmp_related", "packets", "ICMP errors that were sent where their flow goes"),
            fragments: count("fragments", "packets", "fragments that were sent where their datagram goes"),
            moved: count("flows_moved", "entries", "flows whose backend was down or gone, sent to another"),
            stateless: count("stateless", "packets", "packets of flows that found no room, sent by the table alone"),
            suspected: count("backends_suspected", "entries", "times that a backend was taken for dead"),
            flows: flowtable::Counters::declare(env, "flows"),
        };
        let mut reload = Reload::new(env, "services", path.clone(), args.reload_s);
        let services = match path {
            Some(path) => {
                let services = services::read(&path)?;
                reload.start(move || services::read(&path))?;
                services
            }
            None => services::parse(&args.services_inline.join("\n")).map_err(|(line, fault)| {
                let place = format!("args.services_inline[{}]", line - 1);
                Error::Args(format!("{place}, column {}: {}", fault.column, fault.message))
            })?,
        };
        let mut reason = |name: &str| env.drop_reason(name);
        let reasons = Reasons {
            no_backend: reason("no_backend"),
            table_full: reason("table_full"),
            malformed: reason("malformed"),
            fragment: reason("fragment"),
        };
        let config = Config { capacity: FRAGMENTS, timeouts_ms: &[FRAGMENT_MS], on_full: OnFull::EvictOldest };
        Ok(Self {
            v4: Side::new(args.flows, args)?,
            v6: Side::new(args.flows6, args)?,
            fragments: FlowTable::new(&config).map_err(|e| Error::Library(format!("lb: {e}")))?,
            core: Core {
                pool: Pool::new(services, args.table_size),
                mac,
                passive: args.passive.clone(),
                new_suspect: false,
                counters,
                reasons,
                sums: Sums::default(),
            },
            reload,
        })
    }
}

impl Core {
    /// The backend of a flow. `found` is its entry, if it has one.
    #[inline]
    pub fn backend<const N: usize>(
        &mut self,
        table: &mut FlowTable<N, Flow>,
        found: Option<(Position, Flow)>,
        place: &Place,
    ) -> Option<u32> {
        let (at, flow) = found?;
        let service = self.pool.services.get(place.service as usize)?;
        let backend = self.pool.backends.get(flow.backend as usize)?;
        // A slot may have passed on, and ports from one service to another.
        if !backend.alive || backend.service != service.id {
            return None;
        }
        if place.tcp {
            track(table, at, place.flags);
        }
        Some(flow.backend)
    }

    /// A backend for a flow that has none, or one that is gone.
    #[cold]
    pub fn assign<const N: usize>(
        &mut self,
        table: &mut FlowTable<N, Flow>,
        key: &[u8; N],
        found: Option<Position>,
        place: &Place,
        hash: u32,
        ctx: &Ctx<'_>,
    ) -> Result<u32, Reason> {
        let service = self.pool.services.get(place.service as usize);
        let backend = service.and_then(|s| s.pick(hash)).ok_or(self.reasons.no_backend)?;
        let records = &mut self.pool.records;
        let class = if place.tcp { OPENING } else { UDP };
        if let Some((at, flow)) = found.and_then(|at| Some((at, table.entry_mut(at)?))) {
            leave(records, flow.backend);
            flow.backend = backend;
            table.set_class(at, class);
            ctx.count(self.counters.moved, 1);
        } else {
            let gone = |_: &[u8; N], flow: &Flow| leave(records, flow.backend);
            match table.insert(key, class, Flow { backend }, gone) {
                Inserted::New(_) => {}
                // The caller looked: it is not there.
                Inserted::There(_) => return Ok(backend),
                Inserted::Full if table.on_full() == OnFull::DropNew => return Err(self.reasons.table_full),
                Inserted::Full => {
                    ctx.count(self.counters.stateless, 1);
                    return Ok(backend);
                }
            }
        }
        if let Some(record) = self.pool.records.get_mut(backend as usize) {
            record.flows += 1;
            record.flows_total += 1;
            if place.tcp && place.flags & (SYN | ACK) == SYN {
                self.expect_answer(backend, ctx);
            }
        }
        Ok(backend)
    }

    /// A new connection went to a backend.
    fn expect_answer(&mut self, backend: u32, ctx: &Ctx<'_>) {
        let is_nat = self.pool.backends.get(backend as usize).is_some_and(|b| b.nat.is_some());
        if let (Some(_), true, Some(record)) = (&self.passive, is_nat, self.pool.records.get_mut(backend as usize)) {
            record.signs.unanswered = record.signs.unanswered.saturating_add(1);
            self.judge(backend, ctx);
        }
    }

    /// A backend answered: `flags` are TCP's, 0 of others; `refusal` if this is the RST of a closed port.
    #[inline]
    pub fn answered(&mut self, backend: u32, refusal: bool, ctx: &Ctx<'_>) {
        if self.passive.is_none() {
            return;
        }
        let Some(record) = self.pool.records.get_mut(backend as usize) else { return };
        if refusal {
            record.signs.refused = record.signs.refused.saturating_add(1);
            self.judge(backend, ctx);
        } else {
            record.signs = Signs { suspect_until_ns: record.signs.suspect_until_ns, ..Signs::default() };
        }
    }

    /// Whether a backend is to be taken for dead.
    #[cold]
    fn judge(&mut self, backend: u32, ctx: &Ctx<'_>) {
        let (Some(passive), Some(record)) = (&self.passive, self.pool.records.get_mut(backend as usize)) else {
            return;
        };
        let (signs, now_ns) = (&mut record.signs, ctx.now_ns());
        if signs.since_ns == 0 {
            signs.since_ns = now_ns.max(1);
        }
        let silent = now_ns.saturating_sub(signs.since_ns) >= u64::from(passive.silent_ms) * 1_000_000;
        let many = signs.unanswered.max(signs.refused) >= passive.failures;
        if many && silent && signs.suspect_until_ns == 0 {
            signs.suspect_until_ns = now_ns + u64::from(passive.retry_s) * 1_000_000_000;
            self.new_suspect = true;
            ctx.count(self.counters.suspected, 1);
        }
    }

    /// Ends suspicions whose time is over; whether tables must be built anew.
    pub fn suspects_changed(&mut self, now_ns: u64) -> bool {
        let mut changed = std::mem::take(&mut self.new_suspect);
        if self.passive.is_some() {
            for record in &mut self.pool.records {
                if (1..=now_ns).contains(&record.signs.suspect_until_ns) {
                    record.signs = Signs::default();
                    changed = true;
                }
            }
        }
        changed
    }

    /// Shows the burst's counts.
    #[inline]
    pub fn show(&mut self, ctx: &Ctx<'_>) {
        let sums = std::mem::take(&mut self.sums);
        ctx.count(self.counters.balanced, sums.balanced);
        ctx.count(self.counters.returned, sums.returned);
        ctx.count(self.counters.other, sums.other);
    }
}

/// Whether a reply's TCP header is the RST of a closed port: it has sequence number 0 (RFC 9293 §3.10.7.1).
pub(crate) fn is_refusal(data: &[u8], place: &Place) -> bool {
    place.tcp
        && place.flags & (RST | ACK) == RST | ACK
        && data.get(usize::from(place.l4) + 4..usize::from(place.l4) + 8) == Some(&[0; 4])
}

/// A flow left a backend.
pub(crate) fn leave(records: &mut [crate::pool::Record], backend: u32) {
    if let Some(record) = records.get_mut(backend as usize) {
        record.flows = record.flows.saturating_sub(1);
    }
}

/// Follows a TCP connection by what the client sends.
#[inline]
fn track<const N: usize>(table: &mut FlowTable<N, Flow>, at: Position, flags: u8) {
    let Some(class) = table.class(at) else { return };
    let next = if flags & (FIN | RST) != 0 {
        CLOSING
    } else if flags & SYN != 0 {
        // The same again is a retransmission; after an end it is a new connection.
        if class == CLOSING { OPENING } else { return }
    } else if class == OPENING {
        ESTABLISHED
    } else {
        return;
    };
    table.set_class(at, next);
}
