//! The loop's parts, one for each thing of the plan; and how a run that is changed gets more of them and loses others.
//!
//! Everything is made elsewhere and taken over between two bursts. Ids stay (`chainline_chain::overlay`): what is new is
//! appended, and what is gone leaves a part that does nothing.

use super::egress::Egress;
use super::entry::{Entry, Gate, Lane, Replicas};
use super::ingress::Ingress;
use super::ledger::{ChainLedger, PortLedger};
use super::origins::Origins;
use super::{Dataplane, ENTRY_BURST, InstanceView, WAKE_PAUSE_NS};
use crate::classifier::Classifier;
use crate::control::ChainGauge;
use crate::fabric::Fabric;
use crate::ports::Port;
use chainline_chain::model::Match;
use chainline_chain::plan::{End, Plan, Way};
use chainline_runtime::split::Dealer;
use chainline_shm::{Consumer, Producer};
use std::collections::HashSet;
use std::sync::Arc;

/// What a run gets more of.
pub struct Growth {
    pub plan: Arc<Plan>,
    pub fabric: Arc<Fabric>,
    pub gauges: Arc<[ChainGauge]>,
    pub ports: Vec<Box<dyn Port + Send>>,
    entries: Vec<Entry>,
    egress: Vec<Egress>,
    returns: Vec<Consumer>,
    edge_origins: Vec<Origins>,
    return_origins: Vec<Origins>,
    instances: Vec<InstanceView>,
    accounts: Vec<ChainLedger>,
}

impl Growth {
    /// What `plan` has besides what the one before it, `old`, has. New entries are closed.
    pub fn new(
        old: &Plan,
        plan: &Arc<Plan>,
        fabric: &Arc<Fabric>,
        gauges: Arc<[ChainGauge]>,
        ports: Vec<Box<dyn Port + Send>>,
    ) -> Self {
        let (edge_origins, return_origins) = Origins::of(plan);
        let closed = |c: usize| Entry { paused: true, gate: Gate::Changing, ..entry(plan, fabric, &gauges, c) };
        Self {
            entries: (old.chains.len()..plan.chains.len()).map(closed).collect(),
            egress: (old.edges.len()..plan.edges.len())
                .filter_map(|e| egress(plan, fabric, e, &edge_origins))
                .collect(),
            returns: fabric.returns[old.instances.len()..].iter().map(|r| Consumer::attach(r.clone())).collect(),
            instances: (old.instances.len()..plan.instances.len()).map(|i| view(plan, fabric, i)).collect(),
            accounts: plan.chains[old.chains.len()..].iter().map(|c| ChainLedger::new(c.hops.len())).collect(),
            plan: plan.clone(),
            fabric: fabric.clone(),
            gauges,
            ports,
            edge_origins,
            return_origins,
        }
    }
}

/// What a run has no more.
pub struct Thinning {
    pub plan: Arc<Plan>,
    /// Without the queues that nobody needs.
    pub fabric: Arc<Fabric>,
    pub chains: Vec<usize>,
    pub instances: Vec<usize>,
}

/// A queue by which packets enter a chain.
fn lane(plan: &Plan, fabric: &Fabric, edge: usize) -> Lane {
    let e = &plan.edges[edge];
    let (bell, neighbour) = match e.to {
        End::Instance(i) => (Some(fabric.bells[i].clone()), crate::fabric::has_managers_core(plan, &plan.instances[i])),
        End::Port(_) => (None, false),
    };
    Lane {
        edge,
        producer: Producer::attach(fabric.rings[edge].clone()),
        bell,
        wake_at: crate::fabric::wake_at(plan, ENTRY_BURST, e.capacity),
        urgent: crate::fabric::urgent(plan, e),
        // One on this core runs when this loop rests, and not before, however often it is woken.
        pause: if neighbour { 0 } else { fabric.clock.ticks_in(WAKE_PAUSE_NS) },
        pause_until: 0,
        left: false,
        down: false,
    }
}

/// The entry of a chain.
pub(super) fn entry(plan: &Plan, fabric: &Fabric, gauges: &[ChainGauge], chain: usize) -> Entry {
    let c = &plan.chains[chain];
    let (first, others) = match &c.entry {
        Way::To(edge) => (*edge, None),
        Way::Among { dispatch, edges } => {
            let dealer = Dealer::new(crate::fabric::dispatch_of(*dispatch), edges.len());
            let lanes = edges.iter().skip(1).map(|e| lane(plan, fabric, *e)).collect();
            (edges.first().copied().unwrap_or_default(), Some(Replicas { dealer, lanes }))
        }
    };
    Entry {
        lane: lane(plan, fabric, first),
        replicas: others,
        tenant: fabric.tenant_of(plan, chain),
        advice: gauges[chain].advice.clone(),
        advised: u64::MAX,
        limit: if c.max_in_flight == 0 { u64::MAX } else { c.max_in_flight.into() },
        inside: 0,
        paused: false,
        down: false,
        gate: Gate::Open,
    }
}

/// The end of an edge at a port; none of an edge to an instance.
pub(super) fn egress(plan: &Plan, fabric: &Fabric, edge: usize, origins: &[Origins]) -> Option<Egress> {
    let e = &plan.edges[edge];
    let End::Port(port) = e.to else { return None };
    let producer = match e.from {
        End::Instance(i) => Some((i, fabric.bells[i].clone())),
        End::Port(_) => None,
    };
    let consumer = Consumer::attach(fabric.rings[edge].clone());
    let (tenant, home) = (fabric.tenant_of(plan, e.chain), crate::home_of(plan, fabric, port));
    Some(Egress::new((port, e.chain), consumer, producer, origins[edge].clone(), tenant, home))
}

/// An instance as the loop sees it.
pub(super) fn view(plan: &Plan, fabric: &Fabric, instance: usize) -> InstanceView {
    InstanceView {
        bell: fabric.bells[instance].clone(),
        page: None,
        down: None,
        long_down: false,
        reviving: false,
        inputs: plan.instances[instance].queues.iter().map(|q| q.edge).collect(),
        outputs: (0..plan.edges.len()).filter(|&e| plan.edges[e].from == End::Instance(instance)).collect(),
        bad_seen: 0,
        asleep_at: None,
        still: 0,
        passes: 0,
    }
}

/// The ports that chains in force begin at, with their classifiers.
///
/// # Errors
/// When a port has more rules than its classifier takes: its name, and why.
pub fn ingress(plan: &Plan, fabric: &Fabric) -> Result<Vec<Ingress>, String> {
    let order = plan.chains_in_force();
    let mut all = Vec::new();
    for port in 0..plan.ports.len() {
        let chains: Vec<usize> = order.iter().copied().filter(|&c| plan.chains[c].ingress == port).collect();
        if chains.is_empty() {
            continue;
        }
        let matches: Vec<(u16, &Match)> = chains.iter().map(|&c| (c as u16, &plan.chains[c].matches)).collect();
        let classifier =
            Classifier::new(&matches).map_err(|e| format!("the rules of port {}: {e}", plan.ports[port].name))?;
        let split = chains.iter().any(|&c| matches!(plan.chains[c].entry, Way::Among { .. }));
        all.push(Ingress::new(port, chains, classifier, crate::home_of(plan, fabric, port), split));
    }
    Ok(all)
}

impl Dataplane {
    /// Takes over what is new. Packets go on as before.
    pub(super) fn grow(&mut self, growth: Growth, now: u64) {
        self.plan = growth.plan;
        self.fabric = growth.fabric;
        self.ports.extend(growth.ports.into_iter().map(|p| p as Box<dyn Port>));
        self.entries.extend(growth.entries);
        self.egress.extend(growth.egress);
        self.returns.extend(growth.returns);
        (self.edge_origins, self.return_origins) = (growth.edge_origins, growth.return_origins);
        self.instances.extend(growth.instances);
        self.neighbours = super::giving_way::neighbours(&self.plan);
        self.drains.resize_with(self.plan.edges.len(), || None);
        self.ledger.chains.extend(growth.accounts);
        self.ledger.ports.resize(self.plan.ports.len(), PortLedger::default());
        self.ledger.nf_drops.resize(self.plan.nfs.len(), [0; 256]);
        if let Some(audit) = &mut self.audit {
            audit.widen(self.plan.chains.len());
        }
        // Whoever reads the new gauges finds numbers in them.
        (self.gauges, self.gauges_at) = (growth.gauges, 0);
        self.show_gauges(now);
    }

    /// These chains admit nothing from now on and run empty; what cannot wait is dropped as reconfigured.
    pub(super) fn close(&mut self, chains: &[usize]) {
        chains.iter().for_each(|&c| self.entries[c].gate = Gate::Changing);
        self.unpause();
    }

    /// Packets are classified otherwise from the next burst on; these chains admit. Returns what was in use.
    pub(super) fn open(&mut self, ingress: Vec<Ingress>, chains: &[usize]) -> Vec<Ingress> {
        chains.iter().for_each(|&c| self.entries[c].gate = Gate::Open);
        self.unpause();
        std::mem::replace(&mut self.ingress, ingress)
    }

    /// Lets go of chains that nothing goes to any more and of instances that have ended. What is inside still, the
    /// instances made away with, held, or left in queues: it comes back as reconfigured.
    pub(super) fn thin(&mut self, thinning: Thinning) {
        let mut chains = vec![false; self.entries.len()];
        thinning.chains.iter().for_each(|&c| chains[c] = true);
        // What has come out by now is no loss.
        loop {
            let mut moved = 0;
            for e in 0..self.egress.len() {
                if chains[self.egress[e].chain] {
                    moved += self.transmit(e);
                }
            }
            for &i in &thinning.instances {
                moved += self.take_back(i);
            }
            if moved == 0 {
                break;
            }
        }
        let Self { tenants, ledger, entries, egress, .. } = self;
        if thinning.chains.iter().any(|&c| entries[c].inside > 0) {
            for tenant in tenants.iter_mut() {
                tenant.claim_lost(&chains, &HashSet::new(), |chain, at| {
                    ledger.account(usize::from(chain), at).reconfigured += 1;
                    entries[usize::from(chain)].inside -= 1;
                });
            }
        }
        for e in egress.iter_mut().filter(|e| chains[e.chain]) {
            for (frame, chain) in e.pending.drain(..) {
                tenants[e.home].release(&[frame.index]);
                ledger.account(usize::from(chain), frame.at).reconfigured += 1;
            }
        }
        egress.retain(|e| !chains[e.chain]);
        (self.plan, self.fabric) = (thinning.plan, thinning.fabric);
        let (plan, fabric, gauges) = (self.plan.clone(), self.fabric.clone(), self.gauges.clone());
        for &c in &thinning.chains {
            let inside = self.entries[c].inside;
            self.entries[c] = Entry { paused: true, gate: Gate::Changing, inside, ..entry(&plan, &fabric, &gauges, c) };
        }
        for &i in &thinning.instances {
            self.returns[i] = Consumer::attach(fabric.returns[i].clone());
            self.instances[i] = InstanceView { inputs: Vec::new(), outputs: Vec::new(), ..view(&plan, &fabric, i) };
        }
        for (e, edge) in plan.edges.iter().enumerate() {
            if chains[edge.chain] {
                self.drains[e] = None;
            }
        }
        self.unpause();
    }
}
