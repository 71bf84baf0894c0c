//! How local a sequence of packets is: the metrics of Zheng et al., "NFV Performance Profiling on Multi-core Servers",
//! §III-C and §V (Fig. 8).
//!
//! A *traffic affinity group* (TAG) is the packets that touch one entry of an NF's state: a flow for a load balancer,
//! a source host for a monitor. The *stack distance* of a packet is the number of other TAGs that came since the last
//! packet of its own TAG; 0 if none did. A TAG's first packet has the stack's depth, the number of TAGs there are. With
//! the mean of all packets, *temporal locality* is TL = 1 / log2(2 + mean): 1 if packets of a TAG follow each other
//! for ever, about 1 / log2(n) if n TAGs take turns. The paper does not say whether a repeated TAG has distance 0 or 1;
//! it is 0 here, since only so TL reaches the 1 that the paper calls best.

use std::collections::HashMap;

/// Takes TAGs in order and knows their stack distances, in O(log n) each (Olken's method over a Fenwick tree).
#[derive(Clone, Debug)]
pub struct StackDistance {
    depth: u64,
    /// When each TAG came last, as a place in `tree`.
    last: HashMap<u32, usize>,
    /// Fenwick tree over places; 1 where a TAG's last packet is.
    tree: Vec<u32>,
    used: usize,
    packets: u64,
    sum: f64,
}

impl StackDistance {
    /// For a stack of `depth`: the number of TAGs (state entries) there are.
    #[must_use]
    pub fn new(depth: u32) -> Self {
        Self { depth: u64::from(depth), last: HashMap::new(), tree: vec![0; 1024], used: 0, packets: 0, sum: 0.0 }
    }

    /// The next packet is of `tag`: its stack distance.
    pub fn push(&mut self, tag: u32) -> u64 {
        if self.used + 1 == self.tree.len() {
            self.renumber();
        }
        self.used += 1;
        let place = self.used;
        let distance = match self.last.insert(tag, place) {
            None => self.depth,
            Some(before) => {
                let since = self.last.len() as u64 - u64::from(self.until(before));
                self.add(before, u32::MAX); // -1
                since
            }
        };
        self.add(place, 1);
        self.packets += 1;
        self.sum += distance as f64;
        distance
    }

    /// Mean stack distance so far; 0 before the first packet.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.sum / self.packets as f64 }
    }

    /// TL so far.
    #[must_use]
    pub fn temporal_locality(&self) -> f64 {
        temporal_locality(self.mean())
    }

    /// Different TAGs so far.
    #[must_use]
    pub fn tags(&self) -> usize {
        self.last.len()
    }

    /// Marks at places 1 to `i`.
    fn until(&self, mut i: usize) -> u32 {
        let mut sum = 0_u32;
        while i > 0 {
            sum = sum.wrapping_add(self.tree[i]);
            i &= i - 1;
        }
        sum
    }

    fn add(&mut self, mut i: usize, what: u32) {
        while i < self.tree.len() {
            self.tree[i] = self.tree[i].wrapping_add(what);
            i += i & i.wrapping_neg();
        }
    }

    /// Moves the marks to the front, in order; the tree has at least as much room again.
    fn renumber(&mut self) {
        let mut places: Vec<(usize, u32)> = self.last.iter().map(|(&tag, &place)| (place, tag)).collect();
        places.sort_unstable();
        self.used = places.len();
        self.tree = vec![0; (4 * places.len()).max(1024)];
        for (i, (_, tag)) in places.into_iter().enumerate() {
            self.last.insert(tag, i + 1);
            self.add(i + 1, 1);
        }
    }
}

/// TL of a mean stack distance: 1 / log2(2 + mean).
#[must_use]
pub fn temporal_locality(mean_distance: f64) -> f64 {
    1.0 / libm::log2(2.0 + mean_distance)
}

/// Mean stack distance, once every flow has come, of `flows` played in groups of `group`, `packets` of each in a row
/// ([`crate::Order::Interleave`]), where `group` divides `flows`: a flow's first packet in its turn comes after all other
/// flows, the rest after the others of the group.
#[must_use]
pub fn interleaved_mean(flows: u32, group: u32, packets: u32) -> f64 {
    let (n, g, l) = (f64::from(flows), f64::from(group), f64::from(packets));
    ((l - 1.0) * (g - 1.0) + (n - 1.0)) / l
}

/// Spatial locality: the mean number of different TAGs in windows of `window` packets, one after the other; a window
/// that is not full does not count. `None` if none is full.
#[must_use]
pub fn mean_working_set(tags: &[u32], window: usize) -> Option<f64> {
    let windows = tags.chunks_exact(window.max(1));
    let n = windows.len();
    let distinct = |w: &[u32]| w.iter().collect::<std::collections::HashSet<_>>().len();
    (n > 0).then(|| windows.map(distinct).sum::<usize>() as f64 / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{Order, Sequence, WorkingSet, dial};
    use crate::rng::Rng;
    use proptest::prelude::*;

    fn sequence(flows: u32, order: Order, set: Option<WorkingSet>, n: usize) -> Vec<u32> {
        let mut s = Sequence::new(flows, order, set, Rng::new(2)).unwrap();
        (0..n).map(|_| s.next()).collect()
    }

    #[test]
    fn the_stack_of_three() {
        let mut stack = StackDistance::new(3);
        let got: Vec<u64> = [1, 2, 3, 3, 1, 3, 3].into_iter().map(|tag| stack.push(tag)).collect();
        assert_eq!(got, [3, 3, 3, 0, 2, 1, 0]);
        assert_eq!(stack.tags(), 3);
        assert!((stack.mean() - 12.0 / 7.0).abs() < 1e-12);
    }

    /// From flow after flow to round robin, each step is a worse TL, and each is what the closed form says.
    #[test]
    fn the_dial_is_temporal_locality() {
        let (flows, packets) = (4096, 16);
        let mut before = f64::INFINITY;
        for step in 0..=6 {
            let group = dial(step, 6, flows);
            let order = Order::Interleave { flows: group, packets };
            let lap = (flows * packets) as usize;
            let tags = sequence(flows, order, None, 2 * lap);
            let mut stack = StackDistance::new(flows);
            tags[..lap].iter().for_each(|t| _ = stack.push(*t));
            let (first_sum, first) = (stack.sum, stack.packets);
            tags[lap..].iter().for_each(|t| _ = stack.push(*t));
            let mean = (stack.sum - first_sum) / (stack.packets - first) as f64;
            assert!((mean - interleaved_mean(flows, group, packets)).abs() < 1e-9, "{group}: {mean}");
            let tl = temporal_locality(mean);
            assert!(tl < before, "step {step}: {tl} after {before}");
            before = tl;
        }
    }

    #[test]
    fn the_other_dial_is_spatial_locality() {
        for step in 0..=4 {
            let flows = dial(step, 4, 1 << 12);
            let tags = sequence(1 << 12, Order::RoundRobin, Some(WorkingSet { flows, packets: 5000 }), 50_000);
            assert_eq!(mean_working_set(&tags, 5000), Some(f64::from(flows)));
        }
        assert_eq!(mean_working_set(&[1, 2], 3), None);
    }

    proptest! {
        /// Against the definition, by a list.
        #[test]
        fn distances_are_those_of_a_stack(tags in prop::collection::vec(0_u32..40, 0..3000)) {
            let mut stack = StackDistance::new(40);
            let mut list: Vec<u32> = Vec::new();
            for tag in tags {
                let wanted = match list.iter().position(|t| *t == tag) {
                    Some(at) => { list.remove(at); at as u64 }
                    None => 40,
                };
                list.insert(0, tag);
                prop_assert_eq!(stack.push(tag), wanted);
            }
        }
    }
}
