//! What holds for every plan; shared with fuzzing.

use chainline_chain::plan::{End, Plan, Way};
use std::collections::{BTreeSet, HashMap};

/// Every edge has one producer and one consumer, every hop of every chain is reached, ids are in range.
pub fn check_plan(plan: &Plan, cores: &[usize]) {
    let mut consumers: HashMap<usize, usize> = HashMap::new();
    let mut producers: HashMap<usize, BTreeSet<String>> = HashMap::new();
    for (i, instance) in plan.instances.iter().enumerate() {
        assert!(!instance.nfs.is_empty() && !instance.cores.is_empty());
        assert!(instance.cores.iter().all(|c| cores.contains(c)));
        let shared = plan
            .instances
            .iter()
            .enumerate()
            .any(|(j, other)| i != j && other.cores.iter().any(|c| instance.cores.contains(c)))
            || instance.cores.contains(&plan.manager_core);
        assert_eq!(instance.shares_core, shared);
        for queue in &instance.queues {
            let edge = &plan.edges[queue.edge];
            assert_eq!((edge.to, edge.chain, edge.hop), (End::Instance(i), queue.chain, queue.hop));
            *consumers.entry(queue.edge).or_default() += 1;
            let chain = &plan.chains[queue.chain];
            let hops = &chain.hops[usize::from(queue.hop)..];
            assert!(!queue.stages.is_empty() && queue.stages.len() <= hops.len());
            for (stage, hop) in queue.stages.iter().zip(hops) {
                assert_eq!(plan.nfs[stage.nf].first, *hop);
                assert_eq!(plan.nfs[stage.nf].instance, i);
                assert_eq!(stage.divert.len(), plan.nfs[stage.nf].divert.len());
                for (divert, target) in stage.divert.iter().zip(&plan.nfs[stage.nf].divert) {
                    check_way(plan, divert);
                    for divert in divert.edges() {
                        let edge = &plan.edges[*divert];
                        match edge.to {
                            End::Port(p) if plan.ports[p].name == *target => assert_eq!(edge.chain, queue.chain),
                            _ => assert_eq!((&plan.chains[edge.chain].name, edge.hop), (target, 0)),
                        }
                        producers.entry(*divert).or_default().insert(format!("i{i}"));
                    }
                }
            }
            // The run is maximal: what follows is another instance, with all its replicas, or the port.
            check_way(plan, &queue.next);
            let to: Vec<End> = queue.next.edges().iter().map(|e| plan.edges[*e].to).collect();
            match hops.get(queue.stages.len()) {
                None => assert_eq!(to, [End::Port(chain.egress)]),
                Some(nf) => {
                    let replicas = plan.replicas_of(*nf).map(|nf| plan.nfs[nf].instance);
                    assert!(replicas.clone().all(|r| r != i));
                    assert_eq!(to, replicas.map(End::Instance).collect::<Vec<_>>());
                }
            }
            for next in queue.next.edges() {
                let edge = &plan.edges[*next];
                assert_eq!(usize::from(edge.hop), usize::from(queue.hop) + queue.stages.len());
                assert_eq!(edge.chain, queue.chain);
                producers.entry(*next).or_default().insert(format!("i{i}"));
            }
        }
    }
    for chain in &plan.chains {
        check_way(plan, &chain.entry);
        for entry in chain.entry.edges() {
            assert_eq!(plan.edges[*entry].from, End::Port(chain.ingress));
            producers.entry(*entry).or_default().insert(format!("p{}", chain.ingress));
        }
    }
    for (id, nf) in plan.nfs.iter().enumerate() {
        let first = &plan.nfs[nf.first];
        assert!(plan.replicas_of(id).contains(&id) && first.first == nf.first && first.base == nf.base);
        // The replicas of fused NFs go together.
        let members = |instance: usize| plan.instances[instance].nfs.iter().map(|n| plan.nfs[*n].first);
        assert!(members(nf.instance).eq(members(first.instance)));
        assert_eq!(nf.instance - first.instance, id - nf.first);
    }
    let mut total = 0;
    for (i, edge) in plan.edges.iter().enumerate() {
        let from = match edge.from {
            End::Port(p) => format!("p{p}"),
            End::Instance(n) => format!("i{n}"),
        };
        assert_eq!(producers.get(&i), Some(&BTreeSet::from([from])), "edge {i}");
        let expected = usize::from(matches!(edge.to, End::Instance(_)));
        assert_eq!(consumers.get(&i).copied().unwrap_or(0), expected, "edge {i}");
        assert!(edge.capacity.is_power_of_two());
        total += edge.capacity;
    }
    let keys: BTreeSet<_> =
        plan.edges.iter().map(|e| format!("{:?} {:?} {} {}", e.from, e.to, e.chain, e.hop)).collect();
    assert_eq!(keys.len(), plan.edges.len(), "two edges for the same packets");
    // With very many queues not all are full at once.
    assert!(plan.buffers >= (total + 2048).min(65_536));
}

/// The edges of a way are alike but for the replicas that they lead to, which are all of an NF's, in order.
fn check_way(plan: &Plan, way: &Way) {
    let Way::Among { edges, .. } = way else { return };
    assert!(edges.len() > 1);
    let bare = |e: &usize| (plan.edges[*e].from, plan.edges[*e].chain, plan.edges[*e].hop, plan.edges[*e].capacity);
    assert!(edges.iter().all(|e| bare(e) == bare(&edges[0])));
    let nf = plan.chains[plan.edges[edges[0]].chain].hops[usize::from(plan.edges[edges[0]].hop)];
    let replicas = plan.replicas_of(nf).map(|nf| End::Instance(plan.nfs[nf].instance));
    assert!(edges.iter().map(|e| plan.edges[*e].to).eq(replicas));
}
