//! A plan laid over the one in force: what stays keeps its ids, what is new is appended, what is gone stays as a gap.
//!
//! An instance gets its queues when it starts, so it stays only if none of them changes: one that is to serve another
//! chain as well, or another path, is started anew under a new id, and with it go all chains that it serves. So two ids
//! never share a queue unless both stay, and a chain changes as a whole or not at all.

use crate::plan::{ChainPlan, End, InstancePlan, Plan, QueuePlan, StagePlan, Way};
use std::collections::{BTreeSet, HashMap};

/// What a plan that was changed in a run has no more, and the order of what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Chains that are gone; their accounts stay.
    pub chains: BTreeSet<usize>,
    /// Instances that are gone, and their NFs.
    pub instances: BTreeSet<usize>,
    /// Chains in the order of the classifier; empty: that of their ids.
    pub order: Vec<usize>,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlay {
    /// All of it: the ids of what was in force are the same as before.
    pub plan: Plan,
    /// Instances that are new.
    pub started: Vec<usize>,
    /// Instances that are to go.
    pub ended: Vec<usize>,
    /// Chains that are new, or change so much that they have a new id.
    pub opened: Vec<usize>,
    /// Chains that are to go; those with a new id among them.
    pub closed: Vec<usize>,
    /// Ports that are new.
    pub ports: Vec<usize>,
    /// Instances that stay, as they are in the new plan: the old id, the new plan's.
    pub kept: Vec<(usize, usize)>,
}

impl Plan {
    /// Chains in force, in the order of the classifier.
    #[must_use]
    pub fn chains_in_force(&self) -> Vec<usize> {
        if self.gaps.order.is_empty() { (0..self.chains.len()).collect() } else { self.gaps.order.clone() }
    }

    /// Whether an NF is in force.
    #[must_use]
    pub fn has_nf(&self, nf: usize) -> bool {
        !self.gaps.instances.contains(&self.nfs[nf].instance)
    }

    /// Lays `new` over this plan.
    #[must_use]
    pub fn overlay(&self, new: &Self) -> Overlay {
        Laying::new(self, new).lay()
    }
}

/// A queue by names: these are unique among what is in force.
type EdgeName = (String, String, String, u8, u32);

fn end_name(plan: &Plan, end: End) -> String {
    match end {
        End::Port(p) => format!("port {}", plan.ports[p].name),
        End::Instance(i) => format!("instance {}", plan.instances[i].name),
    }
}

fn edge_name(plan: &Plan, edge: usize) -> EdgeName {
    let e = &plan.edges[edge];
    (end_name(plan, e.from), end_name(plan, e.to), plan.chains[e.chain].name.clone(), e.hop, e.capacity)
}

/// A way by its queues' names, and what deals packets out among them.
type WayName = (Option<crate::model::Dispatch>, Vec<EdgeName>);

fn way_name(plan: &Plan, way: &Way) -> WayName {
    let dispatch = if let Way::Among { dispatch, .. } = way { Some(*dispatch) } else { None };
    (dispatch, way.edges().iter().map(|e| edge_name(plan, *e)).collect())
}

/// An NF and the queues that it diverts to, by names.
type StageName = (String, Vec<WayName>);

/// A queue and its stages by names.
fn queue_name(plan: &Plan, q: &QueuePlan) -> (EdgeName, u8, u32, Vec<StageName>, WayName) {
    let stage =
        |s: &StagePlan| (plan.nfs[s.nf].name.clone(), s.divert.iter().map(|d| way_name(plan, d)).collect::<Vec<_>>());
    (edge_name(plan, q.edge), q.hop, q.weight, q.stages.iter().map(stage).collect(), way_name(plan, &q.next))
}

fn same_instance(old: &Plan, i: usize, new: &Plan, k: usize) -> bool {
    let (a, b) = (&old.instances[i], &new.instances[k]);
    // Everything but what is compared by names below, and what can be changed from outside.
    let bare = |p: &InstancePlan| InstancePlan {
        cores: Vec::new(),
        shares_core: false,
        sched: crate::model::Sched::default(),
        nfs: Vec::new(),
        queues: Vec::new(),
        ..p.clone()
    };
    let nf = |plan: &Plan, n: usize| crate::plan::NfPlan { instance: 0, first: 0, ..plan.nfs[n].clone() };
    bare(a) == bare(b)
        && a.nfs.len() == b.nfs.len()
        && a.nfs.iter().zip(&b.nfs).all(|(x, y)| nf(old, *x) == nf(new, *y))
        && a.queues.len() == b.queues.len()
        && a.queues.iter().zip(&b.queues).all(|(x, y)| queue_name(old, x) == queue_name(new, y))
}

fn same_chain(old: &Plan, c: usize, new: &Plan, d: usize) -> bool {
    let (a, b) = (&old.chains[c], &new.chains[d]);
    let bare = |c: &ChainPlan| ChainPlan {
        matches: crate::model::Match::default(),
        ingress: 0,
        egress: 0,
        hops: Vec::new(),
        entry: Way::To(0),
        ..c.clone()
    };
    let names = |plan: &Plan, c: &ChainPlan| {
        let hops: Vec<String> = c.hops.iter().map(|n| plan.nfs[*n].name.clone()).collect();
        (plan.ports[c.ingress].name.clone(), plan.ports[c.egress].name.clone(), hops, way_name(plan, &c.entry))
    };
    bare(a) == bare(b) && names(old, a) == names(new, b)
}

struct Laying<'a> {
    old: &'a Plan,
    new: &'a Plan,
    /// For each instance and chain of the new plan, the old id if it stays.
    instances: Vec<Option<usize>>,
    chains: Vec<Option<usize>>,
}

impl<'a> Laying<'a> {
    fn new(old: &'a Plan, new: &'a Plan) -> Self {
        let in_force = (0..old.instances.len()).filter(|i| !old.gaps.instances.contains(i));
        let by_name: HashMap<&str, usize> = in_force.map(|i| (old.instances[i].name.as_str(), i)).collect();
        let chain_by_name: HashMap<&str, usize> =
            old.chains_in_force().into_iter().map(|c| (old.chains[c].name.as_str(), c)).collect();
        let instances = new
            .instances
            .iter()
            .enumerate()
            .map(|(k, p)| by_name.get(p.name.as_str()).copied().filter(|&i| same_instance(old, i, new, k)));
        let chains = new
            .chains
            .iter()
            .enumerate()
            .map(|(d, p)| chain_by_name.get(p.name.as_str()).copied().filter(|&c| same_chain(old, c, new, d)));
        let mut this = Self { old, new, instances: instances.collect(), chains: chains.collect() };
        if old.mechanisms.backpressure() != new.mechanisms.backpressure() {
            // Whether an instance takes packets without room behind it, it is told once.
            this.instances.fill(None);
            this.chains.fill(None);
        }
        this.settle();
        this
    }

    /// Whoever touches a queue of something that changes, changes.
    fn settle(&mut self) {
        let new = self.new;
        let mut before = (0, 0);
        loop {
            for edge in &new.edges {
                let ends = [edge.from, edge.to];
                let stays = |end: &End| match end {
                    End::Instance(i) => self.instances[*i].is_some(),
                    End::Port(_) => true,
                };
                if self.chains[edge.chain].is_none() || !ends.iter().all(stays) {
                    self.chains[edge.chain] = None;
                    for end in ends {
                        if let End::Instance(i) = end {
                            self.instances[i] = None;
                        }
                    }
                }
            }
            // An instance that changes takes all chains that it serves with it: their queues end at it.
            let now = (count(&self.instances), count(&self.chains));
            if now == before {
                return;
            }
            before = now;
        }
    }

    fn lay(self) -> Overlay {
        let Self { old, new, instances: kept, chains: kept_chains } = &self;
        let mut plan: Plan = (*old).clone();
        (plan.mechanisms, plan.backpressure) = (new.mechanisms, new.backpressure);
        let number = |list: &[Option<usize>], mut next: usize| -> Vec<usize> {
            let ids = list.iter().map(|id| {
                id.unwrap_or_else(|| {
                    next += 1;
                    next - 1
                })
            });
            ids.collect()
        };
        let known_ports: Vec<Option<usize>> =
            new.ports.iter().map(|p| old.ports.iter().position(|o| o.name == p.name)).collect();
        let known_nfs: Vec<Option<usize>> = new
            .nfs
            .iter()
            .map(|n| old.instances[kept[n.instance]?].nfs.iter().copied().find(|o| old.nfs[*o].name == n.name))
            .collect();
        let in_force: BTreeSet<usize> = old.chains_in_force().into_iter().collect();
        let edges: HashMap<EdgeName, usize> = (0..old.edges.len())
            .filter(|e| in_force.contains(&old.edges[*e].chain))
            .map(|e| (edge_name(old, e), e))
            .collect();
        let known_edges: Vec<Option<usize>> = (0..new.edges.len())
            .map(|e| kept_chains[new.edges[e].chain].and_then(|_| edges.get(&edge_name(new, e)).copied()))
            .collect();
        let ports = number(&known_ports, old.ports.len());
        let nfs = number(&known_nfs, old.nfs.len());
        let instances = number(kept, old.instances.len());
        let chains = number(kept_chains, old.chains.len());
        let edge_ids = number(&known_edges, old.edges.len());
        let end = |end: End| match end {
            End::Port(p) => End::Port(ports[p]),
            End::Instance(i) => End::Instance(instances[i]),
        };
        for (p, spec) in new.ports.iter().enumerate().filter(|(p, _)| known_ports[*p].is_none()) {
            debug_assert_eq!(ports[p], plan.ports.len());
            plan.ports.push(spec.clone());
        }
        for (n, nf) in new.nfs.iter().enumerate().filter(|(n, _)| known_nfs[*n].is_none()) {
            debug_assert_eq!(nfs[n], plan.nfs.len());
            plan.nfs.push(crate::plan::NfPlan { instance: instances[nf.instance], first: nfs[nf.first], ..nf.clone() });
        }
        for (e, edge) in new.edges.iter().enumerate().filter(|(e, _)| known_edges[*e].is_none()) {
            debug_assert_eq!(edge_ids[e], plan.edges.len());
            let (from, to) = (end(edge.from), end(edge.to));
            plan.edges.push(crate::plan::EdgePlan { from, to, chain: chains[edge.chain], ..edge.clone() });
        }
        for (i, instance) in new.instances.iter().enumerate() {
            if let Some(id) = kept[i] {
                plan.instances[id].shares_core = instance.shares_core;
                continue;
            }
            let stage = |s: &StagePlan| StagePlan {
                nf: nfs[s.nf],
                divert: s.divert.iter().map(|way| way.renumbered(&edge_ids)).collect(),
            };
            let queue = |q: &QueuePlan| QueuePlan {
                edge: edge_ids[q.edge],
                chain: chains[q.chain],
                stages: q.stages.iter().map(stage).collect(),
                next: q.next.renumbered(&edge_ids),
                ..q.clone()
            };
            plan.instances.push(InstancePlan {
                nfs: instance.nfs.iter().map(|n| nfs[*n]).collect(),
                queues: instance.queues.iter().map(queue).collect(),
                ..instance.clone()
            });
        }
        for (c, chain) in new.chains.iter().enumerate() {
            if let Some(id) = kept_chains[c] {
                plan.chains[id].matches = chain.matches.clone();
                continue;
            }
            plan.chains.push(ChainPlan {
                ingress: ports[chain.ingress],
                egress: ports[chain.egress],
                hops: chain.hops.iter().map(|n| nfs[*n]).collect(),
                entry: chain.entry.renumbered(&edge_ids),
                ..chain.clone()
            });
        }
        let stays: BTreeSet<usize> = kept.iter().flatten().copied().collect();
        let ended = (0..old.instances.len()).filter(|i| !old.gaps.instances.contains(i) && !stays.contains(i));
        let ended: Vec<usize> = ended.collect();
        let closed: Vec<usize> = in_force.into_iter().filter(|c| !kept_chains.contains(&Some(*c))).collect();
        plan.gaps.instances.extend(&ended);
        plan.gaps.chains.extend(&closed);
        plan.gaps.order.clone_from(&chains);
        Overlay {
            started: (old.instances.len()..plan.instances.len()).collect(),
            ended,
            opened: (old.chains.len()..plan.chains.len()).collect(),
            closed,
            ports: (old.ports.len()..plan.ports.len()).collect(),
            kept: kept.iter().enumerate().filter_map(|(i, id)| id.map(|id| (id, i))).collect(),
            plan,
        }
    }
}

fn count(list: &[Option<usize>]) -> usize {
    list.iter().flatten().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use std::path::Path;

    const NFS: &str = "a: {kind: forward}, b: {kind: forward}, c: {kind: forward, divert: [other]}, \
                       d: {kind: forward}, e: {kind: forward}";

    fn plan(chains: &[(&str, &str)]) -> Plan {
        plan_of(NFS, chains)
    }

    fn plan_of(nfs: &str, chains: &[(&str, &str)]) -> Plan {
        let lines: String = chains
            .iter()
            .map(|(name, path)| {
                format!("    - {{name: {name}, match: {{vlan: {}}}, path: [in, {path}out]}}\n", name.len())
            })
            .collect();
        let text = format!(
            "apiVersion: chainline/v1alpha1\nkind: ServiceChain\nmetadata: {{name: t}}\nspec:\n  ports: {{in: {{generator: {{}}}}, out: {{sink: {{}}}}}}\n  nfs: {{{nfs}}}\n  chains:\n{lines}"
        );
        Plan::build(&load(&text, Path::new("t.yaml")).unwrap(), &[0, 1]).unwrap()
    }

    /// What holds for every overlay: what is in force reads, by names, exactly as the new plan.
    fn check(old: &Plan, new: &Plan) -> Overlay {
        let laid = old.overlay(new);
        let p = &laid.plan;
        let order = p.chains_in_force();
        assert_eq!(order.len(), new.chains.len());
        for (c, id) in order.iter().enumerate() {
            assert!(same_chain(p, *id, new, c) && p.chains[*id].matches == new.chains[c].matches);
            assert!(!p.gaps.chains.contains(id));
        }
        for (k, i) in new.instances.iter().enumerate() {
            let ids: Vec<usize> = (0..p.instances.len())
                .filter(|x| !p.gaps.instances.contains(x) && p.instances[*x].name == i.name)
                .collect();
            assert_eq!(ids.len(), 1, "{}", i.name);
            assert!(same_instance(p, ids[0], new, k), "{}", i.name);
            assert!(p.instances[ids[0]].nfs.iter().all(|n| p.nfs[*n].instance == ids[0]));
        }
        let in_force = p.instances.len() - p.gaps.instances.len();
        assert_eq!(in_force, new.instances.len());
        // No queue joins what stays with what goes.
        for e in &p.edges {
            let gone = p.gaps.chains.contains(&e.chain);
            for end in [e.from, e.to] {
                if let End::Instance(i) = end {
                    assert_eq!(p.gaps.instances.contains(&i), gone, "{e:?}");
                }
            }
        }
        // Old ids mean what they meant.
        assert!(old.nfs.iter().zip(&p.nfs).all(|(a, b)| a == b) && old.edges.iter().zip(&p.edges).all(|(a, b)| a == b));
        laid
    }

    fn names(plan: &Plan, instances: &[usize]) -> String {
        instances.iter().map(|i| plan.instances[*i].name.as_str()).collect()
    }

    #[test]
    fn nothing_changes_where_nothing_differs() {
        let one = plan(&[("x", "a, "), ("other", "b, ")]);
        let laid = check(&one, &one);
        assert_eq!((laid.started.len(), laid.ended.len(), laid.opened.len(), laid.closed.len()), (0, 0, 0, 0));
        assert_eq!(laid.kept, [(0, 0), (1, 1)]);
        let order = check(&one, &plan(&[("other", "b, "), ("x", "a, ")]));
        assert_eq!((order.plan.chains_in_force(), order.opened.len(), order.closed.len()), (vec![1, 0], 0, 0));
    }

    #[test]
    fn a_chain_comes_and_goes_beside_the_others() {
        let one = plan(&[("x", "a, "), ("other", "b, ")]);
        let more = check(&one, &plan(&[("new", "d, e, "), ("x", "a, "), ("other", "b, ")]));
        assert_eq!(names(&more.plan, &more.started), "de");
        assert_eq!((more.opened.as_slice(), more.closed.len(), more.ended.len()), (&[2][..], 0, 0));
        assert_eq!(more.plan.chains_in_force(), [2, 0, 1]);
        let less = check(&more.plan, &one);
        assert_eq!((less.closed.as_slice(), less.ended.as_slice(), less.started.len()), (&[2][..], &[2, 3][..], 0));
        // And again: under ids of its own.
        let again = check(&less.plan, &plan(&[("x", "a, "), ("other", "b, "), ("new", "d, e, ")]));
        assert_eq!((again.opened.as_slice(), again.started.as_slice()), (&[3][..], &[4, 5][..]));
        let bare = check(&one, &plan(&[("x", "a, "), ("other", "b, "), ("straight", "")]));
        assert_eq!((bare.opened.len(), bare.started.len()), (1, 0));
    }

    #[test]
    fn whoever_shares_an_nf_goes_with_it() {
        let one = plan(&[("x", "a, "), ("other", "b, ")]);
        let shared = check(&one, &plan(&[("x", "a, "), ("other", "b, "), ("new", "a, d, ")]));
        assert_eq!(
            (names(&shared.plan, &shared.ended), names(&shared.plan, &shared.started)),
            ("a".into(), "ad".into())
        );
        assert_eq!((shared.closed.as_slice(), shared.opened.as_slice()), (&[0][..], &[2, 3][..]));
        assert_eq!(shared.plan.chains_in_force(), [2, 1, 3]);
    }

    #[test]
    fn whoever_diverts_to_a_chain_goes_with_it() {
        let one = plan(&[("x", "c, "), ("other", "b, "), ("far", "e, ")]);
        let longer = check(&one, &plan(&[("x", "c, "), ("other", "b, d, "), ("far", "e, ")]));
        assert_eq!(names(&longer.plan, &longer.ended), "bc");
        assert_eq!(longer.closed, [0, 1]);
        assert_eq!(longer.kept, [(2, 3)]);
    }
    #[test]
    fn replicas_stay_together_and_go_together() {
        let nfs = |replicas: u32, dispatch: &str| {
            NFS.replacen(
                "{kind: forward}",
                &format!("{{kind: forward, replicas: {replicas}, dispatch: {dispatch}}}"),
                1,
            )
        };
        let chains = [("x", "a, e, "), ("other", "b, ")];
        let one = plan_of(&nfs(2, "flow"), &chains);
        assert_eq!(check(&one, &one).kept, [(0, 0), (1, 1), (2, 2), (3, 3)]);
        // What they stand beside does not matter.
        let more = [chains[0], chains[1], ("new", "d, ")];
        assert_eq!(names(&one, &check(&one, &plan_of(&nfs(2, "flow"), &more)).ended), "");
        for (other, started) in [(nfs(3, "flow"), "a/0a/1a/2e"), (nfs(2, "host"), "a/0a/1e"), (nfs(1, "flow"), "ae")] {
            let laid = check(&one, &plan_of(&other, &chains));
            assert_eq!((names(&laid.plan, &laid.ended).as_str(), laid.closed.as_slice()), ("a/0a/1e", &[0][..]));
            assert_eq!(names(&laid.plan, &laid.started), started);
            let first = laid.plan.nfs.len() - laid.started.len();
            assert!(laid.started.len() == 2 || laid.plan.nfs[first + 1].first == first, "{:?}", laid.plan.nfs);
            // And back.
            check(&laid.plan, &one);
        }
    }
}
