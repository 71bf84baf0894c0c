//! The shared memory of a run: regions, queues and bells, and which instance gets which of them.

use crate::supervisor::sharing;
use chainline_chain::model::{self, Policy};
use chainline_chain::plan::{self, EdgePlan, End, InstancePlan, Plan, Way};
use chainline_runtime::setup::{
    Activation, NfSetup, OutSetup, QueueSetup, RegionSetup, RingSetup, Setup, SplitSetup, StageSetup, VERSION,
};
use chainline_runtime::split::Dispatch;
use chainline_shm::mapping::MapError;
use chainline_shm::{Bell, Clock, Region, Ring};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Places for held packets in each instance.
pub const HOLDS: usize = 1024;

/// All shared memory. Clones are of the same.
#[derive(Clone)]
pub struct Fabric {
    /// Names of the tenants, in the order of their regions.
    pub tenants: Vec<String>,
    /// Packet buffers of each tenant.
    pub regions: Vec<Region>,
    /// Queues by edge.
    pub rings: Vec<Ring>,
    /// The queue by which each instance returns packets that it dropped.
    pub returns: Vec<Ring>,
    /// Bells by instance.
    pub bells: Vec<Bell>,
    /// The manager's bell.
    pub own_bell: Bell,
    /// The clock of the run.
    pub clock: Clock,
}

impl Fabric {
    /// Creates it all.
    ///
    /// # Errors
    /// When there is no memory or no file descriptor left.
    pub fn create(plan: &Plan, max_frame: u16, clock: Clock) -> Result<Self, MapError> {
        let mut tenants: Vec<String> = Vec::new();
        for c in &plan.chains {
            if !tenants.contains(&c.tenant) {
                tenants.push(c.tenant.clone());
            }
        }
        let regions = tenants.iter().map(|_| Region::create(plan.buffers, max_frame)).collect::<Result<_, _>>()?;
        let none = Self {
            tenants,
            regions,
            rings: Vec::new(),
            returns: Vec::new(),
            bells: Vec::new(),
            own_bell: Bell::create()?,
            clock,
        };
        none.grown(plan)
    }

    /// The same with what `plan` has more of: queues, bells.
    ///
    /// # Errors
    /// When there is no memory or no file descriptor left.
    pub fn grown(&self, plan: &Plan) -> Result<Self, MapError> {
        let mut this = self.clone();
        for e in &plan.edges[this.rings.len()..] {
            this.rings.push(Ring::create(e.capacity)?);
        }
        for i in &plan.instances[this.bells.len()..] {
            // As many as can come in at once, so that drops do not hold packets up.
            let capacity = i.queues.iter().map(|q| plan.edges[q.edge].capacity).max().unwrap_or(1024);
            this.returns.push(Ring::create(capacity)?);
            this.bells.push(Bell::create()?);
        }
        Ok(this)
    }

    /// The same without the memory of what is gone: in its place is a small queue that nobody uses.
    ///
    /// # Errors
    /// When there is no memory or no file descriptor left.
    pub fn thinned(&self, plan: &Plan) -> Result<Self, MapError> {
        let mut this = self.clone();
        let (ring, bell) = (Ring::create(16)?, Bell::create()?);
        for (e, _) in plan.edges.iter().enumerate().filter(|(_, e)| plan.gaps.chains.contains(&e.chain)) {
            this.rings[e] = ring.clone();
        }
        for &i in &plan.gaps.instances {
            (this.returns[i], this.bells[i]) = (ring.clone(), bell.clone());
        }
        Ok(this)
    }

    /// The tenant of a chain.
    #[must_use]
    pub fn tenant_of(&self, plan: &Plan, chain: usize) -> usize {
        self.tenants.iter().position(|t| *t == plan.chains[chain].tenant).unwrap_or(0)
    }

    /// What an instance is told, and the descriptors that go with it.
    #[must_use]
    pub fn setup<'a>(&'a self, plan: &Plan, instance: usize, dir: &Path) -> (Setup, Vec<BorrowedFd<'a>>) {
        let me = &plan.instances[instance];
        let mut fds = Fds::default();
        let chain = me.queues.first().map_or(0, |q| q.chain);
        let region = &self.regions[self.tenant_of(plan, chain)];
        let region = RegionSetup {
            fd: fds.add(region.mapping().fd()),
            stride: region.stride(),
            count: region.count(),
            pages: region.mapping().pages(),
        };

        // Bells: its own, the manager's, then its neighbours' as they come up.
        let mut bells = vec![fds.add(self.bells[instance].mapping().fd()), fds.add(self.own_bell.mapping().fd())];
        let mut bell_of: Vec<Option<usize>> = vec![None; plan.instances.len()];
        bell_of[instance] = Some(0);
        let mut bell = |end: End, fds: &mut Fds<'a>| match end {
            End::Port(_) => 1,
            End::Instance(i) => *bell_of[i].get_or_insert_with(|| {
                bells.push(fds.add(self.bells[i].mapping().fd()));
                bells.len() - 1
            }),
        };

        let mut outs = Vec::new();
        let mut out_of: Vec<Option<usize>> = vec![None; plan.edges.len()];
        for edge in me.queues.iter().flat_map(|q| q.outs()) {
            if out_of[edge].is_some() {
                continue;
            }
            let e = &plan.edges[edge];
            let ring = RingSetup { fd: fds.add(self.rings[edge].mapping().fd()), capacity: e.capacity };
            let wake_at = match e.to {
                End::Port(_) if has_managers_core(plan, me) => e.capacity / 2,
                _ => wake_at(plan, me.batch, e.capacity),
            };
            let consumer_bell = bell(e.to, &mut fds);
            let (chain, urgent, same_core) = (e.chain as u16, urgent(plan, e), same_core(plan, e));
            outs.push(OutSetup { ring, consumer_bell, wake_at, urgent, same_core, chain, hop: e.hop });
            out_of[edge] = Some(outs.len() - 1);
        }
        let back = &self.returns[instance];
        let ring = RingSetup { fd: fds.add(back.mapping().fd()), capacity: back.capacity() };
        let wake_at = if has_managers_core(plan, me) { back.capacity() / 2 } else { u32::from(me.batch) };
        outs.push(OutSetup { ring, consumer_bell: 1, wake_at, urgent: false, same_core: false, chain: 0, hop: 0 });

        let (mut splits, mut split_of): (Vec<SplitSetup>, Vec<Way>) = (Vec::new(), Vec::new());
        let mut number = |way: &Way| {
            let (dispatch, edges) = match way {
                Way::To(edge) => return out_of[*edge].unwrap_or_default(),
                Way::Among { dispatch, edges } => (dispatch_of(*dispatch), edges),
            };
            let known = split_of.iter().position(|w| w == way).unwrap_or_else(|| {
                split_of.push(way.clone());
                splits.push(SplitSetup { dispatch, outs: edges.iter().filter_map(|e| out_of[*e]).collect() });
                splits.len() - 1
            });
            outs.len() + known
        };
        let mut queues = Vec::new();
        for q in &me.queues {
            let e = &plan.edges[q.edge];
            let stages = q.stages.iter().map(|s| StageSetup {
                nf: me.nfs.iter().position(|n| *n == s.nf).unwrap_or(0),
                divert: s.divert.iter().map(&mut number).collect(),
            });
            queues.push(QueueSetup {
                stages: stages.collect(),
                next: number(&q.next),
                ring: RingSetup { fd: fds.add(self.rings[q.edge].mapping().fd()), capacity: e.capacity },
                producer_bell: matches!(e.from, End::Instance(_)).then(|| bell(e.from, &mut fds)),
                chain: q.chain as u16,
                hop: q.hop,
                weight: q.weight,
            });
        }

        let nfs = me.nfs.iter().map(|&n| {
            let nf = &plan.nfs[n];
            NfSetup {
                name: nf.name.clone(),
                kind: nf.kind.clone(),
                args: nf.args.clone(),
                sharing: sharing(nf.state),
                divert: nf.divert.clone(),
            }
        });
        let setup = Setup {
            version: VERSION,
            instance: me.name.clone(),
            dir: dir.to_owned(),
            nfs: nfs.collect(),
            replicas: me.nfs.first().map_or(1, |nf| plan.nfs[*nf].replicas),
            replica: me.nfs.first().map_or(0, |nf| nf - plan.nfs[*nf].first),
            region,
            bells,
            own_bell: 0,
            queues,
            return_out: outs.len() - 1,
            outs,
            splits,
            credit: plan.mechanisms.backpressure(),
            batch: me.batch,
            activation: match me.activation {
                plan::Activation::Wake => Activation::Wake,
                plan::Activation::Poll => Activation::Poll { alone: !me.shares_core },
                plan::Activation::Hybrid { spin_us } => Activation::Hybrid { spin_ns: u64::from(spin_us) * 1000 },
            },
            holds: HOLDS,
            clock: self.clock,
            cores: me.cores.clone(),
        };
        (setup, fds.0)
    }
}

/// Which packets come to the same replica.
pub fn dispatch_of(dispatch: model::Dispatch) -> Dispatch {
    match dispatch {
        model::Dispatch::Flow => Dispatch::Flow,
        model::Dispatch::Connection => Dispatch::Connection,
        model::Dispatch::Host => Dispatch::Host,
        model::Dispatch::Packet => Dispatch::Packet,
    }
}

/// Packets that are worth waking a sleeping consumer for: a burst. A stock platform wakes for each.
#[must_use]
pub fn wake_at(plan: &Plan, batch: u16, capacity: u32) -> u32 {
    if plan.mechanisms.backpressure() { u32::from(batch).min(capacity / 2) } else { 1 }
}

/// Whether who empties an edge goes before who fills it: by a real-time policy or by a higher priority. Then it is woken
/// for each packet, not for a burst.
#[must_use]
pub fn urgent(plan: &Plan, edge: &EdgePlan) -> bool {
    let End::Instance(to) = edge.to else { return false };
    let sched = |i: usize| plan.instances[i].sched;
    let priority = |i: usize| sched(i).priority.unwrap_or(1);
    match edge.from {
        _ if real_time(sched(to).policy) => true,
        End::Port(_) => priority(to) > 1,
        End::Instance(from) => !real_time(sched(from).policy) && priority(to) > priority(from),
    }
}

fn real_time(policy: Policy) -> bool {
    matches!(policy, Policy::Fifo | Policy::Rr | Policy::Deadline)
}

/// Whether who fills an edge gives way to who empties it: both have the same core and no other, and who fills it does not
/// go before. Not on a stock platform.
#[must_use]
pub fn same_core(plan: &Plan, edge: &EdgePlan) -> bool {
    let (End::Instance(from), End::Instance(to)) = (edge.from, edge.to) else { return false };
    let [from, to] = [from, to].map(|i| &plan.instances[i]);
    let rank = |i: &InstancePlan| (real_time(i.sched.policy), i.sched.priority.unwrap_or(1));
    plan.mechanisms.backpressure() && from.cores.len() == 1 && from.cores == to.cores && rank(from) <= rank(to)
}

/// Whether an instance has the manager's core and no other. The manager rests for it, and is woken when it is done rather than
/// for each burst. Not on a stock platform.
#[must_use]
pub fn has_managers_core(plan: &Plan, instance: &InstancePlan) -> bool {
    plan.mechanisms.backpressure() && instance.cores == [plan.manager_core]
}

#[derive(Default)]
struct Fds<'a>(Vec<BorrowedFd<'a>>);

impl<'a> Fds<'a> {
    fn add(&mut self, fd: BorrowedFd<'a>) -> usize {
        self.0.push(fd);
        self.0.len() - 1
    }
}
