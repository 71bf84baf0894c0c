//! Flows that begin and end.

use crate::alias::Alias;
use crate::lengths::Lengths;
use crate::rng::{Rng, mix64};

/// Makes the numbers of two directions of a connection differ from those of its 5-tuple.
const NUMBERS: u64 = 0x7463_7020_6973_6e73;

/// What a frame is to its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// The first of a flow: TCP SYN.
    Begin { seq: u32 },
    /// In the middle. Sequence and acknowledgement number as TCP has them.
    Middle { seq: u32, ack: u32 },
    /// The last: TCP FIN.
    End { seq: u32, ack: u32 },
}

/// The flows that are alive, one a slot. When one ends the next frame of its slot begins a new one.
#[derive(Clone, Debug)]
pub(crate) struct Lifetimes {
    slots: Vec<Slot>,
    lengths: Sampler,
    /// Number of the next flow that begins; from `population` on they begin again.
    next: u32,
    population: u32,
    seed: u64,
    rng: Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    flow: u32,
    /// Frames left; 0: the next begins another flow.
    left: u32,
    /// Payload bytes sent.
    sent: u32,
}

#[derive(Clone, Debug)]
enum Sampler {
    Constant(u32),
    Measured(Alias, Vec<(u32, u32)>),
}

impl Lifetimes {
    /// `slots` flows at a time, out of `population`. `None` if the lengths are empty.
    pub(crate) fn new(slots: u32, population: u32, lengths: &Lengths, seed: u64, rng: Rng) -> Option<Self> {
        let lengths = match lengths {
            Lengths::Constant(n) => Sampler::Constant(*n),
            Lengths::Measured(h) => {
                let weights: Vec<u64> = h.bins().iter().map(|b| b.flows).collect();
                Sampler::Measured(
                    Alias::new(&weights)?,
                    h.bins().iter().map(|b| (b.first, b.last - b.first + 1)).collect(),
                )
            }
        };
        Some(Self { slots: vec![Slot::default(); slots as usize], lengths, next: 0, population, seed, rng })
    }

    /// Whether the next frame of a slot carries payload: neither the first nor the last of its flow.
    #[inline]
    pub(crate) fn carries(&self, slot: u32) -> bool {
        self.slots[slot as usize].left > 1
    }

    /// The next frame of a slot: its flow, and what it is. `payload` is what a frame in the middle carries.
    #[inline]
    pub(crate) fn next(&mut self, slot: u32, payload: u32) -> (u32, Segment) {
        let slot = &mut self.slots[slot as usize];
        let begins = slot.left == 0;
        if begins {
            let left = match &self.lengths {
                Sampler::Constant(n) => *n,
                Sampler::Measured(alias, bins) => {
                    let (first, width) = bins[alias.draw(self.rng.next_u64()) as usize];
                    first + if width > 1 { self.rng.below(width) } else { 0 }
                }
            };
            *slot = Slot { flow: self.next, left, sent: 0 };
            self.next = if self.next + 1 == self.population { 0 } else { self.next + 1 };
        }
        slot.left -= 1;
        // Initial sequence numbers (RFC 9293 §3.4.1): a function of the connection, different for both directions.
        let numbers = mix64(self.seed ^ NUMBERS ^ u64::from(slot.flow));
        let (ours, theirs) = (numbers as u32, (numbers >> 32) as u32);
        let (seq, ack) = (ours.wrapping_add(1).wrapping_add(slot.sent), theirs.wrapping_add(1));
        let segment = if begins {
            Segment::Begin { seq: ours }
        } else if slot.left == 0 {
            Segment::End { seq, ack }
        } else {
            slot.sent = slot.sent.wrapping_add(payload);
            Segment::Middle { seq, ack }
        };
        (slot.flow, segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lengths::Histogram;
    use crate::stat::chi_square;
    use std::collections::BTreeMap;

    #[test]
    fn a_flow_begins_counts_its_bytes_and_ends() {
        let mut lives = Lifetimes::new(1, 2, &Lengths::Constant(4), 9, Rng::new(1)).unwrap();
        let got: Vec<_> = (0..9).map(|_| lives.next(0, 100)).collect();
        let (Segment::Begin { seq: first }, 0) = (got[0].1, got[0].0) else { panic!("{got:?}") };
        let Segment::Middle { ack, .. } = got[1].1 else { panic!("{got:?}") };
        assert_eq!(got[1], (0, Segment::Middle { seq: first.wrapping_add(1), ack }));
        assert_eq!(got[2], (0, Segment::Middle { seq: first.wrapping_add(101), ack }));
        assert_eq!(got[3], (0, Segment::End { seq: first.wrapping_add(201), ack }));
        assert!(matches!(got[4], (1, Segment::Begin { .. })));
        assert_eq!(got[8], got[0], "the population begins again");
    }

    /// Lengths of whole flows against the histogram that was asked for.
    #[test]
    fn lengths_follow_the_histogram() {
        let text = "1,2,500\n2,3,200\n3,11,240\n11,111,60\n";
        let lengths = Lengths::Measured(Histogram::parse(text).unwrap());
        let mut lives = Lifetimes::new(50, 1_000_000, &lengths, 3, Rng::new(11)).unwrap();
        let (mut frames, mut ended) = (BTreeMap::<u32, u64>::new(), Vec::new());
        for i in 0..400_000 {
            let (flow, segment) = lives.next(i % 50, 0);
            let count = frames.entry(flow).or_default();
            *count += 1;
            if matches!(segment, Segment::End { .. }) {
                ended.push(*count);
            }
        }
        // Flows of one frame begin and never say that they end; those alive now are left out by number.
        let first_alive = frames.keys().rev().nth(20_000).copied().unwrap();
        let mut seen = [0_u64; 4];
        let complete: Vec<u64> = frames.range(..first_alive).map(|(_, n)| *n).collect();
        for n in &complete {
            seen[[1, 2, 10, 110].iter().position(|most| n <= most).unwrap()] += 1;
        }
        let n = complete.len() as f64;
        let (x, limit) = chi_square(&seen, &[0.5 * n, 0.2 * n, 0.24 * n, 0.06 * n]);
        assert!(n > 20_000.0 && x < limit, "{seen:?}: {x} against {limit}");
        assert!(ended.iter().all(|n| (2..=110).contains(n)));
    }
}
