//! A meter for each flow: which, and when it starts.

use crate::config::{Args, Listed, idle_ms};
use crate::state::Set;
use chainline_dpdk::meter::{Item, Meters};
use chainline_flowtable::{Class, Config, Counters, FlowTable, Inserted, Keys, OnFull, Stats, v4_key, v6_key};
use chainline_nf::{Ctx, Error};
use chainline_packet::FiveTuple;

/// Flows of one IP version. An entry is nothing but a position: the meter of that number is the flow's.
struct Side<const N: usize> {
    table: FlowTable<N, ()>,
    capacity: usize,
    keys: Keys<N>,
    /// The next key of the burst.
    next: usize,
    /// The meter of position 0.
    first: usize,
}

/// Flows of both IP versions.
pub(crate) struct Flows {
    v4: Side<16>,
    v6: Side<48>,
    /// After so long without a packet all buckets of a flow are full.
    idle_ms: u64,
    counters: Counters,
    /// What the tables before this one counted.
    before: Stats,
    /// As long as its flows may come back.
    previous: Option<Box<Previous>>,
}

/// What was in force before the classes were changed: flows that come back go on with the buckets that they had, if their
/// class stayed as it was. They are taken over one by one, when they come, so that a change does not hold up packets.
struct Previous {
    set: Set,
    /// By class now: which it was then.
    classes: Vec<Option<u8>>,
    /// Then all buckets are full, as those of new flows.
    until_ns: u64,
}

impl Previous {
    /// The meters, and which of them was the flow's with this key of now.
    fn meter<const N: usize>(&self, key: &[u8; N], side: fn(&Flows) -> &Side<N>) -> Option<(&Meters, u32)> {
        let side = side(self.set.flows.as_ref()?);
        let mut key = *key;
        let class = key.get_mut(Side::<N>::CLASS)?;
        *class = (*self.classes.get(usize::from(*class))?)?;
        let at = side.table.find_one(&key)?;
        Some((&self.set.meters, (side.first + at.index()) as u32))
    }
}

/// The meters, the burst's packets, and how many of these have been coloured.
pub(crate) type Metering<'a> = (&'a mut Meters, &'a mut [Item], &'a mut usize);

impl Flows {
    /// The first `classes` meters are those of classes.
    pub fn new(args: &Args, listed: &[Listed], classes: usize, counters: Counters) -> Result<Self, Error> {
        let idle_ms = idle_ms(listed)?;
        let v4 = Side::new(args.flows, classes, idle_ms, args.on_full)?;
        let v6 = Side::new(args.flows6, classes + v4.table.positions(), idle_ms, args.on_full)?;
        Ok(Self { v4, v6, idle_ms, counters, before: Stats::default(), previous: None })
    }

    /// Goes on from a set, where each class was the one that `classes` says; returns one that is of no use any more.
    pub fn go_on(&mut self, mut set: Set, classes: Vec<Option<u8>>, now_ns: u64) -> Option<Set> {
        let Some(flows) = set.flows.as_mut().filter(|_| classes.iter().any(Option::is_some)) else {
            return Some(set);
        };
        let older = flows.previous.take().map(|p| p.set);
        let until_ns = now_ns.saturating_add(flows.idle_ms.saturating_mul(1_000_000));
        self.previous = Some(Box::new(Previous { set, classes, until_ns }));
        older
    }

    /// The set before this one, when none of its flows will be taken over any more.
    pub fn let_go(&mut self, now_ns: u64) -> Option<Set> {
        self.previous.take_if(|p| now_ns >= p.until_ns).map(|p| p.set)
    }

    /// Counts on from what the tables before this one counted.
    pub fn count_on(&mut self, before: Stats) {
        self.before = before;
    }

    /// What was counted so far, without flows.
    pub fn so_far(&self) -> Stats {
        Stats { len: 0, ..self.stats() }
    }

    /// There are no flows any more.
    pub fn show_none(&self, ctx: &Ctx<'_>) {
        self.counters.show(&self.so_far(), ctx);
    }

    fn stats(&self) -> Stats {
        self.before.plus(&self.v4.table.stats()).plus(&self.v6.table.stats())
    }

    /// Meters that flows may have.
    pub fn positions(&self) -> usize {
        self.v4.table.positions() + self.v6.table.positions()
    }

    /// For the next burst.
    #[inline]
    pub fn clear(&mut self) {
        self.v4.keys.clear();
        self.v6.keys.clear();
        (self.v4.next, self.v6.next) = (0, 0);
    }

    /// The next packet of the burst that is metered by flow. The class belongs to the key: a flow whose DSCP changes may
    /// be of several.
    #[inline]
    pub fn push(&mut self, flow: &FiveTuple, class: u8) {
        match flow.version() {
            4 => {
                let mut key = v4_key(flow);
                key[Side::<16>::CLASS] = class;
                self.v4.keys.push(0, key);
            }
            _ => {
                let mut key = v6_key(flow);
                key[Side::<48>::CLASS] = class;
                self.v6.keys.push(0, key);
            }
        }
    }

    /// Looks all of them up.
    #[inline]
    pub fn look_up(&mut self, now_ns: u64, meters: &Meters) {
        self.v4.look_up(now_ns, meters);
        self.v6.look_up(now_ns, meters);
    }

    /// The meter of the next packet of this IP version, in the order of [`Flows::push`]; a new flow gets a full one, or that
    /// which it had.
    #[inline]
    pub fn meter(&mut self, version: u8, profile: u8, metering: Metering<'_>) -> Option<u32> {
        let previous = &self.previous;
        if version == 4 {
            self.v4.meter(profile, metering, previous, |flows| &flows.v4)
        } else {
            self.v6.meter(profile, metering, previous, |flows| &flows.v6)
        }
    }

    /// Whether packets of flows without room are dropped.
    pub fn drops_new(&self) -> bool {
        self.v4.table.on_full() == OnFull::DropNew
    }

    pub fn sweep(&mut self, now_ns: u64) {
        self.v4.table.sweep(now_ns, |_, ()| {});
        self.v6.table.sweep(now_ns, |_, ()| {});
    }

    #[inline]
    pub fn show(&self, ctx: &Ctx<'_>) {
        self.counters.show(&self.stats(), ctx);
    }

    /// Flows now, and the bytes that they take when there are as many as there may be.
    pub fn size(&self) -> (usize, u64) {
        let meters = 32 * self.positions() as u64;
        let tables = FlowTable::<16, ()>::memory_bytes(self.v4.capacity as u32)
            + FlowTable::<48, ()>::memory_bytes(self.v6.capacity as u32);
        (self.v4.table.len() + self.v6.table.len(), meters + tables)
    }
}

impl<const N: usize> Side<N> {
    /// Where the class stands in a key.
    const CLASS: usize = if N == 16 { 14 } else { 40 };

    fn new(capacity: u32, first: usize, idle_ms: u64, on_full: OnFull) -> Result<Self, Error> {
        let config = Config { capacity, timeouts_ms: &[idle_ms], on_full };
        let table = FlowTable::new(&config).map_err(|e| Error::Library(format!("policer: {e}")))?;
        Ok(Self { table, capacity: capacity as usize, keys: Keys::new(), next: 0, first })
    }

    #[inline]
    fn look_up(&mut self, now_ns: u64, meters: &Meters) {
        if self.keys.is_empty() {
            self.table.advance(now_ns);
            return;
        }
        self.table.look_up(&mut self.keys, now_ns);
        for i in 0..self.keys.len() {
            if let Some(at) = self.table.find(&self.keys, i) {
                meters.prefetch(self.first + at.index());
            }
        }
    }

    #[inline]
    fn meter(
        &mut self,
        profile: u8,
        metering: Metering<'_>,
        previous: &Option<Box<Previous>>,
        side: fn(&Flows) -> &Self,
    ) -> Option<u32> {
        let i = self.next;
        self.next += 1;
        let at = match self.table.get(&self.keys, i) {
            Some((at, ())) => at.index(),
            None => self.admit(i, profile, metering, |key| previous.as_ref()?.meter(key, side))?,
        };
        Some((self.first + at) as u32)
    }

    /// A new flow, or one that was there before the classes were changed.
    #[cold]
    fn admit<'a>(
        &mut self,
        i: usize,
        profile: u8,
        (meters, items, coloured): Metering<'_>,
        before: impl FnOnce(&[u8; N]) -> Option<(&'a Meters, u32)>,
    ) -> Option<usize> {
        // A full table may give it the position of a flow that has packets in this burst: these go first.
        if self.table.len() >= self.capacity {
            meters.colour(items.get_mut(*coloured..).unwrap_or_default());
            *coloured = items.len();
        }
        match self.table.insert(self.keys.key(i), Class(0), (), |_, ()| {}) {
            Inserted::New(at) => {
                let meter = (self.first + at.index()) as u32;
                match before(self.keys.key(i)) {
                    Some((old, old_meter)) => meters.take(meter, old, old_meter),
                    None => meters.start(meter, profile),
                }
                Some(at.index())
            }
            Inserted::There(at) => Some(at.index()),
            Inserted::Full => None,
        }
    }
}
