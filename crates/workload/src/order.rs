//! Which flow each frame is of.
//!
//! Temporal and spatial locality are dialled as Zheng et al. do it ("NFV Performance Profiling on Multi-core Servers",
//! §IV-A, §V): the same flows with the same number of packets, in another order.

use crate::rng::Rng;
use crate::workload::Error;
use crate::zipf::Zipf;

/// In which order the flows come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Order {
    /// Flow 0, 1, 2, … and again: the worst temporal locality. With few flows a flow can meet the same frame size each
    /// time round: where flows must be independent of sizes, use `Random`.
    #[default]
    RoundRobin,
    /// Each frame is of any flow with equal chance, from the seed.
    Random,
    /// Each frame is of flow k (from 0) with a chance in proportion to 1 / (k + 1)^exponent.
    Zipf(
        /// Above 0 and at most [`MAX_EXPONENT`].
        f64,
    ),
    /// Flows in groups: each of the group's flows sends a frame in turn until each has sent `packets`, then the next
    /// group. `flows` of 1 is flow after flow, the best temporal locality; as many as there are is round robin.
    Interleave {
        /// Flows of a group, at least 1.
        flows: u32,
        /// Frames of a flow before its group is done, at least 1.
        packets: u32,
    },
}

/// The steepest law that can be asked for.
pub const MAX_EXPONENT: f64 = 16.0;

/// Spatial locality: for so many frames only so many flows come, then the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkingSet {
    /// Flows that come in a window, at least 1; all of them is the worst spatial locality.
    pub flows: u32,
    /// Frames of a window, at least 1.
    pub packets: u32,
}

/// How many of `flows` a dial at `step` of `of` means: `flows`^(`step`/`of`) rounded, so step 0 is 1, the last step is
/// all, and each step multiplies by the same factor.
#[must_use]
pub fn dial(step: u32, of: u32, flows: u32) -> u32 {
    if step >= of {
        return flows;
    }
    let share = f64::from(step) / f64::from(of);
    (libm::round(libm::pow(f64::from(flows), share)) as u32).clamp(1, flows.max(1))
}

/// Whether there is such an order of so many flows.
pub(crate) fn check(flows: u32, order: Order, working_set: Option<WorkingSet>) -> Result<(), Error> {
    let WorkingSet { flows: set, packets } = working_set.unwrap_or(WorkingSet { flows, packets: 1 });
    if set == 0 || set > flows || packets == 0 {
        return Err(Error::WorkingSet { set, flows, packets });
    }
    match order {
        Order::Zipf(exponent) if !(exponent > 0.0 && exponent <= MAX_EXPONENT) => Err(Error::Exponent),
        Order::Interleave { flows: group, packets } if group == 0 || packets == 0 || group > set => {
            Err(Error::Interleave { group, set, packets })
        }
        _ => Ok(()),
    }
}

/// The sequence of flow numbers.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    flows: u32,
    inner: Inner,
    rng: Rng,
    /// First flow, number of flows and frames of a working set; frames left of the present one.
    base: u32,
    set: u32,
    window: u32,
    left: u32,
}

#[derive(Clone, Debug)]
enum Inner {
    RoundRobin { next: u32 },
    Random,
    Zipf(Zipf),
    Interleave(Interleave),
}

#[derive(Clone, Copy, Debug)]
struct Interleave {
    group: u32,
    packets: u32,
    /// First flow of the present group, the next within it, and frames that each has sent.
    first: u32,
    next: u32,
    sent: u32,
}

impl Sequence {
    pub(crate) fn new(flows: u32, order: Order, working_set: Option<WorkingSet>, rng: Rng) -> Result<Self, Error> {
        check(flows, order, working_set)?;
        let all = WorkingSet { flows, packets: u32::MAX };
        let WorkingSet { flows: set, packets: window } = working_set.unwrap_or(all);
        let inner = match order {
            Order::RoundRobin => Inner::RoundRobin { next: 0 },
            Order::Random => Inner::Random,
            Order::Zipf(exponent) => Inner::Zipf(Zipf::new(set, exponent).ok_or(Error::Exponent)?),
            Order::Interleave { flows: group, packets } => {
                Inner::Interleave(Interleave { group, packets, first: 0, next: 0, sent: 0 })
            }
        };
        Ok(Self { flows, inner, rng, base: 0, set, window, left: window })
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        if self.left == 0 {
            self.turn();
        }
        // Without a working set the window is 2^32 - 1 frames of all flows, and the next begins at the same flow: only
        // an order that counts would notice, so those go on where they were (`turn`).
        self.left -= 1;
        let i = match &mut self.inner {
            Inner::RoundRobin { next } => {
                let i = *next;
                *next = if i + 1 == self.set { 0 } else { i + 1 };
                i
            }
            Inner::Random => self.rng.below(self.set),
            Inner::Zipf(zipf) => zipf.draw(&mut self.rng),
            Inner::Interleave(groups) => groups.next(self.set),
        };
        let flow = u64::from(self.base) + u64::from(i);
        if flow >= u64::from(self.flows) { (flow - u64::from(self.flows)) as u32 } else { flow as u32 }
    }

    #[cold]
    fn turn(&mut self) {
        self.left = self.window;
        if self.set == self.flows {
            return;
        }
        self.base = ((u64::from(self.base) + u64::from(self.set)) % u64::from(self.flows)) as u32;
        match &mut self.inner {
            Inner::RoundRobin { next } => *next = 0,
            Inner::Interleave(groups) => *groups = Interleave { first: 0, next: 0, sent: 0, ..*groups },
            Inner::Random | Inner::Zipf(_) => {}
        }
    }
}

impl Interleave {
    #[inline]
    fn next(&mut self, set: u32) -> u32 {
        let flow = self.first + self.next;
        self.next += 1;
        if self.next == self.group.min(set - self.first) {
            self.next = 0;
            self.sent += 1;
            if self.sent == self.packets {
                self.sent = 0;
                self.first = if set - self.first <= self.group { 0 } else { self.first + self.group };
            }
        }
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    fn take(flows: u32, order: Order, working_set: Option<WorkingSet>, n: usize) -> Vec<u32> {
        let mut s = Sequence::new(flows, order, working_set, Rng::new(5)).unwrap();
        (0..n).map(|_| s.next()).collect()
    }

    #[test]
    fn groups_are_played_one_after_the_other() {
        let order = |flows| Order::Interleave { flows, packets: 2 };
        assert_eq!(take(3, order(1), None, 8), [0, 0, 1, 1, 2, 2, 0, 0]);
        assert_eq!(take(3, order(2), None, 8), [0, 1, 0, 1, 2, 2, 0, 1]);
        assert_eq!(take(3, order(3), None, 8), [0, 1, 2, 0, 1, 2, 0, 1]);
    }

    #[test]
    fn a_working_set_keeps_to_its_flows_for_its_frames() {
        let set = Some(WorkingSet { flows: 2, packets: 5 });
        assert_eq!(take(3, Order::RoundRobin, set, 15), [0, 1, 0, 1, 0, 2, 0, 2, 0, 2, 1, 2, 1, 2, 1]);
        let inside = Order::Interleave { flows: 1, packets: 2 };
        assert_eq!(take(4, inside, set, 10), [0, 0, 1, 1, 0, 2, 2, 3, 3, 2]);
    }

    #[test]
    fn the_dial_goes_from_one_flow_to_all_by_equal_factors() {
        let steps: Vec<u32> = (0..=4).map(|i| dial(i, 4, 10_000)).collect();
        assert_eq!(steps, [1, 10, 100, 1000, 10_000]);
        assert_eq!(dial(1, 2, 1), 1);
        assert_eq!(dial(7, 2, 5), 5);
        assert_eq!(dial(0, 0, 5), 5);
    }

    #[test]
    fn impossible_orders_are_refused() {
        let new = |order, set| Sequence::new(10, order, set, Rng::new(0)).map(|_| ()).unwrap_err().to_string();
        assert!(new(Order::Zipf(0.0), None).contains("exponent"));
        assert!(new(Order::Zipf(f64::NAN), None).contains("exponent"));
        assert!(new(Order::Interleave { flows: 11, packets: 1 }, None).contains("11"));
        assert!(new(Order::Interleave { flows: 1, packets: 0 }, None).contains("0 packets"));
        assert!(new(Order::RoundRobin, Some(WorkingSet { flows: 11, packets: 1 })).contains("11"));
    }

    proptest! {
        /// Whatever the dial, each flow sends as many frames over a period.
        #[test]
        fn the_dial_changes_the_order_and_nothing_else(flows in 1_u32..40, group in 1_u32..40, packets in 1_u32..6) {
            let group = group.min(flows);
            let n = (flows * packets) as usize;
            let got = take(flows, Order::Interleave { flows: group, packets }, None, 2 * n);
            for lap in got.chunks(n) {
                let mut counts = vec![0; flows as usize];
                lap.iter().for_each(|f| counts[*f as usize] += 1);
                prop_assert!(counts.iter().all(|c| *c == packets), "{:?}", counts);
            }
        }

        #[test]
        fn a_window_has_no_more_flows_than_its_set(flows in 1_u32..60, set in 1_u32..60, packets in 1_u32..50, random: bool) {
            let set = set.min(flows);
            let order = if random { Order::Random } else { Order::RoundRobin };
            let got = take(flows, order, Some(WorkingSet { flows: set, packets }), 500);
            for window in got.chunks(packets as usize) {
                let distinct: std::collections::HashSet<_> = window.iter().collect();
                prop_assert!(distinct.len() <= set as usize);
                prop_assert!(random || distinct.len() == window.len().min(set as usize));
            }
            prop_assert!(got.iter().all(|f| *f < flows));
        }
    }
}
