//! The sequence of frames.

use crate::flow::{Flow, Flows, MAX_FLOWS, Space};
use crate::frame::{Frame, HEAD_BYTES, Head, SizeClass};
use crate::mix::Mix;
use crate::rng::Rng;
use chainline_packet::flow_hash;

/// Up to this many heads (flows × sizes) are kept ready, 64 bytes each; beyond it they are computed one by one,
/// which costs less than fetching a head that fell out of the core's own caches (`benches/burst.rs`).
const MAX_STORED_HEADS: usize = 4096;

/// In which order the flows come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Flow 0, 1, 2, … and again. With few flows a flow can meet the same frame size each time round: where flows
    /// must be independent of sizes, use `random`.
    #[default]
    RoundRobin,
    /// Each frame is of any flow with equal chance, from the seed.
    Random,
}

/// What traffic to make. Two equal specs give the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Frame sizes.
    pub mix: Mix,
    /// Number of flows, 1 to [`MAX_FLOWS`] and not more than [`Space::capacity`].
    pub flows: u32,
    /// Where the flows' 5-tuples come from.
    pub space: Space,
    /// Order of the flows.
    pub order: Order,
    /// Names the set of flows and the random order.
    pub seed: u64,
    /// Source MAC address.
    pub src_mac: [u8; 6],
    /// Destination MAC address.
    pub dst_mac: [u8; 6],
}

impl Spec {
    /// Frames of `mix`, one flow, seed 0, locally administered addresses 02:00:00:00:00:01 → 02:00:00:00:00:02.
    #[must_use]
    pub fn new(mix: Mix) -> Self {
        Self {
            mix,
            flows: 1,
            space: Space::default(),
            order: Order::RoundRobin,
            seed: 0,
            src_mac: [2, 0, 0, 0, 0, 1],
            dst_mac: [2, 0, 0, 0, 0, 2],
        }
    }
}

/// Why a spec is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too many flows, or none.
    #[error("{0} flows: expected 1 to {MAX_FLOWS}")]
    Flows(u32),
    /// More flows than the prefixes and ports give.
    #[error("{flows} flows: source and destination prefixes and destination ports give only {capacity}")]
    Capacity {
        /// What was asked for.
        flows: u32,
        /// What there is.
        capacity: u128,
    },
    /// A port range that ends before it begins.
    #[error("destination ports {first}-{last}: expected the lower first")]
    Ports {
        /// The first port as given.
        first: u16,
        /// The last port as given.
        last: u16,
    },
}

/// An endless sequence of frames.
#[derive(Clone, Debug)]
pub struct Workload {
    flows: u32,
    tuples: Flows,
    order: Order,
    classes: Vec<SizeClass>,
    size_order: Vec<u8>,
    /// Head and flow hash of flow `f` in size class `c` at `c * flows + f`; empty if there would be too many.
    stored: Vec<Head>,
    stored_hashes: Vec<u32>,
    scratch: Head,
    next_flow: u32,
    next_size: usize,
    rng: Rng,
}

impl Workload {
    /// The sequence from its beginning.
    ///
    /// # Errors
    /// A number of flows or a range that cannot be.
    pub fn new(spec: &Spec) -> Result<Self, Error> {
        if spec.flows == 0 || spec.flows > MAX_FLOWS {
            return Err(Error::Flows(spec.flows));
        }
        let (first, last) = (*spec.space.dst_ports.start(), *spec.space.dst_ports.end());
        if first > last {
            return Err(Error::Ports { first, last });
        }
        let capacity = spec.space.capacity();
        if u128::from(spec.flows) > capacity {
            return Err(Error::Capacity { flows: spec.flows, capacity });
        }
        let class = |&size| SizeClass::new(size, spec.space.proto, spec.src_mac, spec.dst_mac);
        let mut workload = Self {
            flows: spec.flows,
            tuples: Flows::new(&spec.space, spec.seed),
            order: spec.order,
            classes: spec.mix.sizes().iter().map(class).collect(),
            size_order: spec.mix.order().to_vec(),
            stored: Vec::new(),
            stored_hashes: Vec::new(),
            scratch: Head([0; HEAD_BYTES]),
            next_flow: 0,
            next_size: 0,
            rng: Rng::new(spec.seed),
        };
        workload.store_heads();
        Ok(workload)
    }

    fn store_heads(&mut self) {
        let count = self.flows as usize * self.classes.len();
        if count > MAX_STORED_HEADS {
            return;
        }
        self.stored = vec![self.scratch; count];
        let tuples = &self.tuples;
        let flows = (0..self.flows).map(|i| tuples.nth(i));
        self.stored_hashes = flows.clone().map(|flow| flow_hash(&flow.tuple())).collect();
        for (class, heads) in self.classes.iter().zip(self.stored.chunks_exact_mut(self.flows as usize)) {
            flows.clone().zip(heads).for_each(|(flow, head)| class.write_head(flow, head));
        }
    }

    /// The 5-tuple of flow `i`, if there is one.
    #[must_use]
    pub fn flow(&self, i: u32) -> Option<Flow> {
        (i < self.flows).then(|| self.tuples.nth(i))
    }

    /// Hands the next `n` frames to `sink`, in order. A caller asks for as many as it has buffers.
    #[inline]
    pub fn burst(&mut self, n: usize, mut sink: impl FnMut(Frame<'_>)) {
        for _ in 0..n {
            let class_index = usize::from(self.size_order[self.next_size]);
            self.next_size += 1;
            if self.next_size == self.size_order.len() {
                self.next_size = 0;
            }
            let flow = self.next_flow();
            let class = &self.classes[class_index];
            let (head, flow_hash) = if self.stored.is_empty() {
                let flow = self.tuples.nth(flow);
                class.write_head(flow, &mut self.scratch);
                (&self.scratch, flow_hash(&flow.tuple()))
            } else {
                (&self.stored[class_index * self.flows as usize + flow as usize], self.stored_hashes[flow as usize])
            };
            sink(Frame { head, len: class.len, flow, flow_hash });
        }
    }

    #[inline]
    fn next_flow(&mut self) -> u32 {
        match self.order {
            Order::Random => self.rng.below(self.flows),
            Order::RoundRobin => {
                let flow = self.next_flow;
                self.next_flow = if flow + 1 == self.flows { 0 } else { flow + 1 };
                flow
            }
        }
    }
}
