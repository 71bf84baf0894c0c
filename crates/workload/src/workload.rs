//! The sequence of frames.

use crate::flow::{Flow, Flows, MAX_FLOWS, Space};
use crate::frame::{Frame, HEAD_BYTES, Head, SizeClass};
use crate::lengths::Lengths;
use crate::lifetime::{Lifetimes, Segment};
use crate::mix::{Mix, Sizes};
use crate::order::{MAX_EXPONENT, Order, Sequence, WorkingSet};
use crate::rng::{Rng, mix64};
use crate::stamp::MAX_STAMPED_FLOWS;
use crate::template::{Lines, MAX_VLAN, Shape, Template, Vlan};
use crate::{Proto, hosts};
use chainline_packet::{FiveTuple, flow_hash};

/// Up to this many heads (flows × sizes) are kept ready, 64 bytes each; beyond it they are computed one by one,
/// which costs less than fetching a head that fell out of the core's own caches (`benches/burst.rs`).
const MAX_STORED_HEADS: usize = 4096;

/// The most flows at a time if they begin and end: each has 12 bytes of state.
pub const MAX_LIVE_FLOWS: u32 = 1 << 24;

/// What traffic to make. Two equal specs give the same bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Frame sizes.
    pub mix: Mix,
    /// Number of flows, 1 to [`MAX_FLOWS`] and not more than [`Space::capacity`]; if they begin and end, those at a time.
    pub flows: u32,
    /// Packets of a flow; `None`: flows have neither beginning nor end.
    pub lengths: Option<Lengths>,
    /// Where the flows' 5-tuples come from.
    pub space: Space,
    /// Order of the flows.
    pub order: Order,
    /// Spatial locality: how many of the flows come within how many frames; `None`: all.
    pub working_set: Option<WorkingSet>,
    /// Names the set of flows and everything random.
    pub seed: u64,
    /// VLAN tags of all frames.
    pub vlan: Vlan,
    /// Whether each frame has room for a [`crate::Stamp`] at its end, which its checksum takes for zeros. Whoever writes
    /// the frames writes the stamps.
    pub stamped: bool,
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
            lengths: None,
            space: Space::default(),
            order: Order::RoundRobin,
            working_set: None,
            seed: 0,
            vlan: Vlan::None,
            stamped: false,
            src_mac: [2, 0, 0, 0, 0, 1],
            dst_mac: [2, 0, 0, 0, 0, 2],
        }
    }

    /// Where the payload of every frame begins, in bytes from its start.
    #[must_use]
    pub fn payload_offset(&self) -> u16 {
        self.shape().payload() as u16
    }

    /// The shortest frame that has room for the headers, in bytes with FCS.
    #[must_use]
    pub fn min_frame_bytes(&self) -> u32 {
        self.shape().min_frame_bytes()
    }

    /// Mean frame in bytes with FCS, in the long run: with the SYN and FIN of TCP flows that end, which are shorter than
    /// the mix says.
    #[must_use]
    pub fn mean_frame_bytes(&self) -> f64 {
        let mean = self.mix.mean_frame_bytes();
        match &self.lengths {
            Some(lengths) if self.space.proto == Proto::Tcp => {
                // A flow of one packet is a SYN; all others have two frames without payload.
                let (length, single) = (lengths.mean(), lengths.share_of_one());
                let short = (2.0 - single) / length;
                mean * (1.0 - short) + f64::from(self.min_frame_bytes()) * short
            }
            _ => mean,
        }
    }

    fn shape(&self) -> Shape {
        Shape {
            src_mac: self.src_mac,
            dst_mac: self.dst_mac,
            vlan: self.vlan,
            src: self.space.src,
            dst: self.space.dst,
            proto: self.space.proto,
            stamped: self.stamped,
        }
    }

    /// Whether the fast path makes these frames.
    fn is_plain(&self) -> bool {
        self.lengths.is_none()
            && self.working_set.is_none()
            && self.vlan == Vlan::None
            && self.space.is_plain()
            && !self.mix.order().is_empty()
            && matches!(self.order, Order::RoundRobin | Order::Random)
    }

    /// Whether there is such traffic; [`Workload::new`] asks the same.
    ///
    /// # Errors
    /// What cannot be, and what could.
    pub fn check(&self) -> Result<(), Error> {
        if self.flows == 0 || self.flows > MAX_FLOWS {
            return Err(Error::Flows(self.flows));
        }
        self.space.check()?;
        let capacity = self.space.capacity();
        if u128::from(self.flows) > capacity {
            return Err(Error::Capacity { flows: self.flows, capacity });
        }
        if self.lengths.is_some() && self.flows > MAX_LIVE_FLOWS {
            return Err(Error::Live(self.flows));
        }
        if self.lengths == Some(Lengths::Constant(0)) {
            return Err(Error::Length);
        }
        crate::order::check(self.flows, self.order, self.working_set)?;
        if self.vlan.largest() > MAX_VLAN {
            return Err(Error::Vlan(self.vlan.largest()));
        }
        if self.stamped && self.lengths.is_some() {
            return Err(Error::StampedEnds);
        }
        if self.stamped && self.flows > MAX_STAMPED_FLOWS {
            return Err(Error::StampedFlows(self.flows));
        }
        let needed = self.min_frame_bytes();
        match self.mix.sizes().iter().copied().min() {
            Some(size) if u32::from(size) < needed => Err(Error::Short { size, needed }),
            _ => Ok(()),
        }
    }
}

/// Why a spec is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too many flows, or none.
    #[error("{0} flows: expected 1 to {MAX_FLOWS}")]
    Flows(u32),
    /// Too many flows for such as end.
    #[error("{0} flows that begin and end: expected at most {MAX_LIVE_FLOWS} at a time")]
    Live(u32),
    /// Flows without a packet.
    #[error("flows of 0 packets: expected at least 1")]
    Length,
    /// More flows than the prefixes and ports give.
    #[error("{flows} flows: prefixes, hosts and ports give only {capacity}")]
    Capacity {
        /// What was asked for.
        flows: u32,
        /// What there is.
        capacity: u128,
    },
    /// A port range that ends before it begins.
    #[error("{what} ports {first}-{last}: expected the lower first")]
    Ports {
        /// Which ports.
        what: &'static str,
        /// The first port as given.
        first: u16,
        /// The last port as given.
        last: u16,
    },
    /// An IPv4 and an IPv6 prefix.
    #[error("source and destination prefixes of different IP versions: expected the same")]
    Versions,
    /// Hosts that the source prefix does not have, or a load that cannot be.
    #[error(
        "{hosts} hosts of which half have {times} times the flows: expected 1 to {addresses} hosts, as the source prefix \
         has, and 1 to {max} times", max = hosts::MAX_TIMES
    )]
    Hosts {
        /// Hosts asked for.
        hosts: u32,
        /// Source addresses there are.
        addresses: u64,
        /// How much heavier half of them should be.
        times: u32,
    },
    /// A Zipf exponent out of range.
    #[error("Zipf exponent: expected more than 0 and at most {MAX_EXPONENT}")]
    Exponent,
    /// A group that there are no flows for, or of no packets.
    #[error("groups of {group} flows with {packets} packets each: expected 1 to {set} flows and at least 1 packet")]
    Interleave {
        /// Flows of a group.
        group: u32,
        /// Flows there are to make groups of.
        set: u32,
        /// Packets of each flow.
        packets: u32,
    },
    /// A working set that there are no flows for, or for no packets.
    #[error("a working set of {set} flows for {packets} packets: expected 1 to {flows} flows and at least 1 packet")]
    WorkingSet {
        /// Flows of the set.
        set: u32,
        /// Flows there are.
        flows: u32,
        /// Packets of a window.
        packets: u32,
    },
    /// A reserved VLAN identifier.
    #[error("VLAN identifier {0}: expected 0 to {MAX_VLAN}")]
    Vlan(u16),
    /// Stamps for flows that end.
    #[error("stamps for flows that begin and end: expected flows that last, or no stamps")]
    StampedEnds,
    /// Stamps for too many flows.
    #[error("{0} flows with stamps: expected at most {MAX_STAMPED_FLOWS}")]
    StampedFlows(
        /// What was asked for.
        u32,
    ),
    /// Frames that their own headers do not fit in.
    #[error(
        "frame size {size} bytes: expected at least {needed}, for these headers, the FCS and a stamp if there is one"
    )]
    Short {
        /// The smallest of the mix.
        size: u16,
        /// What the headers need.
        needed: u32,
    },
}

/// An endless sequence of frames.
#[derive(Clone, Debug)]
pub struct Workload {
    flows: u32,
    tuples: Flows,
    space: Space,
    random: bool,
    classes: Vec<SizeClass>,
    sizes: Sizes,
    /// Head and flow hash of flow `f` in size class `c` at `c * flows + f`; empty if there would be too many.
    stored: Vec<Head>,
    stored_hashes: Vec<u32>,
    scratch: Lines,
    next_flow: u32,
    rng: Rng,
    /// What the fast path cannot do.
    general: Option<Box<General>>,
}

/// Makes frames of any shape.
#[derive(Clone, Debug)]
struct General {
    sequence: Sequence,
    lifetimes: Option<Lifetimes>,
    templates: Vec<Template>,
    /// TCP's SYN and FIN, if flows have them.
    control: Option<Template>,
}

/// Names the streams of random numbers that one seed gives.
const SIZES: u64 = 1;
const LIFETIMES: u64 = 2;

impl Workload {
    /// The sequence from its beginning.
    ///
    /// # Errors
    /// As [`Spec::check`].
    pub fn new(spec: &Spec) -> Result<Self, Error> {
        spec.check()?;
        let stream = |name: u64| Rng::new(mix64(spec.seed ^ mix64(name)));
        let population = match &spec.lengths {
            None => spec.flows,
            Some(_) => u32::try_from(spec.space.capacity()).unwrap_or(MAX_FLOWS).min(MAX_FLOWS),
        };
        let class = |&size| {
            let class = SizeClass::new(size, spec.space.proto, spec.src_mac, spec.dst_mac);
            if spec.stamped { class.stamped() } else { class }
        };
        let mut workload = Self {
            flows: spec.flows,
            tuples: Flows::new(&spec.space, population, spec.seed),
            space: spec.space.clone(),
            random: spec.order == Order::Random,
            classes: if spec.is_plain() { spec.mix.sizes().iter().map(class).collect() } else { Vec::new() },
            sizes: Sizes::new(&spec.mix, stream(SIZES)),
            stored: Vec::new(),
            stored_hashes: Vec::new(),
            scratch: [Head([0; HEAD_BYTES]); 2],
            next_flow: 0,
            rng: Rng::new(spec.seed),
            general: None,
        };
        if spec.is_plain() && workload.sizes.is_cycle() {
            workload.store_heads();
            return Ok(workload);
        }
        let shape = spec.shape();
        let lifetimes = match &spec.lengths {
            None => None,
            Some(lengths) => Some(
                Lifetimes::new(spec.flows, population, lengths, spec.seed, stream(LIFETIMES)).ok_or(Error::Length)?,
            ),
        };
        workload.general = Some(Box::new(General {
            sequence: Sequence::new(spec.flows, spec.order, spec.working_set, Rng::new(spec.seed))?,
            control: (lifetimes.is_some() && spec.space.proto == Proto::Tcp).then(|| Template::empty(&shape)),
            lifetimes,
            templates: spec.mix.sizes().iter().map(|&size| Template::new(&shape, size)).collect(),
        }));
        workload.flows = population;
        Ok(workload)
    }

    fn store_heads(&mut self) {
        let count = self.flows as usize * self.classes.len();
        if count > MAX_STORED_HEADS {
            return;
        }
        self.stored = vec![self.scratch[0]; count];
        let (tuples, proto) = (&self.tuples, self.space.proto);
        let flows = (0..self.flows).map(|i| tuples.plain(i));
        self.stored_hashes = flows.clone().map(|flow| flow_hash(&flow.v4(proto))).collect();
        for (class, heads) in self.classes.iter().zip(self.stored.chunks_exact_mut(self.flows as usize)) {
            flows.clone().zip(heads).for_each(|(flow, head)| class.write_head(flow, head));
        }
    }

    /// How many flow numbers there are: [`Frame::flow`] is below it. If flows begin and end, more than there are at a time.
    #[must_use]
    pub fn flow_numbers(&self) -> u32 {
        self.flows
    }

    /// The 5-tuple of flow `i`, if there is one.
    #[must_use]
    pub fn flow(&self, i: u32) -> Option<Flow> {
        let ends = (i < self.flows).then(|| self.tuples.nth(i))?;
        Some(Flow {
            src: self.space.src.with_low(ends.src),
            dst: self.space.dst.with_low(ends.dst),
            src_port: ends.src_port,
            dst_port: ends.dst_port,
            proto: self.space.proto,
        })
    }

    /// Hands the next `n` frames to `sink`, in order. A caller asks for as many as it has buffers.
    #[inline]
    pub fn burst(&mut self, n: usize, mut sink: impl FnMut(Frame<'_>)) {
        if self.general.is_some() {
            return self.general_burst(n, &mut sink);
        }
        if self.classes.len() == 1 && !self.random {
            return self.run(n, &mut sink);
        }
        // In registers rather than behind `self`, which `sink` might be thought to change.
        let (cycle, mut size) = self.sizes.cycle();
        let (flows, proto, random, mut next) = (self.flows, self.space.proto, self.random, self.next_flow);
        let mut turn = |rng: &mut Rng| {
            let class_index = usize::from(cycle[size]);
            size += 1;
            if size == cycle.len() {
                size = 0;
            }
            if random {
                return (class_index, rng.below(flows));
            }
            let flow = next;
            next = if flow + 1 == flows { 0 } else { flow + 1 };
            (class_index, flow)
        };
        if self.stored.is_empty() {
            for _ in 0..n {
                let (class_index, flow) = turn(&mut self.rng);
                let class = &self.classes[class_index];
                let ends = self.tuples.plain(flow);
                class.write_head(ends, &mut self.scratch[0]);
                let flow_hash = flow_hash(&ends.v4(proto));
                sink(Frame { head: &self.scratch[0], more: &[], len: class.len, flow, flow_hash });
            }
        } else {
            let (classes, stored, hashes) = (&self.classes[..], &self.stored[..], &self.stored_hashes[..]);
            for _ in 0..n {
                let (class_index, flow) = turn(&mut self.rng);
                let head = &stored[class_index * flows as usize + flow as usize];
                let flow_hash = hashes[flow as usize];
                sink(Frame { head, more: &[], len: classes[class_index].len, flow, flow_hash });
            }
        }
        self.next_flow = next;
        self.sizes.set_next(size);
    }

    /// [`Workload::burst`] of frames of one size, flow after flow: the commonest traffic, without a look at what is next.
    #[inline]
    fn run(&mut self, mut n: usize, sink: &mut impl FnMut(Frame<'_>)) {
        let (class, proto) = (&self.classes[0], self.space.proto);
        while n > 0 {
            let first = self.next_flow;
            let end = self.flows.min(first.saturating_add(u32::try_from(n).unwrap_or(u32::MAX)));
            if self.stored.is_empty() {
                for flow in first..end {
                    let ends = self.tuples.plain(flow);
                    class.write_head(ends, &mut self.scratch[0]);
                    let flow_hash = flow_hash(&ends.v4(proto));
                    sink(Frame { head: &self.scratch[0], more: &[], len: class.len, flow, flow_hash });
                }
            } else {
                let range = first as usize..end as usize;
                let heads = self.stored[range.clone()].iter().zip(&self.stored_hashes[range]);
                for ((head, &flow_hash), flow) in heads.zip(first..) {
                    sink(Frame { head, more: &[], len: class.len, flow, flow_hash });
                }
            }
            n -= (end - first) as usize;
            self.next_flow = if end == self.flows { 0 } else { end };
        }
    }

    // Apart, so that what calls `burst` holds the fast path only once.
    #[inline(never)]
    fn general_burst(&mut self, n: usize, sink: &mut impl FnMut(Frame<'_>)) {
        let Some(general) = self.general.as_deref_mut() else { return };
        let v6 = self.space.src.addr.is_ipv6();
        for _ in 0..n {
            let (template, flow, segment) = general.next(&mut self.sizes);
            let ends = self.tuples.nth(flow);
            template.write(ends, segment, &mut self.scratch);
            let tuple = if v6 { self.space.tuple_v6(ends) } else { ends.v4(self.space.proto) };
            let [head, second] = &self.scratch;
            let more = second.0.get(..usize::from(template.more)).unwrap_or_default();
            sink(Frame { head, more, len: template.len, flow, flow_hash: flow_hash(&tuple) });
        }
    }
}

impl General {
    /// The next frame: its size and shape, its flow, what it is to its flow.
    #[inline]
    fn next(&mut self, sizes: &mut Sizes) -> (&Template, u32, Option<Segment>) {
        let slot = self.sequence.next();
        let Some(lifetimes) = &mut self.lifetimes else {
            return (&self.templates[sizes.next()], slot, None);
        };
        // A size is taken from the mix only for a frame that has it.
        let Some(control) = &self.control else {
            let (flow, segment) = lifetimes.next(slot, 0);
            return (&self.templates[sizes.next()], flow, Some(segment));
        };
        if lifetimes.carries(slot) {
            let template = &self.templates[sizes.next()];
            let (flow, segment) = lifetimes.next(slot, u32::from(template.payload));
            return (template, flow, Some(segment));
        }
        let (flow, segment) = lifetimes.next(slot, 0);
        (control, flow, Some(segment))
    }
}

impl Space {
    /// The 5-tuple over IPv6.
    #[inline]
    fn tuple_v6(&self, ends: crate::flow::Ends) -> FiveTuple {
        let (src, dst) = (self.src.with_low(ends.src), self.dst.with_low(ends.dst));
        Flow { src, dst, src_port: ends.src_port, dst_port: ends.dst_port, proto: self.proto }.tuple()
    }
}
