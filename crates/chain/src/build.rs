//! From a checked file to its plan.

use crate::diag::Diagnostics;
use crate::load::{Host, recheck};
use crate::model::{BUFFERS, Backpressure, Chain, File, Isolation, Nf, Spec};
use crate::plan::{
    ChainPlan, EdgePlan, End, Host as Hosted, InstancePlan, NfPlan, Plan, PortPlan, QueuePlan, StagePlan,
};
use crate::{check::MAX_QUEUES, fuse, inherit};
use indexmap::{IndexMap, IndexSet};
use std::collections::HashMap;

/// Buffers besides those that fill the queues: in port rings, in bursts, held by NFs.
const SPARE_BUFFERS: u64 = 2048;
/// The most that a tenant gets unless the file says otherwise: over 100 MB. With very many queues not all are full at
/// once, and a source that finds no buffer waits or counts a drop.
const USUAL_BUFFERS: u64 = 65_536;
/// Most stages and divert targets of all queues together; bounds the plan's memory.
const MAX_STAGES: usize = 1 << 22;

impl Plan {
    /// What `file` means on a host with `cores`, which are listed in the order of preference: the manager gets the
    /// first unless the file says otherwise. NFs and ports on no path are left out.
    ///
    /// # Errors
    /// When the file asks for a core that is not there, or has an error that [`crate::load`] would have reported.
    pub fn build(file: &File, cores: &[usize]) -> Result<Self, Diagnostics> {
        recheck(file, &Host { cores: Some(cores), kinds: None })?;
        let refuse = |what: String| file.source.error("spec.chains", what);
        let mut build = Build::new(&file.spec).ok_or_else(|| {
            refuse("a path names a port or an NF that is not there; expected a file that passed the checks".into())
        })?;
        build.queues();
        let full = build.edges.len() > MAX_QUEUES || build.stages > MAX_STAGES;
        if full {
            return Err(refuse(format!("the chains and diverts need more than {MAX_QUEUES} queues, expected fewer")));
        }
        build.finish(file, cores).ok_or_else(|| refuse("a chain has no entry; expected a port at its start".into()))
    }
}

/// Names resolved to ids.
struct Route {
    ingress: usize,
    egress: usize,
    hops: Vec<usize>,
}

struct Build<'a> {
    spec: &'a Spec,
    /// Used ports and NFs, in the order of the file; their positions are the ids.
    ports: IndexSet<&'a str>,
    nfs: IndexMap<&'a str, &'a Nf>,
    /// By NF id.
    instance_of: Vec<usize>,
    /// NF ids by instance.
    members: Vec<Vec<usize>>,
    routes: Vec<Route>,
    chains: HashMap<&'a str, usize>,
    edges: IndexMap<Key, u32>,
    entries: Vec<usize>,
    /// Queues by instance.
    queues: Vec<Vec<QueuePlan>>,
    stages: usize,
}

/// An edge carries the packets of one producer for one consumer on one hop of one chain; that is what it is found by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    from: End,
    to: End,
    chain: usize,
    hop: usize,
}

impl<'a> Build<'a> {
    fn new(spec: &'a Spec) -> Option<Self> {
        let on_path: IndexSet<&str> = spec.chains.iter().flat_map(Chain::hops).map(String::as_str).collect();
        let nfs: IndexMap<&str, &Nf> =
            spec.nfs.iter().map(|(n, nf)| (n.as_str(), nf)).filter(|(n, _)| on_path.contains(n)).collect();
        let ends = spec.chains.iter().flat_map(|c| [c.ingress(), c.egress()]).flatten();
        let targets = nfs.values().flat_map(|nf| &nf.divert).map(String::as_str);
        let used: IndexSet<&str> = ends.chain(targets).collect();
        let ports: IndexSet<&str> = spec.ports.keys().map(String::as_str).filter(|p| used.contains(p)).collect();
        let mut members = Vec::new();
        let mut instance_of = vec![0; nfs.len()];
        for group in fuse::groups(spec) {
            let names = group.iter().filter_map(|i| spec.nfs.get_index(*i)).map(|(n, _)| n.as_str());
            let group: Vec<usize> = names.filter_map(|n| nfs.get_index_of(n)).collect();
            for &nf in &group {
                instance_of[nf] = members.len();
            }
            if !group.is_empty() {
                members.push(group);
            }
        }
        let route = |chain: &Chain| {
            Some(Route {
                ingress: ports.get_index_of(chain.ingress()?)?,
                egress: ports.get_index_of(chain.egress()?)?,
                hops: chain.hops().iter().map(|n| nfs.get_index_of(n.as_str())).collect::<Option<_>>()?,
            })
        };
        let routes: Vec<Route> = spec.chains.iter().map(route).collect::<Option<_>>()?;
        Some(Self {
            spec,
            queues: vec![Vec::new(); members.len()],
            ports,
            nfs,
            instance_of,
            members,
            routes,
            chains: spec.chains.iter().enumerate().map(|(i, c)| (c.name.as_str(), i)).collect(),
            edges: IndexMap::new(),
            entries: Vec::new(),
            stages: 0,
        })
    }

    /// The consumer of packets that are on their way to `hop` of `chain`.
    fn consumer(&self, chain: usize, hop: usize) -> End {
        let route = &self.routes[chain];
        route.hops.get(hop).map_or(End::Port(route.egress), |nf| End::Instance(self.instance_of[*nf]))
    }

    fn edge(&mut self, from: End, to: End, chain: usize, hop: usize) -> usize {
        let nf = self.routes[chain].hops.get(hop).filter(|_| matches!(to, End::Instance(_)));
        let capacity = nf.and_then(|nf| self.nfs[*nf].queue).unwrap_or(self.spec.defaults.queue);
        let entry = self.edges.entry(Key { from, to, chain, hop });
        let index = entry.index();
        entry.or_insert(capacity);
        index
    }

    /// Makes every edge and, for those into an instance, the queue. Each queue makes the edges that leave it, so
    /// going through the edges in order until none is new reaches them all.
    fn queues(&mut self) {
        for chain in 0..self.routes.len() {
            let from = End::Port(self.routes[chain].ingress);
            let entry = self.edge(from, self.consumer(chain, 0), chain, 0);
            self.entries.push(entry);
        }
        let mut edge = 0;
        while let Some((&Key { to, chain, hop, .. }, _)) = self.edges.get_index(edge) {
            if let End::Instance(instance) = to {
                let queue = self.queue(edge, instance, chain, hop);
                self.queues[instance].push(queue);
            }
            edge += 1;
            if self.edges.len() > MAX_QUEUES || self.stages > MAX_STAGES {
                return;
            }
        }
    }

    fn queue(&mut self, edge: usize, instance: usize, chain: usize, first: usize) -> QueuePlan {
        let from = End::Instance(instance);
        let mut stages = Vec::new();
        let mut hop = first;
        while let Some(&nf) = self.routes[chain].hops.get(hop).filter(|nf| self.instance_of[**nf] == instance) {
            let spec: &'a Nf = self.nfs[nf];
            self.stages += 1 + spec.divert.len();
            let divert = spec.divert.iter().map(|target| self.divert(from, chain, hop, target)).collect();
            stages.push(StagePlan { nf, divert });
            hop += 1;
        }
        let next = self.edge(from, self.consumer(chain, hop), chain, hop);
        QueuePlan { edge, chain, hop: small(first), weight: self.spec.chains[chain].weight, stages, next }
    }

    /// The edge to a divert target, for packets of `chain` at `hop`.
    fn divert(&mut self, from: End, chain: usize, hop: usize, target: &str) -> usize {
        if let Some(port) = self.ports.get_index_of(target) {
            let end = self.routes[chain].hops.len();
            return self.edge(from, End::Port(port), chain, end);
        }
        if let Some(nf) = self.nfs.get_index_of(target)
            && let Some(skip) = self.routes[chain].hops.iter().skip(hop + 1).position(|n| *n == nf)
        {
            let hop = hop + 1 + skip;
            return self.edge(from, self.consumer(chain, hop), chain, hop);
        }
        // The checks let only names of chains come here; any other would go the chain's own way.
        let (chain, hop) = self.chains.get(target).map_or((chain, hop + 1), |c| (*c, 0));
        self.edge(from, self.consumer(chain, hop), chain, hop)
    }

    fn finish(mut self, file: &File, cores: &[usize]) -> Option<Plan> {
        let defaults = &self.spec.defaults;
        let manager_core = defaults.manager_core.or(cores.first().copied()).unwrap_or(0);
        let mut instances = self.instances(manager_core, cores);
        shares(&mut instances, manager_core);
        let edges: Vec<EdgePlan> = self
            .edges
            .iter()
            .map(|(k, capacity)| EdgePlan {
                from: k.from,
                to: k.to,
                chain: k.chain,
                hop: small(k.hop),
                capacity: *capacity,
            })
            .collect();
        let chains = self.spec.chains.iter().zip(&self.routes).enumerate().map(|(i, (c, route))| {
            Some(ChainPlan {
                name: c.name.clone(),
                tenant: c.tenant().to_owned(),
                matches: c.matches.clone(),
                ingress: route.ingress,
                egress: route.egress,
                hops: route.hops.clone(),
                entry: *self.entries.get(i)?,
                max_in_flight: c.max_in_flight.unwrap_or(0),
            })
        });
        let nf = |(name, nf): (&&str, &&Nf), instance: usize| NfPlan {
            name: (*name).to_owned(),
            kind: nf.kind.clone(),
            args: nf.args.clone(),
            divert: nf.divert.clone(),
            instance,
        };
        Some(Plan {
            name: file.metadata.name.clone(),
            manager_core,
            mechanisms: defaults.mechanisms,
            backpressure: backpressure(self.spec),
            buffers: defaults.buffers.unwrap_or_else(|| buffers(self.spec, &edges)),
            max_frame_bytes: defaults.max_frame_bytes,
            reserved: self.spec.cores.iter().filter(|(_, c)| c.reserved).map(|(core, _)| *core).collect(),
            ports: self
                .ports
                .iter()
                .map(|n| Some(PortPlan { name: (*n).to_owned(), spec: self.spec.ports.get(*n)?.clone() }))
                .collect::<Option<_>>()?,
            nfs: self.nfs.iter().zip(&self.instance_of).map(|(entry, i)| nf(entry, *i)).collect(),
            instances,
            chains: chains.collect::<Option<_>>()?,
            edges,
            gaps: crate::overlay::Gaps::default(),
        })
    }

    fn instances(&mut self, manager_core: usize, host: &[usize]) -> Vec<InstancePlan> {
        let defaults = &self.spec.defaults;
        let others: Vec<usize> = host.iter().copied().filter(|c| *c != manager_core).collect();
        let base = match (defaults.cores.is_empty(), others.is_empty()) {
            (false, _) => defaults.cores.clone(),
            (true, false) => others,
            (true, true) => vec![manager_core],
        };
        let queues = std::mem::take(&mut self.queues);
        let plan = |(members, queues): (&Vec<usize>, Vec<QueuePlan>)| {
            let nfs: Vec<(&str, &Nf)> =
                members.iter().filter_map(|i| self.nfs.get_index(*i)).map(|(n, nf)| (*n, *nf)).collect();
            let thread = nfs.iter().any(|(_, nf)| fuse::isolation(self.spec, nf) == Isolation::Thread);
            let own_cores = nfs.iter().map(|(_, nf)| &nf.cores).find(|c| !c.is_empty());
            let cores = own_cores.unwrap_or(&base).clone();
            let names: Vec<&str> = nfs.iter().map(|(name, _)| *name).collect();
            InstancePlan {
                name: nfs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("+"),
                host: if thread { Hosted::Thread } else { Hosted::Process },
                shares_core: false,
                sched: inherit::sched(self.spec, &names, &cores),
                cores,
                batch: nfs.iter().find_map(|(_, nf)| nf.batch).unwrap_or(defaults.batch.max(1)),
                nfs: members.clone(),
                queues,
            }
        };
        self.members.iter().zip(queues).map(plan).collect()
    }
}

/// Under overload all packets take about the same time, so half of the 99th percentile leaves room for the rest.
fn backpressure(spec: &Spec) -> Backpressure {
    let asked = spec.defaults.backpressure;
    let slo = spec.slo.and_then(|s| s.p99_us).map(|us| (us / 2.0).max(10.0));
    Backpressure { target_us: asked.target_us.or(slo), ..asked }
}

fn small(hop: usize) -> u8 {
    u8::try_from(hop).unwrap_or(u8::MAX)
}

/// Marks instances that have a core on which the manager or another instance may run.
fn shares(instances: &mut [InstancePlan], manager_core: usize) {
    let mut users: HashMap<usize, usize> = HashMap::from([(manager_core, 1)]);
    for core in instances.iter().flat_map(|i| &i.cores) {
        *users.entry(*core).or_default() += 1;
    }
    for instance in instances {
        instance.shares_core = instance.cores.iter().any(|core| users.get(core).is_some_and(|n| *n > 1));
    }
}

/// Enough for all queues of the tenant with the most of them, so that a full queue starves no port.
fn buffers(spec: &Spec, edges: &[EdgePlan]) -> u32 {
    let mut by_tenant: HashMap<&str, u64> = HashMap::new();
    for edge in edges {
        let tenant = spec.chains.get(edge.chain).map_or(crate::model::DEFAULT_TENANT, Chain::tenant);
        *by_tenant.entry(tenant).or_default() += u64::from(edge.capacity);
    }
    let most = by_tenant.into_values().max().unwrap_or(0) + SPARE_BUFFERS;
    let rounded = most.next_multiple_of(1024).min(USUAL_BUFFERS);
    u32::try_from(rounded).unwrap_or(u32::MAX).clamp(*BUFFERS.start(), *BUFFERS.end())
}
