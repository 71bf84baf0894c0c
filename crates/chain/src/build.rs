//! From a checked file to its plan.

use crate::diag::Diagnostics;
use crate::load::{Host, recheck};
use crate::model::{BUFFERS, Backpressure, Chain, Dispatch, File, Isolation, Nf, Spec};
use crate::plan::{
    Activation, ChainPlan, EdgePlan, End, Host as Hosted, InstancePlan, NfPlan, Plan, PortPlan, QueuePlan, StagePlan,
    Way,
};
use crate::{check::MAX_QUEUES, cores, fuse, inherit};
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

/// NFs that share an instance, and how many such instances there are.
struct Group {
    /// Positions in [`Build::nfs`].
    members: Vec<usize>,
    replicas: usize,
    dispatch: Dispatch,
    /// The first of its instances; the others follow.
    instance: usize,
}

/// Names resolved to positions.
struct Route {
    ingress: usize,
    egress: usize,
    hops: Vec<usize>,
}

struct Build<'a> {
    spec: &'a Spec,
    /// Used ports and NFs, in the order of the file. The positions of ports are their ids.
    ports: IndexSet<&'a str>,
    nfs: IndexMap<&'a str, &'a Nf>,
    /// By NF: the id of its first replica, and its group.
    first_of: Vec<usize>,
    group_of: Vec<usize>,
    groups: Vec<Group>,
    /// By instance: its group, and its number in it.
    instances: Vec<(usize, usize)>,
    routes: Vec<Route>,
    chains: HashMap<&'a str, usize>,
    edges: IndexMap<Key, u32>,
    entries: Vec<Way>,
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
        let (mut groups, mut instances) = (Vec::new(), Vec::new());
        let mut group_of = vec![0; nfs.len()];
        for group in fuse::groups(spec) {
            let names = group.iter().filter_map(|i| spec.nfs.get_index(*i)).map(|(n, _)| n.as_str());
            let members: Vec<usize> = names.filter_map(|n| nfs.get_index_of(n)).collect();
            if members.is_empty() {
                continue;
            }
            let of = |nf: &usize| nfs[*nf];
            let replicas = fuse::replicas(members.iter().map(of));
            let dispatch = members.iter().map(of).find_map(|nf| nf.dispatch).unwrap_or_default();
            members.iter().for_each(|nf| group_of[*nf] = groups.len());
            let instance = instances.len();
            instances.extend((0..replicas).map(|k| (groups.len(), k)));
            groups.push(Group { members, replicas, dispatch, instance });
        }
        let mut next = 0;
        let first_of = group_of.iter().map(|g| {
            next += groups[*g].replicas;
            next - groups[*g].replicas
        });
        let first_of = first_of.collect();
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
            queues: vec![Vec::new(); instances.len()],
            ports,
            nfs,
            first_of,
            group_of,
            groups,
            instances,
            routes,
            chains: spec.chains.iter().enumerate().map(|(i, c)| (c.name.as_str(), i)).collect(),
            edges: IndexMap::new(),
            entries: Vec::new(),
            stages: 0,
        })
    }

    /// The way of packets from `from` to `hop` of `chain`.
    fn way(&mut self, from: End, chain: usize, hop: usize) -> Way {
        let route = &self.routes[chain];
        let Some(&nf) = route.hops.get(hop) else {
            let port = End::Port(route.egress);
            return Way::To(self.edge(from, port, chain, hop));
        };
        let number = self.group_of[nf];
        let Group { replicas, dispatch, instance, .. } = self.groups[number];
        // What an instance sends back to its own group it keeps: it came there for a reason.
        let own = |end: End| matches!(end, End::Instance(i) if self.instances[i].0 == number);
        if own(from) || replicas == 1 {
            let to = if own(from) { from } else { End::Instance(instance) };
            return Way::To(self.edge(from, to, chain, hop));
        }
        let edges = (instance..instance + replicas).map(|i| self.edge(from, End::Instance(i), chain, hop));
        Way::Among { dispatch, edges: edges.collect() }
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
            let entry = self.way(from, chain, 0);
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
        self.even_out();
    }

    /// A chain whose packets come from replicas has several queues where it would have one: together they have its weight.
    fn even_out(&mut self) {
        let Self { queues, edges, instances, .. } = self;
        for queues in queues {
            let source = |q: &QueuePlan| {
                let (key, _) = edges.get_index(q.edge)?;
                let End::Instance(from) = key.from else { return None };
                Some((key.chain, key.hop, instances[from].0))
            };
            let mut counts: HashMap<_, u32> = HashMap::new();
            queues.iter().for_each(|q| *counts.entry(source(q)).or_default() += u32::from(source(q).is_some()));
            let all = counts.values().copied().fold(1, |all, n| common_multiple(all, n.max(1)));
            for q in queues {
                let n = counts.get(&source(q)).copied().unwrap_or(1).max(1);
                q.weight = (q.weight * all).div_ceil(n);
            }
        }
    }

    fn queue(&mut self, edge: usize, instance: usize, chain: usize, first: usize) -> QueuePlan {
        let from = End::Instance(instance);
        let (group, replica) = self.instances[instance];
        let mut stages = Vec::new();
        let mut hop = first;
        while let Some(&nf) = self.routes[chain].hops.get(hop).filter(|nf| self.group_of[**nf] == group) {
            let spec: &'a Nf = self.nfs[nf];
            self.stages += 1 + spec.divert.len();
            let divert = spec.divert.iter().map(|target| self.divert(from, chain, hop, target)).collect();
            stages.push(StagePlan { nf: self.first_of[nf] + replica, divert });
            hop += 1;
        }
        let next = self.way(from, chain, hop);
        QueuePlan { edge, chain, hop: small(first), weight: self.spec.chains[chain].weight, stages, next }
    }

    /// The way to a divert target, for packets of `chain` at `hop`.
    fn divert(&mut self, from: End, chain: usize, hop: usize, target: &str) -> Way {
        if let Some(port) = self.ports.get_index_of(target) {
            let end = self.routes[chain].hops.len();
            return Way::To(self.edge(from, End::Port(port), chain, end));
        }
        if let Some(nf) = self.nfs.get_index_of(target)
            && let Some(skip) = self.routes[chain].hops.iter().skip(hop + 1).position(|n| *n == nf)
        {
            return self.way(from, chain, hop + 1 + skip);
        }
        // The checks let only names of chains come here; any other would go the chain's own way.
        let (chain, hop) = self.chains.get(target).map_or((chain, hop + 1), |c| (*c, 0));
        self.way(from, chain, hop)
    }

    fn finish(mut self, file: &File, cores: &[usize]) -> Option<Plan> {
        let defaults = &self.spec.defaults;
        let manager_core = cores::manager(self.spec, cores);
        let instances = self.instances(manager_core, cores);
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
                hops: route.hops.iter().map(|nf| self.first_of[*nf]).collect(),
                entry: self.entries.get(i)?.clone(),
                max_in_flight: c.max_in_flight.unwrap_or(0),
            })
        });
        let nfs = self.nfs.iter().enumerate().flat_map(|(position, (name, nf))| {
            let (group, first) = (&self.groups[self.group_of[position]], self.first_of[position]);
            (0..group.replicas).map(move |k| NfPlan {
                name: if group.replicas == 1 { (*name).to_owned() } else { format!("{name}/{k}") },
                base: (*name).to_owned(),
                first,
                replicas: group.replicas,
                state: nf.state.unwrap_or_default(),
                kind: nf.kind.clone(),
                args: nf.args.clone(),
                divert: nf.divert.clone(),
                instance: group.instance + k,
            })
        });
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
            nfs: nfs.collect(),
            instances,
            chains: chains.collect::<Option<_>>()?,
            edges,
            gaps: crate::overlay::Gaps::default(),
        })
    }

    fn instances(&mut self, manager_core: usize, host: &[usize]) -> Vec<InstancePlan> {
        let defaults = &self.spec.defaults;
        let base = cores::base(self.spec, host);
        let queues = std::mem::take(&mut self.queues);
        let plan = |(&(number, k), queues): (&(usize, usize), Vec<QueuePlan>)| {
            let group = &self.groups[number];
            let nfs: Vec<(&str, &Nf)> =
                group.members.iter().filter_map(|i| self.nfs.get_index(*i)).map(|(n, nf)| (*n, *nf)).collect();
            let thread = nfs.iter().any(|(_, nf)| fuse::isolation(self.spec, nf) == Isolation::Thread);
            let cores = cores::of(nfs.iter().map(|(_, nf)| *nf), &base);
            let cores = cores::of_replica(&cores, k, group.replicas);
            let names: Vec<&str> = nfs.iter().map(|(name, _)| *name).collect();
            let name = |name: &&str| if group.replicas == 1 { (*name).to_owned() } else { format!("{name}/{k}") };
            InstancePlan {
                name: names.iter().map(name).collect::<Vec<_>>().join("+"),
                host: if thread { Hosted::Thread } else { Hosted::Process },
                shares_core: false,
                sched: inherit::sched(self.spec, &names, &cores),
                activation: Activation::default(),
                cores,
                batch: nfs.iter().find_map(|(_, nf)| nf.batch).unwrap_or(defaults.batch.max(1)),
                nfs: group.members.iter().map(|nf| self.first_of[*nf] + k).collect(),
                queues,
            }
        };
        let mut instances: Vec<InstancePlan> = self.instances.iter().zip(queues).map(plan).collect();
        let places: Vec<&[usize]> = instances.iter().map(|i| i.cores.as_slice()).collect();
        let shared = cores::shared(manager_core, &places);
        for ((instance, (group, _)), shares_core) in instances.iter_mut().zip(&self.instances).zip(shared) {
            let nfs = self.groups[*group].members.iter().filter_map(|i| self.nfs.get_index(*i)).map(|(_, nf)| *nf);
            instance.activation = inherit::activation(self.spec, nfs, shares_core);
            instance.shares_core = shares_core;
        }
        instances
    }
}

/// Under overload all packets take about the same time, so half of the 99th percentile leaves room for the rest.
fn backpressure(spec: &Spec) -> Backpressure {
    let asked = spec.defaults.backpressure;
    let slo = spec.slo.and_then(|s| s.p99_us).map(|us| (us / 2.0).max(10.0));
    Backpressure { target_us: asked.target_us.or(slo), ..asked }
}

/// The least of two numbers; one of them, if that would be large.
fn common_multiple(a: u32, b: u32) -> u32 {
    const LARGE: u32 = 4096;
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    let least = a / x * b;
    if least <= LARGE { least } else { a.max(b) }
}

fn small(hop: usize) -> u8 {
    u8::try_from(hop).unwrap_or(u8::MAX)
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
