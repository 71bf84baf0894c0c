//! What holds for every plan; shared with fuzzing.

use chainline_chain::plan::{End, Plan};
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
                assert_eq!(stage.nf, *hop);
                assert_eq!(plan.nfs[stage.nf].instance, i);
                assert_eq!(stage.divert.len(), plan.nfs[stage.nf].divert.len());
                for (divert, target) in stage.divert.iter().zip(&plan.nfs[stage.nf].divert) {
                    let edge = &plan.edges[*divert];
                    match edge.to {
                        End::Port(p) if plan.ports[p].name == *target => assert_eq!(edge.chain, queue.chain),
                        _ => assert_eq!((&plan.chains[edge.chain].name, edge.hop), (target, 0)),
                    }
                    producers.entry(*divert).or_default().insert(format!("i{i}"));
                }
            }
            // The run is maximal: what follows is another instance or the port.
            let next = &plan.edges[queue.next];
            assert_eq!(usize::from(next.hop), usize::from(queue.hop) + queue.stages.len());
            match hops.get(queue.stages.len()) {
                None => assert_eq!(next.to, End::Port(chain.egress)),
                Some(nf) => {
                    assert_eq!(next.to, End::Instance(plan.nfs[*nf].instance));
                    assert_ne!(plan.nfs[*nf].instance, i);
                }
            }
            assert_eq!(next.chain, queue.chain);
            producers.entry(queue.next).or_default().insert(format!("i{i}"));
        }
    }
    for chain in &plan.chains {
        assert_eq!(plan.edges[chain.entry].from, End::Port(chain.ingress));
        producers.entry(chain.entry).or_default().insert(format!("p{}", chain.ingress));
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
    assert!(plan.buffers >= total + 2048);
}
