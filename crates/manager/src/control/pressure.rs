//! Backpressure, once a millisecond: which queues are overloaded, which chains therefore shed at their entry, which
//! instances yield, and how many packets each chain may have inside.

use super::gauges::ChainGauge;
use super::readings::{Readings, Sources};
use crate::dataplane::Origins;
use chainline_chain::plan::{Activation, ChainPlan, Plan};
use chainline_sched::pressure::{Average, Bounds, Limit, Marks, Progress, Queue, State, Stretch};
use chainline_sched::shares::meeting;
use chainline_shm::{Bell, Page};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Time inside that is aimed at when the file says nothing: microseconds. Short against the slices of the kernel and what
/// stock queues hold, long against what a change of the task costs.
const TARGET_US: f64 = 500.0;
/// As much for each instance on the path: a change of the task takes about 3 us, which is 2 % of it.
const TARGET_US_A_HOP: f64 = 150.0;
/// Wait in a long queue that makes it overloaded: microseconds. The loop looks each millisecond and is late at times; in
/// a queue that is emptied quicker than that it would find nothing left.
const THRESHOLD_US: f64 = 2000.0;
/// ECN marks from this part of the chain's limit on, so that sources hear of it before packets are shed.
const ECN_PART: f64 = 0.5;

/// What backpressure did to a chain.
#[derive(Clone, Copy, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct PressureReport {
    /// Times that a queue on its path was overloaded.
    pub throttles: u64,
    /// Seconds in which it admitted nothing because of that.
    pub throttled_s: f64,
    /// Time that packets were to spend inside under overload, in microseconds; `null` without backpressure.
    pub target_us: Option<f64>,
    /// Packets that it might have inside when last looked at, those that NFs hold not among them; `null`: what its queues
    /// hold.
    pub limit: Option<u64>,
}

impl PressureReport {
    /// What was done to the chain under the same name that follows this one.
    pub fn add(&mut self, next: &Self) {
        self.throttles += next.throttles;
        self.throttled_s += next.throttled_s;
        (self.target_us, self.limit) = (next.target_us, next.limit);
    }
}

/// A queue.
struct Edge {
    marks: Marks,
    queue: Queue,
    average: Average,
    /// The chains whose packets can be in it.
    chains: Vec<usize>,
    /// The input queues whose packets can come to it: instance, and which of its own.
    upstream: Vec<(usize, usize)>,
}

/// Packets that are inside and in none of the chain's queues or bursts: an NF made away with them, until an audit finds
/// them. They are not in the way of others.
#[derive(Clone, Copy, Default)]
struct Missing {
    /// Since when, and how many at least, there were more inside than queues and bursts account for.
    since_ns: u64,
    least: u64,
    /// What had left the chain when something last moved, and when that was.
    left: u64,
    moved_ns: u64,
    /// Packets that stayed inside when nothing moved any more.
    stayed: u64,
}

/// Nanoseconds after which packets are missing: counts of queues and of what is inside are not of the same moment.
const MISSING_NS: u64 = 20_000_000;

impl Missing {
    /// At `now_ns` the chain is this far, `queued` packets are in its queues, and at most `bursts` in bursts.
    fn step(&mut self, now_ns: u64, now: Progress, queued: u64, bursts: u64) -> u64 {
        if now.left != self.left || queued > 0 {
            (self.left, self.moved_ns) = (now.left, now_ns);
        }
        // With empty queues nothing is in a burst for so long: a limit as low as what is lost would never let anything
        // in again.
        let still = now_ns.saturating_sub(self.moved_ns) >= MISSING_NS;
        self.stayed = if still { now.inside } else { self.stayed.min(now.inside) };
        let more = now.inside.saturating_sub(queued + bursts);
        if more == 0 {
            (self.since_ns, self.least) = (now_ns, u64::MAX);
            return self.stayed;
        }
        self.least = self.least.min(more);
        let more = if now_ns.saturating_sub(self.since_ns) >= MISSING_NS { self.least } else { 0 };
        self.stayed.max(more)
    }
}

struct Chain {
    bounds: Bounds,
    missing: Missing,
    limit: Limit,
    /// Chains with the same number meet on cores.
    group: usize,
    /// The instances on its path.
    instances: Vec<usize>,
    /// Those of them that serve no other chain and are on a core only for work, and how many cores they all may use.
    own: Vec<usize>,
    cores: u64,
    /// Overloaded queues.
    throttled_by: u32,
    /// Since when there are any.
    since_ns: u64,
    throttles: u64,
    throttled_ns: u64,
}

impl Chain {
    /// How long its own instances were on cores: the sum by the number of cores.
    fn used_ns(&self, run_ns: impl FnMut(usize) -> Option<u64>) -> Option<u64> {
        let times: Option<Vec<u64>> = self.own.iter().copied().map(run_ns).collect();
        Some(times?.iter().sum::<u64>() / self.cores.max(1))
    }
}

/// See the module.
pub struct Pressure {
    edges: Vec<Edge>,
    chains: Vec<Chain>,
    groups: Vec<(Stretch, Vec<usize>)>,
    /// Overloaded queues downstream of each input queue, by instance.
    yields: Vec<Vec<u32>>,
    /// Whether ECN marks.
    ecn: bool,
    marks: Vec<bool>,
    /// Packets in queues, by chain.
    queued: Vec<u64>,
}

impl Pressure {
    /// Of a plan whose mechanisms have backpressure; else nothing, that does nothing.
    pub fn new(plan: &Plan) -> Option<Self> {
        let spec = plan.backpressure;
        if !plan.mechanisms.backpressure() {
            return None;
        }
        let (origins, _) = Origins::of(plan);
        let (instances, lengths): (Vec<_>, Vec<_>) = plan.chains.iter().map(|c| path(plan, c)).unzip();
        let target = |c: usize| spec.target_us.unwrap_or(TARGET_US.max(TARGET_US_A_HOP * lengths[c] as f64));
        let edge = |(e, p): (usize, &chainline_chain::plan::EdgePlan)| Edge {
            marks: {
                let target = origins[e].chains().map(|c| target(c.into())).fold(0.0, f64::max);
                let threshold = spec.threshold_us.unwrap_or(THRESHOLD_US.max(2.0 * target));
                Marks::of(p.capacity, spec.high, spec.low, threshold * 1e3)
            },
            queue: Queue::default(),
            average: Average::default(),
            chains: origins[e].chains().map(usize::from).collect(),
            upstream: Vec::new(),
        };
        let mut edges: Vec<Edge> = plan.edges.iter().enumerate().map(edge).collect();
        upstream(plan, &mut edges);
        let mut most = vec![0u64; plan.chains.len()];
        for (p, e) in plan.edges.iter().zip(&edges) {
            e.chains.iter().for_each(|c| most[*c] += u64::from(p.capacity));
        }
        let groups = groups(plan);
        let chains = (0..plan.chains.len()).map(|c| {
            let instances: Vec<usize> = instances[c].clone();
            let bursts = instances.iter().map(|i| u64::from(plan.instances[*i].batch)).sum::<u64>();
            let (group, most) = (groups[c], most[c]);
            let mut own = instances.clone();
            own.sort_unstable();
            own.dedup();
            let cores: BTreeSet<usize> = own.iter().flat_map(|i| plan.instances[*i].cores.iter().copied()).collect();
            // Who polls is on its core whether or not there is work.
            let works = |i: &usize| plan.instances[*i].activation == Activation::Wake;
            own.retain(|i| works(i) && plan.instances[*i].queues.iter().all(|q| q.chain == c));
            Chain {
                bounds: Bounds { target_ns: target(c) * 1e3, least: (bursts + 32).min(most), most },
                missing: Missing::default(),
                limit: Limit::default(),
                group,
                instances,
                own,
                cores: cores.len() as u64,
                throttled_by: 0,
                since_ns: 0,
                throttles: 0,
                throttled_ns: 0,
            }
        });
        let chains: Vec<Chain> = chains.collect();
        let mut members = vec![Vec::new(); groups.iter().map(|g| g + 1).max().unwrap_or(0)];
        chains.iter().enumerate().for_each(|(c, chain)| members[chain.group].push(c));
        Some(Self {
            edges,
            groups: members.into_iter().map(|m| (Stretch::new(m.len()), m)).collect(),
            yields: plan.instances.iter().map(|i| vec![0; i.queues.len()]).collect(),
            marks: vec![false; chains.len()],
            queued: vec![0; chains.len()],
            chains,
            ecn: spec.ecn,
        })
    }

    /// Goes on with what it knows of chains that were there before, and with their accounts.
    pub fn follows(mut self, before: &Self, now_ns: u64) -> Self {
        for ((chain, old), report) in self.chains.iter_mut().zip(&before.chains).zip(before.report(now_ns)) {
            chain.limit = old.limit;
            chain.throttles = report.throttles;
            chain.throttled_ns = (report.throttled_s * 1e9) as u64;
        }
        self
    }

    /// One look at everything. `run_ns` asks the kernel for an instance's time on a core; only now and then.
    pub fn step(
        &mut self,
        now: &Readings,
        from: &Sources,
        pages: &[Option<Arc<Page>>],
        mut run_ns: impl FnMut(usize) -> Option<u64>,
    ) {
        let now_ns = now.now_ns;
        self.marks.fill(false);
        self.queued.fill(0);
        for e in 0..self.edges.len() {
            let edge = &mut self.edges[e];
            edge.chains.iter().for_each(|c| self.queued[*c] += u64::from(now.queues[e]));
            let before = edge.queue.state() == State::Throttle;
            let after = edge.queue.step(&edge.marks, now_ns, now.queues[e], from.fabric.rings[e].popped());
            if self.ecn {
                let average = edge.average.add(now_ns, now.queues[e]);
                for &c in &edge.chains {
                    let limit = (self.chains[c].limit.now() as f64 * ECN_PART).min(f64::from(edge.marks.low));
                    self.marks[c] |= average >= limit.max(1.0);
                }
            }
            if before != (after == State::Throttle) {
                self.turn(e, !before, now_ns, from, pages);
            }
        }
        for g in 0..self.groups.len() {
            let (stretch, members) = &mut self.groups[g];
            let chains = &mut self.chains;
            let used_ns = |i: usize| chains[members[i]].used_ns(&mut run_ns);
            let times = stretch.step(now_ns, |i| chains[members[i]].limit.shows(), used_ns);
            for &c in members.iter() {
                let (chain, gauge): (&mut Chain, &ChainGauge) = (&mut chains[c], &from.gauges[c]);
                // An NF may hold packets until others come: they are not in the way of those.
                let held = |i: &usize| pages[*i].as_ref().map_or(0, |p| p.status().held.load(Relaxed));
                let held = chain.instances.iter().map(held).fold(0, u64::saturating_add);
                let mut progress: Progress = gauge.progress();
                progress.inside = progress.inside.saturating_sub(held);
                let missing = chain.missing.step(now_ns, progress, self.queued[c], chain.bounds.least);
                progress.inside = progress.inside.saturating_sub(missing);
                let held = held.saturating_add(missing);
                let limit = chain.limit.step(&chain.bounds, times, progress);
                let limit = if chain.throttled_by > 0 { 0 } else { limit.saturating_add(held) };
                gauge.advice.set(limit, self.marks[c]);
            }
        }
    }

    /// A queue is overloaded from now on, or not any more.
    fn turn(&mut self, e: usize, on: bool, now_ns: u64, from: &Sources, pages: &[Option<Arc<Page>>]) {
        for &c in &self.edges[e].chains {
            let chain = &mut self.chains[c];
            if on {
                chain.throttled_by += 1;
                if chain.throttled_by == 1 {
                    (chain.since_ns, chain.throttles) = (now_ns, chain.throttles + 1);
                }
            } else {
                chain.throttled_by -= 1;
                if chain.throttled_by == 0 {
                    chain.throttled_ns += now_ns.saturating_sub(chain.since_ns);
                }
            }
        }
        for &(i, q) in &self.edges[e].upstream {
            let count = &mut self.yields[i][q];
            let before = *count > 0;
            *count = if on { *count + 1 } else { *count - 1 };
            if before != (*count > 0)
                && let Some(page) = &pages[i]
            {
                page.queue_control(q).yields.store(u32::from(*count > 0), Relaxed);
                wake(&from.fabric.bells[i]);
            }
        }
    }

    /// An instance has a new page: it is told what the last one was told.
    pub fn restarted(&self, i: usize, page: &Page) {
        for (q, count) in self.yields[i].iter().enumerate() {
            page.queue_control(q).yields.store(u32::from(*count > 0), Relaxed);
        }
    }

    /// Nobody yields, and every chain admits what fits.
    pub fn undo(&self, from: &Sources, pages: &[Option<Arc<Page>>]) {
        from.gauges.iter().for_each(|g| g.advice.set(u64::MAX, false));
        for (i, page) in pages.iter().enumerate().take(self.yields.len()) {
            let Some(page) = page else { continue };
            (0..self.yields[i].len()).for_each(|q| page.queue_control(q).yields.store(0, Relaxed));
            wake(&from.fabric.bells[i]);
        }
    }

    /// What it did, by chain.
    pub fn report(&self, now_ns: u64) -> Vec<PressureReport> {
        let one = |c: &Chain| PressureReport {
            throttles: c.throttles,
            throttled_s: {
                let still = if c.throttled_by > 0 { now_ns.saturating_sub(c.since_ns) } else { 0 };
                (c.throttled_ns + still) as f64 / 1e9
            },
            target_us: Some(c.bounds.target_ns / 1e3),
            limit: Some(c.limit.now()).filter(|l| *l != u64::MAX),
        };
        self.chains.iter().map(one).collect()
    }
}

/// A sleeper looks at its queues again.
fn wake(bell: &Bell) {
    Bell::publish_fence();
    if bell.is_asleep() {
        bell.ring();
    }
}

/// The instances on a path, each as often as it is entered, with all replicas of each; and how many of them a packet
/// visits.
fn path(plan: &Plan, chain: &ChainPlan) -> (Vec<usize>, usize) {
    let mut hops = chain.hops.clone();
    hops.dedup_by_key(|nf| plan.nfs[*nf].instance);
    let all = hops.iter().flat_map(|nf| plan.replicas_of(*nf)).map(|nf| plan.nfs[nf].instance);
    (all.collect(), hops.len())
}

/// Finds the input queues from which packets can come to each queue: against the paths and diverts, which have no circle.
fn upstream(plan: &Plan, edges: &mut [Edge]) {
    let mut feeds: Vec<Vec<(usize, usize)>> = vec![Vec::new(); plan.edges.len()];
    for (i, instance) in plan.instances.iter().enumerate() {
        for (q, queue) in instance.queues.iter().enumerate() {
            queue.outs().for_each(|e| feeds[e].push((i, q)));
        }
    }
    for (e, edge) in edges.iter_mut().enumerate() {
        let mut found: Vec<(usize, usize)> = Vec::new();
        let mut look = vec![e];
        while let Some(at) = look.pop() {
            for &(i, q) in &feeds[at] {
                if !found.contains(&(i, q)) {
                    found.push((i, q));
                    look.push(plan.instances[i].queues[q].edge);
                }
            }
        }
        edge.upstream = found;
    }
}

/// The number of the group of each chain: chains are in one group if their instances meet on cores.
fn groups(plan: &Plan) -> Vec<usize> {
    let cores: Vec<Vec<usize>> = plan.instances.iter().map(|i| i.cores.clone()).collect();
    let meets = meeting(&cores);
    let replicas = |nf: &usize| plan.replicas_of(*nf);
    let own = |c: usize| plan.chains[c].hops.iter().flat_map(replicas).map(|nf| meets[plan.nfs[nf].instance]);
    // A chain on several groups of cores joins them.
    let mut group: Vec<usize> = (0..cores.len()).collect();
    for c in 0..plan.chains.len() {
        let Some(number) = own(c).map(|m| group[m]).min() else { continue };
        for old in own(c).map(|m| group[m]).filter(|g| *g != number).collect::<Vec<_>>() {
            group.iter_mut().filter(|g| **g == old).for_each(|g| *g = number);
        }
    }
    let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
    let number = |c: usize| {
        // One without NFs meets nobody.
        let number = own(c).next().map_or(cores.len() + c, |m| group[m]);
        let next = numbers.len();
        *numbers.entry(number).or_insert(next)
    };
    (0..plan.chains.len()).map(number).collect()
}

#[cfg(test)]
mod tests;
