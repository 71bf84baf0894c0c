//! What the control loop sees: queues, rates, service times, loads. Read from pages, queues and gauges with relaxed
//! loads; whoever writes them pays nothing.
//!
//! Arrival rates are what is *offered*, not what got through: what an instance takes from its queues, times the
//! overload of the chain (packets offered to it over packets taken by its first NF). With the rate that gets through, a
//! chain that has too small a share would seem to need no larger one.

use super::gauges::ChainGauge;
use crate::fabric::Fabric;
use chainline_chain::plan::Plan;
use chainline_sched::load::{Rate, ServiceTime, load};
use chainline_shm::Page;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A chain that takes nothing of what it is offered is not thought to need more than so many times what it gets.
const MOST_OVERLOAD: f64 = 1000.0;
/// Milliseconds between two looks at what an NF says of itself. Its samples and their medians would cost more than
/// everything else here, and its page keeps the last 63 samples, of which there is one a millisecond.
const LOOK_EVERY: u64 = 10;
/// So many NFs are looked at, and have their weights set, so often; of more each is less often.
const LOOKED_AT: usize = 64;
/// But as often as its page keeps samples for, with some to spare: this many times the usual.
const LEAST_OFTEN: u64 = 5;

/// By which factor what is done for each of so many NFs is done less often than for a few.
pub fn spread(nfs: usize) -> u64 {
    (nfs.div_ceil(LOOKED_AT) as u64).clamp(1, LEAST_OFTEN)
}

/// One chain.
#[derive(Clone, Debug, Default)]
pub struct ChainReading {
    /// Packets offered a second, shed ones among them.
    pub offered_pps: f64,
    /// Packets shed a second.
    pub shed_pps: f64,
    offered: Rate,
    shed: Rate,
}

/// One NF.
#[derive(Clone, Debug, Default)]
pub struct NfReading {
    /// Packets a second that are meant for it.
    pub arrival_pps: f64,
    /// Nanoseconds that it takes for a packet; none before it was sampled.
    pub service_ns: Option<f64>,
    /// Nanoseconds that handling takes besides.
    pub overhead_ns: f64,
    /// Cores' worth of work.
    pub load: f64,
    received: Rate,
    service: ServiceTime,
    overhead: ServiceTime,
    seen: [u64; 2],
}

/// One instance.
#[derive(Clone, Debug, Default)]
pub struct InstanceReading {
    /// Whether it runs.
    pub up: bool,
    /// Cores' worth of work, of all its NFs.
    pub load: f64,
    /// Packets come for it, and how long they take it is not known yet: its load says nothing.
    pub unknown: bool,
    queues: Vec<Rate>,
}

/// Everything, once a millisecond.
#[derive(Debug)]
pub struct Readings {
    /// Nanoseconds on the run's clock.
    pub now_ns: u64,
    /// Milliseconds since the loop began, as far as it came to do something in them.
    pub tick: u64,
    /// No packet came since the last reading, and no queue has any.
    pub idle: bool,
    /// Packets received by all chains.
    received: u64,
    /// Packets in each queue, by edge.
    pub queues: Vec<u32>,
    /// By chain.
    pub chains: Vec<ChainReading>,
    /// By NF.
    pub nfs: Vec<NfReading>,
    /// By instance.
    pub instances: Vec<InstanceReading>,
}

/// Where each queue's packets come from and go to, worked out once.
pub struct Sources {
    pub plan: Arc<Plan>,
    pub fabric: Arc<Fabric>,
    pub gauges: Arc<[ChainGauge]>,
    /// The instances and their queues that each chain's packets enter by: several with replicas.
    entries: Vec<Vec<(usize, usize)>>,
}

impl Sources {
    pub fn new(plan: Arc<Plan>, fabric: Arc<Fabric>, gauges: Arc<[ChainGauge]>) -> Self {
        let queues = plan.instances.iter().enumerate().flat_map(|(i, p)| {
            let queues = p.queues.iter().enumerate();
            queues.map(move |(q, queue)| (queue.edge, (i, q)))
        });
        let mut of_edge = vec![None; plan.edges.len()];
        queues.for_each(|(edge, place)| of_edge[edge] = Some(place));
        let entries =
            plan.chains.iter().map(|c| c.entry.edges().iter().filter_map(|e| of_edge[*e]).collect()).collect();
        Self { plan, fabric, gauges, entries }
    }
}

impl Readings {
    pub fn new(plan: &Plan) -> Self {
        let instance = |queues: usize| InstanceReading { queues: vec![Rate::default(); queues], ..Default::default() };
        Self {
            now_ns: 0,
            tick: 0,
            idle: false,
            received: 0,
            queues: vec![0; plan.edges.len()],
            chains: vec![ChainReading::default(); plan.chains.len()],
            nfs: vec![NfReading::default(); plan.nfs.len()],
            instances: plan.instances.iter().map(|i| instance(i.queues.len())).collect(),
        }
    }

    /// There is more of everything; what there was goes on.
    pub fn grow(&mut self, plan: &Plan) {
        let Self { queues, chains, nfs, instances, .. } = Self::new(plan);
        self.queues.extend(queues.into_iter().skip(self.queues.len()));
        self.chains.extend(chains.into_iter().skip(self.chains.len()));
        self.nfs.extend(nfs.into_iter().skip(self.nfs.len()));
        self.instances.extend(instances.into_iter().skip(self.instances.len()));
    }

    /// An instance was started again: it warms up again.
    pub fn restarted(&mut self, plan: &Plan, instance: usize) {
        for &nf in &plan.instances[instance].nfs {
            let nf = &mut self.nfs[nf];
            nf.service.restart();
            nf.overhead.restart();
            nf.seen = [0; 2];
        }
    }

    /// Reads everything. `pages` by instance; none for one that is not there.
    pub fn read(&mut self, from: &Sources, pages: &[Option<Arc<Page>>], now_ns: u64) {
        self.now_ns = now_ns;
        self.tick += 1;
        for (len, ring) in self.queues.iter_mut().zip(&from.fabric.rings) {
            *len = ring.len();
        }
        let received = from.gauges.iter().fold(0u64, |sum, g| sum.wrapping_add(g.received()));
        self.idle = received == std::mem::replace(&mut self.received, received) && self.queues.iter().all(|n| *n == 0);
        for (chain, gauge) in self.chains.iter_mut().zip(from.gauges.iter()) {
            chain.offered_pps = chain.offered.add(now_ns, gauge.received());
            chain.shed_pps = chain.shed.add(now_ns, gauge.shed());
        }
        for (i, page) in pages.iter().enumerate() {
            self.instances[i].up = page.is_some();
            let Some(page) = page else { continue };
            for (q, rate) in self.instances[i].queues.iter_mut().enumerate() {
                rate.add(now_ns, page.queue(q).packets.load(Relaxed));
            }
            self.sample(from, i, page);
        }
        for i in 0..self.instances.len() {
            self.weigh(from, i);
        }
    }

    /// The new samples of an instance's NFs, of a part of all NFs at a time.
    fn sample(&mut self, from: &Sources, i: usize, page: &Page) {
        let (now, tick) = (self.now_ns, self.tick);
        let every = LOOK_EVERY * spread(self.nfs.len());
        for (k, &id) in from.plan.instances[i].nfs.iter().enumerate() {
            // Spread over time, so that no millisecond has all of them.
            if !(tick + id as u64).is_multiple_of(every) {
                continue;
            }
            let (stats, nf) = (page.nf(k), &mut self.nfs[id]);
            nf.received.add(now, stats.received.load(Relaxed));
            let [seen_service, seen_overhead] = &mut nf.seen;
            for (ring, seen, into) in
                [(&stats.service, seen_service, &mut nf.service), (&stats.overhead, seen_overhead, &mut nf.overhead)]
            {
                *seen = ring.since(*seen, |ps| into.add(now, ps as f64 / 1000.0));
            }
            nf.service_ns = nf.service.median(now);
            nf.overhead_ns = nf.overhead.median(now).unwrap_or(0.0);
        }
    }

    /// The load of an instance and its NFs.
    fn weigh(&mut self, from: &Sources, i: usize) {
        let plan = &from.plan.instances[i];
        let (mut taken, mut arriving) = (0.0, 0.0);
        for (q, queue) in plan.queues.iter().enumerate() {
            let own = self.instances[i].queues[q].per_second();
            taken += own;
            let offered = self.chains[queue.chain].offered_pps;
            let entries = &from.entries[queue.chain];
            let rate = |&(j, p): &(usize, usize)| self.instances[j].queues[p].per_second();
            arriving += match entries.as_slice() {
                [] => own,
                [entry] if *entry == (i, q) => offered.max(own),
                [entry] => own * overload(offered, rate(entry)),
                // How much was offered to each replica nobody counted: as they take, it is thought to come.
                several => match several.iter().map(rate).sum::<f64>() {
                    0.0 if several.contains(&(i, q)) => offered / several.len() as f64,
                    all => own * overload(offered, all),
                },
            };
        }
        let mut sum = 0.0;
        let overload = overload(arriving, taken);
        let alone = plan.nfs.len() == 1;
        for &id in &plan.nfs {
            let nf = &mut self.nfs[id];
            nf.arrival_pps = if alone { arriving } else { nf.received.per_second() * overload };
            nf.load = nf.service_ns.map_or(0.0, |ns| load(nf.arrival_pps, ns + nf.overhead_ns));
            sum += nf.load;
        }
        self.instances[i].load = sum;
        let unknown = |id: &usize| self.nfs[*id].arrival_pps > 0.0 && self.nfs[*id].service_ns.is_none();
        self.instances[i].unknown = plan.nfs.iter().any(unknown);
    }
}

/// How many times as much is offered as is taken, at least 1.
fn overload(offered: f64, taken: f64) -> f64 {
    if taken > 0.0 { (offered / taken).clamp(1.0, MOST_OVERLOAD) } else { 1.0 }
}
