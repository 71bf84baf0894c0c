//! What a run says: the numbers of an interval while it lasts, and the report at its end. Every number here was
//! measured; what this host cannot measure is `null`. Rates are of packets and bits without FCS, preamble and gap.

use crate::control::{ControlReport, Ended as ControlEnded, PressureReport, Standing};
use crate::dataplane::{ChainLedger, Snapshot};
use crate::environment::Environment;
use crate::fabric::Fabric;
use crate::supervisor::{NfTotals, Usage};
use chainline_chain::plan::Plan;
use chainline_nf::Declared;
use chainline_runtime::host::{TAG_BAD_VERDICT, TAG_QUEUE_FULL};
use chainline_storage::StorageReport;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

/// Packets by reason.
pub type Drops = BTreeMap<String, u64>;

/// Counters by name.
pub type Counters = BTreeMap<String, u64>;

/// Something that happened during a run.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Happening {
    /// Seconds since the chain ran.
    pub at_s: f64,
    /// The instance it happened to.
    pub instance: Option<String>,
    /// What.
    pub what: String,
}

/// Nanoseconds at percentiles.
#[derive(Clone, Copy, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Latency {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// 99.99th percentile.
    pub p99_99: u64,
    /// Largest.
    pub max: u64,
}

impl Latency {
    fn of(h: &Histogram<u64>) -> Self {
        let at = |q| h.value_at_quantile(q);
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999), p99_99: at(0.9999), max: h.max() }
    }
}

/// The accounts of the whole run: `received = transmitted + dropped + held`.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct LedgerReport {
    /// Packets that ports received.
    pub received: u64,
    /// Packets that ports sent.
    pub transmitted: u64,
    /// Packets dropped, by reason.
    pub dropped: Drops,
    /// Packets still inside, counted buffer by buffer.
    pub held: u64,
    /// Whether the equation holds, for each chain and for all.
    pub balanced: bool,
}

/// One chain.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct ChainReport {
    /// Packets that the classifier gave to it.
    pub received: u64,
    /// Packets that a port sent.
    pub transmitted: u64,
    /// Packets dropped at the entry, before any work.
    pub shed: u64,
    /// Packets dropped anywhere, by reason; `shed` is among them.
    pub dropped: Drops,
    /// Of the dropped ones, those dropped for lack of room after at least one NF had worked on them.
    pub wasted: u64,
    /// Packets that were marked "congestion experienced" (RFC 3168).
    pub ecn_marked: u64,
    /// What backpressure did.
    pub backpressure: PressureReport,
    /// Packets still inside at the end.
    pub held: u64,
    /// Packets sent a second.
    pub pps: f64,
    /// Bits sent a second.
    pub bps: f64,
    /// Nanoseconds from receipt (or the time at which a paced source should have sent) to hand-over to the port.
    pub latency_ns: Latency,
}

/// One NF. Core time and switches are those of its instance, which fused NFs share.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct NfReport {
    /// The instance that hosts it.
    pub instance: String,
    /// Packets handed to it.
    pub received: u64,
    /// Packets that it passed on.
    pub transmitted: u64,
    /// Packets that it dropped, by reason.
    pub dropped: Drops,
    /// Packets dropped for lack of room after at least one NF had worked on them; counted at the last that had.
    pub wasted: u64,
    /// Packets handed to it a second.
    pub pps: f64,
    /// Share of one core.
    pub cpu_share: f64,
    /// Nanoseconds that it takes for a packet; sampled.
    pub cost_ns: Cost,
    /// Packets a second that were meant for it when last read: those among them that were shed before it are counted.
    pub arrival_pps: f64,
    /// Cores' worth of work that they are: `arrival_pps` times the median time of a packet over 100 ms.
    pub load: f64,
    /// How its instance was scheduled at the end.
    pub sched: Option<Standing>,
    /// How its instance waited for packets: `wake`, `poll` or `hybrid`.
    pub activation: String,
    /// Nanoseconds on a core.
    pub run_ns: u64,
    /// Nanoseconds runnable, but not running.
    pub run_delay_ns: u64,
    /// Switches as it went to sleep.
    pub voluntary_switches: u64,
    /// Switches as it was pre-empted.
    pub involuntary_switches: u64,
    /// Times that it was started again.
    pub restarts: u64,
    /// Nanoseconds from start to ready.
    pub start_ns: Option<u64>,
    /// Its own counters, as its kind names them (`chainline describe nf KIND`), in the units that stand there.
    pub counters: Counters,
    /// What it says for itself.
    pub report: Option<String>,
    /// Its files; `null` if it has none, or did not end as told.
    pub storage: Option<StorageReport>,
}

/// The loop that moves packets between ports and NFs.
#[derive(Clone, Copy, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct ManagerReport {
    /// The core that it polls on.
    pub core: usize,
    /// Times that it rested, as an NF that has this core and no other had packets (docs/scheduling.md).
    pub rests: u64,
}

/// Nanoseconds a packet.
#[derive(Clone, Copy, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Cost {
    /// Median; `null` if no burst was sampled.
    pub p50: Option<u64>,
}

/// What a sink with `check: true` read from the stamps of a generator with `stamp: true`. In a steered run, of its last
/// trial.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct CheckReport {
    /// Frames that arrived; those that came several times count once.
    pub received: u64,
    /// Frames that had arrived before.
    pub duplicated: u64,
    /// Frames that came after a later one of their flow (RFC 4737 section 3).
    pub reordered: u64,
    /// Frames without a stamp of ours.
    pub foreign: u64,
    /// Nanoseconds from when a frame should have been sent to when it came to the sink.
    pub latency_ns: Latency,
    /// Mean difference of the latencies of successive frames, in nanoseconds; `null` of fewer than two.
    pub jitter_ns: Option<f64>,
}

/// The report of a run.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[schemars(title = "Report of chainline run")]
pub struct Report {
    /// Where it ran.
    pub environment: Environment,
    /// Seconds from the first look at the ports to the last.
    pub duration_s: f64,
    /// All packets.
    pub ledger: LedgerReport,
    /// By chain.
    pub chains: BTreeMap<String, ChainReport>,
    /// By NF.
    pub nfs: BTreeMap<String, NfReport>,
    /// What moves packets between ports and NFs.
    pub manager: ManagerReport,
    /// What advises the kernel's scheduler.
    pub control: ControlReport,
    /// By port, what sinks that read stamps found.
    pub checks: BTreeMap<String, CheckReport>,
    /// What happened.
    pub happenings: Vec<Happening>,
}

/// What a supervisor has at the end of a run.
pub(crate) struct Ended<'a> {
    pub plan: &'a Plan,
    pub fabric: &'a Fabric,
    pub duration: Duration,
    pub last: Box<Snapshot>,
    pub totals: Vec<NfTotals>,
    pub usage: Vec<Usage>,
    pub restarts: Vec<u64>,
    pub start_ns: Vec<Option<u64>>,
    pub declared: Vec<Vec<Declared>>,
    /// By instance and NF.
    pub counters: Vec<Vec<Counters>>,
    pub reports: Vec<Vec<Option<String>>>,
    pub storage: Vec<Vec<Option<StorageReport>>>,
    pub control: ControlEnded,
    pub happenings: Vec<Happening>,
}

/// The name of the reason that an NF's tag stands for.
pub(crate) fn reason(declared: Option<&Declared>, tag: usize) -> String {
    const HOSTS: [(u8, &str); 2] = [(TAG_BAD_VERDICT, "bad_verdict"), (TAG_QUEUE_FULL, "queue_full")];
    if let Some((_, name)) = HOSTS.iter().find(|(own, _)| usize::from(*own) == tag) {
        return (*name).to_owned();
    }
    declared.and_then(|d| d.drop_reasons.get(tag)).map_or_else(|| format!("reason_{tag}"), Clone::clone)
}

impl Report {
    pub(crate) fn new(e: Ended<'_>) -> Self {
        let seconds = e.duration.as_secs_f64().max(1e-9);
        let declared = |nf: usize| {
            let i = e.plan.nfs[nf].instance;
            let k = e.plan.instances[i].nfs.iter().position(|n| *n == nf)?;
            e.declared[i].get(k)
        };
        let mut all = Drops::new();
        let mut balanced = true;
        let (mut received, mut transmitted, mut held) = (0, 0, 0);
        let mut chains = BTreeMap::new();
        // A chain that was changed at run time has several accounts under one name.
        let mut named: BTreeMap<&str, (Cow<'_, ChainLedger>, Drops, PressureReport)> = BTreeMap::new();
        for (id, (plan, c)) in e.plan.chains.iter().zip(&e.last.chains).enumerate() {
            let dropped = chain_drops(c, &plan.hops, &declared);
            for (reason, n) in &dropped {
                *all.entry(reason.clone()).or_default() += n;
            }
            balanced &= c.received == c.transmitted + c.dropped() + c.held;
            received += c.received;
            transmitted += c.transmitted;
            held += c.held;
            let pressure = e.control.pressure.get(id).copied().unwrap_or_default();
            match named.get_mut(plan.name.as_str()) {
                None => _ = named.insert(&plan.name, (Cow::Borrowed(c), dropped, pressure)),
                Some((sum, drops, before)) => {
                    sum.to_mut().add(c);
                    before.add(&pressure);
                    dropped.into_iter().for_each(|(reason, n)| *drops.entry(reason).or_default() += n);
                }
            }
        }
        for (name, (c, dropped, backpressure)) in named {
            let report = ChainReport {
                received: c.received,
                transmitted: c.transmitted,
                shed: c.shed,
                dropped,
                wasted: c.wasted(),
                ecn_marked: c.ecn_marked,
                backpressure,
                held: c.held,
                pps: c.transmitted as f64 / seconds,
                bps: c.transmitted_bytes as f64 * 8.0 / seconds,
                latency_ns: c.latency.as_ref().map(Latency::of).unwrap_or_default(),
            };
            chains.insert(name.to_owned(), report);
        }
        for p in &e.last.ports {
            for (name, n) in p.lost() {
                received += n;
                if n > 0 {
                    *all.entry(name.into()).or_default() += n;
                }
            }
        }
        // Two countings that know nothing of each other: the accounts, and the buffers.
        balanced &= held == e.last.held_counted;
        balanced &= received == transmitted + all.values().sum::<u64>() + e.last.held_counted;
        let mut nfs = BTreeMap::new();
        for (id, nf) in e.plan.nfs.iter().enumerate() {
            let (usage, totals) = (&e.usage[nf.instance], &e.totals[id]);
            let drops = e.last.nf_drops[id].iter().enumerate().filter(|(_, n)| **n > 0);
            let place = e.plan.instances[nf.instance].nfs.iter().position(|n| *n == id).unwrap_or(0);
            let queue_full = e.last.nf_drops[id][usize::from(TAG_QUEUE_FULL)];
            let last_of = e.plan.chains.iter().zip(&e.last.chains).filter(|(c, _)| c.hops.last() == Some(&id));
            let report = NfReport {
                instance: e.plan.instances[nf.instance].name.clone(),
                received: totals.received,
                transmitted: totals.passed.saturating_sub(queue_full),
                dropped: drops.map(|(tag, n)| (reason(declared(id), tag), *n)).collect(),
                wasted: queue_full + last_of.map(|(_, c)| c.port_full).sum::<u64>(),
                pps: totals.received as f64 / seconds,
                cpu_share: usage.run_ns as f64 / 1e9 / seconds,
                cost_ns: Cost { p50: totals.median_cost_ns(None) },
                arrival_pps: e.control.loads.get(id).map_or(0.0, |l| l.0),
                load: e.control.loads.get(id).map_or(0.0, |l| l.2),
                sched: e.control.instances.get(nf.instance).cloned().flatten(),
                activation: e.plan.instances[nf.instance].activation.word().to_owned(),
                run_ns: usage.run_ns,
                run_delay_ns: usage.run_delay_ns,
                voluntary_switches: usage.voluntary,
                involuntary_switches: usage.involuntary,
                restarts: e.restarts[nf.instance],
                start_ns: e.start_ns[nf.instance],
                counters: counters(&e, id),
                report: e.reports[nf.instance].get(place).cloned().flatten(),
                storage: e.storage[nf.instance].get(place).cloned().flatten(),
            };
            match nfs.entry(nf.name.clone()) {
                Entry::Vacant(place) => _ = place.insert(report),
                Entry::Occupied(mut place) => {
                    let (one, other) = (std::mem::replace(place.get_mut(), report), e.plan.has_nf(id));
                    place.get_mut().follow(one, other);
                }
            }
        }
        let mut happenings = e.happenings;
        let at_s = e.duration.as_secs_f64();
        happenings.extend(e.last.close_errors.iter().map(|what| Happening {
            at_s,
            instance: None,
            what: what.clone(),
        }));
        if e.last.refused > 0 {
            let what = format!("the manager refused {} descriptors", e.last.refused);
            happenings.push(Happening { at_s, instance: None, what });
        }
        Self {
            environment: Environment::of(e.fabric),
            duration_s: e.duration.as_secs_f64(),
            ledger: LedgerReport { received, transmitted, dropped: all, held: e.last.held_counted, balanced },
            chains,
            nfs,
            manager: ManagerReport { core: e.plan.manager_core, rests: e.last.rests },
            control: e.control.report,
            checks: e.last.checked.iter().map(|(p, c)| (e.plan.ports[*p].name.clone(), CheckReport::of(c))).collect(),
            happenings,
        }
    }
}

impl NfReport {
    /// The same NF under another id: counts add up; the rest is that of the one in force, this one or the other.
    fn follow(&mut self, mut other: Self, in_force: bool) {
        if !in_force {
            std::mem::swap(self, &mut other);
        }
        self.received += other.received;
        self.transmitted += other.transmitted;
        other.dropped.into_iter().for_each(|(reason, n)| *self.dropped.entry(reason).or_default() += n);
        self.wasted += other.wasted;
        self.pps += other.pps;
        self.cpu_share += other.cpu_share;
        self.run_ns += other.run_ns;
        self.run_delay_ns += other.run_delay_ns;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.restarts += other.restarts;
        for (name, n) in other.counters {
            // An instance's word: a liar's numbers may wrap.
            let sum = self.counters.entry(name).or_default();
            *sum = sum.wrapping_add(n);
        }
        self.report = self.report.take().or(other.report);
    }
}

/// An NF's own counters. Who is gone since a change at run time has nothing in its tables any more.
fn counters(e: &Ended<'_>, id: usize) -> Counters {
    let instance = e.plan.nfs[id].instance;
    let place = e.plan.instances[instance].nfs.iter().position(|n| *n == id).unwrap_or(0);
    let mut all = e.counters[instance].get(place).cloned().unwrap_or_default();
    if let Some(declared) = e.declared[instance].get(place).filter(|_| !e.plan.has_nf(id)) {
        for level in declared.counters.iter().filter(|c| c.level) {
            all.insert(level.name.clone(), 0);
        }
    }
    all
}

impl CheckReport {
    fn of(c: &crate::ports::Checked) -> Self {
        Self {
            received: c.received,
            duplicated: c.duplicated,
            reordered: c.reordered,
            foreign: c.foreign,
            latency_ns: c.latency.as_ref().map(Latency::of).unwrap_or_default(),
            jitter_ns: c.jitter.mean_ns(),
        }
    }
}

fn chain_drops<'a>(c: &ChainLedger, hops: &[usize], declared: &impl Fn(usize) -> Option<&'a Declared>) -> Drops {
    let mut drops = Drops::new();
    let own = [
        ("shed", c.shed),
        ("no_buffer", c.no_buffer),
        ("nf_died", c.nf_died),
        ("nf_down", c.nf_down),
        ("reconfigured", c.reconfigured),
        ("port_full", c.port_full),
    ];
    for (name, n) in own.into_iter().filter(|(_, n)| *n > 0) {
        drops.insert(name.into(), n);
    }
    for (at, n) in c.drops.iter().enumerate().filter(|(_, n)| **n > 0) {
        *drops.entry(reason(declared(hops[at / 256]), at % 256)).or_default() += n;
    }
    drops
}

/// The accounts so far.
pub(crate) struct Accounts {
    /// All packets.
    pub all: chainline_ctl::Totals,
    /// By chain, in file order.
    pub chains: Vec<chainline_ctl::Totals>,
}

/// The accounts as a snapshot has them.
pub(crate) fn accounts(plan: &Plan, words: &[&[Declared]], now: &Snapshot) -> Accounts {
    let declared = |nf: usize| {
        let i = plan.nfs[nf].instance;
        words[i].get(plan.instances[i].nfs.iter().position(|n| *n == nf)?)
    };
    let mut all = chainline_ctl::Totals::default();
    let order = plan.chains_in_force();
    let place: BTreeMap<&str, usize> =
        order.iter().enumerate().map(|(k, c)| (plan.chains[*c].name.as_str(), k)).collect();
    let mut chains = vec![chainline_ctl::Totals::default(); order.len()];
    for (plan, c) in plan.chains.iter().zip(&now.chains) {
        // What was changed at run time counts under its name; what is gone counts in all.
        let own = place.get(plan.name.as_str()).map(|k| &mut chains[*k]);
        let dropped = chain_drops(c, &plan.hops, &declared);
        for sum in [Some(&mut all), own].into_iter().flatten() {
            sum.received += c.received;
            sum.transmitted += c.transmitted;
            sum.held += c.held;
            dropped.iter().for_each(|(reason, n)| *sum.dropped.entry(reason.clone()).or_default() += n);
        }
    }
    for (reason, n) in now.ports.iter().flat_map(|p| p.lost()).filter(|(_, n)| *n > 0) {
        all.received += n;
        *all.dropped.entry(reason.into()).or_default() += n;
    }
    Accounts { all, chains }
}

/// The numbers of one interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Seconds since the chain ran.
    pub at_s: f64,
    /// Seconds that it lasted.
    pub seconds: f64,
    /// By chain, in file order.
    pub chains: Vec<ChainInterval>,
    /// By NF, in file order.
    pub nfs: Vec<NfInterval>,
}

/// One chain in an interval.
#[derive(Clone, Debug)]
pub struct ChainInterval {
    /// Its name.
    pub name: String,
    /// Packets received a second.
    pub received_pps: f64,
    /// Packets sent a second.
    pub transmitted_pps: f64,
    /// Bits sent a second.
    pub transmitted_bps: f64,
    /// Packets shed a second.
    pub shed_pps: f64,
    /// Packets dropped for other reasons a second.
    pub dropped_pps: f64,
    /// Packets inside.
    pub held: u64,
    /// Latency of the packets of this interval; none with many chains.
    pub latency_ns: Option<Latency>,
}

/// One NF in an interval.
#[derive(Clone, Debug)]
pub struct NfInterval {
    /// Its name.
    pub name: String,
    /// Packets handed to it a second.
    pub pps: f64,
    /// Bits handed to it a second.
    pub bps: f64,
    /// Packets that it dropped a second, by reason.
    pub dropped_pps: BTreeMap<String, f64>,
    /// Fill of its fullest queue, 0 to 1.
    pub queue: f64,
    /// Share of one core, of its instance.
    pub cpu_share: f64,
    /// Median nanoseconds a packet.
    pub cost_ns: Option<u64>,
    /// Packets that its instance holds.
    pub held: u64,
}

/// Accounts, NFs' totals and instances' usage at one instant.
pub(crate) type Reading<'a> = (&'a Snapshot, &'a [NfTotals], &'a [Usage]);

impl Interval {
    pub(crate) fn between(
        (a, at, au): Reading<'_>,
        (b, bt, bu): Reading<'_>,
        plan: &Plan,
        declared: &[&[Declared]],
        held: &[u64],
        since: Duration,
    ) -> Self {
        let seconds = (b.at_ns.saturating_sub(a.at_ns)) as f64 / 1e9;
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds.max(1e-9);
        // What is new since the first reading began with nothing.
        let new = ChainLedger::new(0);
        let chains = plan.chains_in_force().into_iter().filter_map(|id| {
            let (c, a, b) = (&plan.chains[id], a.chains.get(id).unwrap_or(&new), b.chains.get(id)?);
            Some(ChainInterval {
                name: c.name.clone(),
                received_pps: rate(b.received, a.received),
                transmitted_pps: rate(b.transmitted, a.transmitted),
                transmitted_bps: 8.0 * rate(b.transmitted_bytes, a.transmitted_bytes),
                shed_pps: rate(b.shed, a.shed),
                dropped_pps: rate(b.dropped().saturating_sub(b.shed), a.dropped().saturating_sub(a.shed)),
                held: b.held,
                latency_ns: b.latency.as_ref().zip(a.latency.as_ref()).map(|(b, a)| {
                    let mut h = b.clone();
                    // The earlier counts are among the later ones, so this cannot fail.
                    let _ = h.subtract(a);
                    Latency::of(&h)
                }),
            })
        });
        let (unused, idle) = (NfTotals::default(), Usage::default());
        let in_force = (0..plan.nfs.len()).filter(|id| plan.has_nf(*id));
        let nfs = in_force.map(|id| {
            let (nf, i) = (&plan.nfs[id], plan.nfs[id].instance);
            let (at, au) = (at.get(id).unwrap_or(&unused), au.get(i).unwrap_or(&idle));
            let queues = plan.instances[i].queues.iter().filter(|q| q.stages.first().is_some_and(|s| s.nf == id));
            let place = plan.instances[i].nfs.iter().position(|n| *n == id);
            let words = place.and_then(|k| declared[i].get(k));
            let before = a.nf_drops.get(id).unwrap_or(&[0; 256]);
            let drops = b.nf_drops[id].iter().zip(before).enumerate().filter(|(_, (b, a))| b > a);
            let fill = |e: usize| f64::from(b.queues[e]) / f64::from(plan.edges[e].capacity);
            NfInterval {
                name: nf.name.clone(),
                pps: rate(bt[id].received, at.received),
                bps: 8.0 * rate(bt[id].bytes, at.bytes),
                dropped_pps: drops.map(|(tag, (b, a))| (reason(words, tag), rate(*b, *a))).collect(),
                queue: queues.map(|q| fill(q.edge)).fold(0.0, f64::max),
                cpu_share: rate(bu[i].run_ns, au.run_ns) / 1e9,
                cost_ns: bt[id].median_cost_ns(Some(at)),
                held: held[i],
            }
        });
        Self { at_s: since.as_secs_f64(), seconds, chains: chains.collect(), nfs: nfs.collect() }
    }
}
