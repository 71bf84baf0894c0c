//! Which NFs are fused into one instance.

use crate::model::{Dispatch, Isolation, Nf, Spec};

/// How an NF is kept apart, defaults considered.
pub fn isolation(spec: &Spec, nf: &Nf) -> Isolation {
    nf.isolation.unwrap_or(spec.defaults.isolation)
}

/// How many instances there are of these NFs, which share one.
pub fn replicas<'a>(mut nfs: impl Iterator<Item = &'a Nf>) -> usize {
    nfs.find_map(|nf| nf.replicas).map_or(1, |n| usize::try_from(n.max(1)).unwrap_or(1))
}

/// The NFs that have more than one replica: the name, how many, and which packets come to the same one. Those of a fused
/// run have what one of them says.
pub fn with_replicas(spec: &Spec) -> Vec<(&str, usize, Dispatch)> {
    let of_group = |group: Vec<usize>| {
        let nfs: Vec<(&str, &Nf)> =
            group.iter().filter_map(|i| spec.nfs.get_index(*i)).map(|(n, nf)| (n.as_str(), nf)).collect();
        let n = replicas(nfs.iter().map(|(_, nf)| *nf));
        let dispatch = nfs.iter().find_map(|(_, nf)| nf.dispatch).unwrap_or_default();
        nfs.into_iter().filter(move |_| n > 1).map(move |(name, _)| (name, n, dispatch))
    };
    groups(spec).into_iter().flat_map(of_group).collect()
}

/// NFs (by index) that share an instance: fused ones that follow each other on some path, and so on from neighbour
/// to neighbour. Every NF is in one group; groups and their members are in the order of the file.
pub fn groups(spec: &Spec) -> Vec<Vec<usize>> {
    let mut parent: Vec<usize> = (0..spec.nfs.len()).collect();
    let fused = |name: &String| {
        let (index, _, nf) = spec.nfs.get_full(name)?;
        (isolation(spec, nf) == Isolation::Fused).then_some(index)
    };
    for chain in &spec.chains {
        for pair in chain.hops().windows(2) {
            let [a, b] = pair else { continue };
            if let (Some(a), Some(b)) = (fused(a), fused(b)) {
                let (a, b) = (root(&mut parent, a), root(&mut parent, b));
                // The smaller index is the root, so that groups come in the order of their first member.
                parent[a.max(b)] = a.min(b);
            }
        }
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); parent.len()];
    for nf in 0..parent.len() {
        let root = root(&mut parent, nf);
        groups[root].push(nf);
    }
    groups.retain(|g| !g.is_empty());
    groups
}

fn root(parent: &mut [usize], mut node: usize) -> usize {
    while parent[node] != node {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    node
}
