//! Maglev hashing (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, §3.4).
//!
//! Each backend has an order of its own in which it wants the places of a table, and they take turns, each taking the
//! first free place in its order. A backend of half the weight takes half the turns. So each gets its share to within a
//! place or two, and when one leaves, few places of the others change hands: 0.6 % with 100 backends and 65,537 places.
//!
//! Building a table takes a millisecond or more, in which an NF could lose packets; so it is built a part at a time.

/// A backend as the table sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Two hashes of what names the backend, the same on all load balancers.
    pub hashes: [u32; 2],
    /// 1 and more.
    pub weight: u32,
    /// What the table's places say.
    pub member: u16,
}

/// A place that nobody has yet.
const FREE: u16 = u16::MAX;

/// A table that is being built.
#[derive(Debug)]
pub(crate) struct Builder {
    turns: Vec<Turn>,
    places: Vec<u16>,
    filled: usize,
    /// Whose turn it is.
    next: usize,
    heaviest: u32,
}

#[derive(Debug)]
struct Turn {
    /// The place to try next, and the way to the one after it.
    place: usize,
    skip: usize,
    weight: u32,
    /// Weight that has not become a turn yet.
    credit: u32,
    member: u16,
}

impl Builder {
    /// A table of `size` places, a prime, for candidates in an order that all load balancers keep. At least one.
    pub fn new(candidates: &[Candidate], size: usize) -> Self {
        let turn = |c: &Candidate| Turn {
            place: c.hashes[0] as usize % size,
            skip: c.hashes[1] as usize % (size - 1) + 1,
            weight: c.weight,
            credit: 0,
            member: c.member,
        };
        Self {
            turns: candidates.iter().map(turn).collect(),
            places: vec![FREE; size],
            filled: 0,
            next: 0,
            heaviest: candidates.iter().map(|c| c.weight).max().unwrap_or(1),
        }
    }

    /// Fills places until about `budget` were looked at; returns what is left of it, 0 if the table is not ready.
    pub fn step(&mut self, mut budget: usize) -> usize {
        let (size, turns) = (self.places.len(), self.turns.len());
        while self.filled < size && budget > 0 {
            let Some(turn) = self.turns.get_mut(self.next) else { return budget };
            self.next = if self.next + 1 < turns { self.next + 1 } else { 0 };
            budget -= 1;
            turn.credit += turn.weight;
            if turn.credit < self.heaviest {
                continue;
            }
            turn.credit -= self.heaviest;
            // The size is a prime, so the steps come by every place.
            while self.places[turn.place] != FREE {
                turn.place = (turn.place + turn.skip) % size;
                budget = budget.saturating_sub(1);
            }
            self.places[turn.place] = turn.member;
            self.filled += 1;
        }
        if self.is_ready() { budget.max(1) } else { 0 }
    }

    /// Whether every place has a backend.
    pub fn is_ready(&self) -> bool {
        self.filled == self.places.len()
    }

    /// The table.
    pub fn into_places(self) -> Vec<u16> {
        self.places
    }
}

/// The place of a flow: the hash scaled to the table, which needs no division.
#[inline]
pub(crate) fn place(hash: u32, size: usize) -> usize {
    ((u64::from(hash) * size as u64) >> 32) as usize
}

/// Whether `n` is a prime.
pub(crate) fn is_prime(n: u32) -> bool {
    n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(n: u16) -> Vec<Candidate> {
        let hash = |i: u32| chainline_packet::flow_hash(&chainline_packet::FiveTuple::v4(i.into(), 7.into(), 1, 2, 6));
        (0..n)
            .map(|i| Candidate { hashes: [hash(i.into()), hash(u32::from(i) + 100_000)], weight: 1, member: i })
            .collect()
    }

    fn build(candidates: &[Candidate], size: usize, step: usize) -> Vec<u16> {
        let mut builder = Builder::new(candidates, size);
        while !builder.is_ready() {
            builder.step(step);
        }
        builder.into_places()
    }

    #[test]
    fn shares_follow_weights() {
        let mut all = candidates(10);
        all[3].weight = 5;
        all[4].weight = 2;
        let places = build(&all, 65_537, usize::MAX);
        for c in &all {
            let share = places.iter().filter(|p| **p == c.member).count() as f64;
            let fair = 65_537.0 * f64::from(c.weight) / 15.0;
            assert!((share - fair).abs() <= 0.01 * fair, "{} of {fair} for {c:?}", share);
        }
    }

    #[test]
    fn a_part_at_a_time_is_the_same() {
        let all = candidates(7);
        assert_eq!(build(&all, 1009, usize::MAX), build(&all, 1009, 10));
        // As many steps as it takes, and none does much more than it may.
        let mut builder = Builder::new(&all, 65_537);
        let mut steps = 0;
        while builder.step(4096) == 0 {
            steps += 1;
        }
        assert!((16..200).contains(&steps), "{steps}");
    }

    #[test]
    fn one_of_a_hundred_leaves_and_few_others_move() {
        let all = candidates(100);
        let before = build(&all, 65_537, usize::MAX);
        for leaves in 0..100u16 {
            let rest: Vec<_> = all.iter().filter(|c| c.member != leaves).copied().collect();
            let after = build(&rest, 65_537, usize::MAX);
            assert!(!after.contains(&leaves));
            let others = before.iter().filter(|p| **p != leaves).count();
            let moved = before.iter().zip(&after).filter(|(b, a)| **b != leaves && a != b).count();
            assert!(moved * 100 <= others, "{moved} of {others} moved when {leaves} left");
        }
    }

    #[test]
    fn places_of_all_hashes_are_in_the_table() {
        assert_eq!((place(0, 65_537), place(u32::MAX, 65_537)), (0, 65_536));
        assert!(is_prime(2) && is_prime(65_537) && is_prime(655_373) && !is_prime(1) && !is_prime(65_536));
    }
}
