//! In which order the frames of each flow arrive, and which arrive twice.

/// Bits of memory for all flows together: 16 MiB.
const BUDGET_BITS: u64 = 1 << 27;
/// The most bits a flow gets, however few there are.
const MAX_BITS: u64 = 1 << 16;

/// What an arrival is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Later in its flow than all before.
    InOrder,
    /// After a later one of its flow: its number is less than the next one expected (RFC 4737 section 3.3).
    Reordered,
    /// It has arrived before.
    Duplicate,
}

/// The frames of a generator's flows, as they arrive. Flows lie in flat arrays: nothing is looked up or allocated.
///
/// Which of a flow's last frames have arrived is kept in a window of bits, 65,536 for each flow up to 2,048 flows and
/// fewer beyond (128 for a million). A frame that comes later than that is [`Arrival::Reordered`], though it might be
/// a duplicate.
#[derive(Clone, Debug)]
pub struct Sequences {
    /// The number after the largest that arrived, by flow.
    next: Vec<u32>,
    /// Rings of bits by sequence number, one a flow.
    seen: Vec<u64>,
    /// Words of each ring: a power of two.
    words: usize,
}

impl Sequences {
    /// Of so many flows; none has arrived.
    #[must_use]
    pub fn new(flows: u32) -> Self {
        let share = (BUDGET_BITS / u64::from(flows.max(1))).clamp(64, MAX_BITS);
        // The largest power of two that is not above it.
        let words = (1_usize << share.ilog2()) / 64;
        let mut this = Self { next: vec![0; flows as usize], seen: vec![0; flows as usize * words], words };
        this.reset();
        this
    }

    /// Forgets all arrivals. Afterwards no page of the memory is new to the process.
    pub fn reset(&mut self) {
        self.next.fill(0);
        self.seen.fill(0);
    }

    /// How late a duplicate is recognised, in frames of its flow.
    #[must_use]
    pub fn window(&self) -> u32 {
        self.words as u32 * 64
    }

    /// Frame `sequence` of `flow` arrives; none if there is no such flow.
    #[inline]
    pub fn record(&mut self, flow: u32, sequence: u32) -> Option<Arrival> {
        let window = self.window();
        let next = self.next.get_mut(flow as usize)?;
        let seen = &mut self.seen[flow as usize * self.words..][..self.words];
        let (word, bit) = ((sequence / 64) as usize & (seen.len() - 1), 1_u64 << (sequence % 64));
        // Sequence numbers go round after 2^32 frames of a flow.
        let ahead = sequence.wrapping_sub(*next);
        if ahead < 1 << 31 {
            *next = sequence.wrapping_add(1);
            if ahead > 0 {
                forget(seen, sequence.wrapping_sub(ahead), ahead.min(window));
            }
            seen[word] |= bit;
            return Some(Arrival::InOrder);
        }
        let behind = next.wrapping_sub(sequence);
        if behind > window {
            return Some(Arrival::Reordered);
        }
        let before = seen[word] & bit != 0;
        seen[word] |= bit;
        Some(if before { Arrival::Duplicate } else { Arrival::Reordered })
    }
}

/// Clears the bits of `count` numbers, at most the whole ring, that were jumped over.
#[cold]
fn forget(seen: &mut [u64], first: u32, count: u32) {
    if count as usize >= seen.len() * 64 {
        seen.fill(0);
        return;
    }
    for n in 0..count {
        let sequence = first.wrapping_add(n);
        seen[(sequence / 64) as usize & (seen.len() - 1)] &= !(1 << (sequence % 64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Arrival::{Duplicate, InOrder, Reordered};
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn arrive(a: &mut Sequences, sequences: &[u32]) -> Vec<Arrival> {
        sequences.iter().map(|s| a.record(0, *s).unwrap()).collect()
    }

    #[test]
    fn order_as_rfc_4737_defines_it() {
        let mut a = Sequences::new(1);
        // Appendix of the RFC: 1,2,3,7,8,9,10,4,5,6,11 has three reordered ones. Here numbers begin at 0.
        let found = arrive(&mut a, &[0, 1, 2, 6, 7, 8, 9, 3, 4, 5, 10]);
        let expected =
            [InOrder, InOrder, InOrder, InOrder, InOrder, InOrder, InOrder, Reordered, Reordered, Reordered, InOrder];
        assert_eq!(found, expected);
    }

    #[test]
    fn duplicates_early_and_late_first_and_reordered() {
        let mut a = Sequences::new(1);
        assert_eq!(
            arrive(&mut a, &[0, 0, 5, 3, 3, 5, 0]),
            [InOrder, Duplicate, InOrder, Reordered, Duplicate, Duplicate, Duplicate]
        );
        assert_eq!(a.record(1, 0), None, "no such flow");
        a.reset();
        assert_eq!(arrive(&mut a, &[0]), [InOrder]);
    }

    #[test]
    fn memory_is_shared_out() {
        for (flows, window) in [(1, 65_536), (2048, 65_536), (2049, 32_768), (1_000_000, 128), (1 << 20, 128)] {
            assert_eq!(Sequences::new(flows).window(), window, "{flows}");
        }
    }

    #[test]
    fn whoever_is_too_late_is_reordered_and_jumps_forget() {
        let mut a = Sequences::new(1);
        assert_eq!(
            arrive(&mut a, &[0, 100_000, 0, 100_000 - 65_535, 100_000 - 65_535]),
            [InOrder, InOrder, Reordered, Reordered, Duplicate]
        );
        // Round the corner of the numbers.
        let mut a = Sequences::new(1);
        assert_eq!(
            arrive(&mut a, &[1 << 30, 2 << 30, 3 << 30, u32::MAX, 0, 1, 0, u32::MAX, u32::MAX - 1]),
            [InOrder, InOrder, InOrder, InOrder, InOrder, InOrder, Duplicate, Duplicate, Reordered]
        );
    }

    proptest! {
        /// Against a set and a maximum, for arrivals that stray less than the window.
        #[test]
        fn as_a_set_says(steps in proptest::collection::vec((0_u32..3, -50_i64..80), 1..400)) {
            let mut a = Sequences::new(3);
            let mut sets = vec![HashSet::new(); 3];
            let mut next = [0_u32; 3];
            for (flow, step) in steps {
                let f = flow as usize;
                let sequence = (i64::from(next[f]) + step).max(0) as u32;
                let fresh = sets[f].insert(sequence);
                let expected = if sequence >= next[f] { InOrder } else if fresh { Reordered } else { Duplicate };
                next[f] = next[f].max(sequence + 1);
                prop_assert_eq!(a.record(flow, sequence), Some(expected));
            }
        }
    }
}
