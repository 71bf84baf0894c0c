//! Which buffers are free.

use std::cell::Cell;

/// The indexes of the free buffers of a region, last in, first out, so that warm buffers are used again first.
///
/// For one thread: the manager's. All ports share it, those of DPDK through the [`crate::Pool`]'s mempool.
#[derive(Debug)]
pub struct FreeList {
    slots: Box<[Cell<u32>]>,
    len: Cell<usize>,
}

impl FreeList {
    /// Buffers 0 to `count - 1`, all free; the lowest is taken first.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self { slots: (0..count).rev().map(Cell::new).collect(), len: Cell::new(count as usize) }
    }

    /// How many are free.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len.get()
    }

    /// Whether none is free.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len.get() == 0
    }

    /// How many there are, free or not.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Takes as many as `out` holds, or none when there are fewer.
    #[inline]
    pub fn pop_bulk(&self, out: &mut [u32]) -> bool {
        let Some(rest) = self.len.get().checked_sub(out.len()) else { return false };
        for (out, slot) in out.iter_mut().rev().zip(&self.slots[rest..]) {
            *out = slot.get();
        }
        self.len.set(rest);
        true
    }

    /// Gives buffers back.
    ///
    /// # Panics
    /// When more come back than there are, a mistake in the program.
    #[inline]
    pub fn push_bulk(&self, indexes: &[u32]) {
        let len = self.len.get();
        let Some(slots) = self.slots.get(len..len + indexes.len()) else {
            panic!("{} buffers came back while {len} of {} were free", indexes.len(), self.slots.len());
        };
        for (slot, index) in slots.iter().zip(indexes) {
            slot.set(*index);
        }
        self.len.set(len + indexes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::FreeList;
    use proptest::prelude::*;

    #[test]
    fn takes_the_lowest_first_and_the_last_one_again() {
        let list = FreeList::new(4);
        let mut two = [9; 2];
        assert!(list.pop_bulk(&mut two));
        assert_eq!(two, [0, 1]);
        list.push_bulk(&[0]);
        let mut one = [9];
        assert!(list.pop_bulk(&mut one));
        assert_eq!(one, [0]);
    }

    proptest! {
        #[test]
        fn every_buffer_is_in_one_place(ops in prop::collection::vec((any::<bool>(), 0usize..20), 0..100)) {
            let list = FreeList::new(50);
            let mut held: Vec<u32> = Vec::new();
            for (pop, n) in ops {
                if pop {
                    let mut out = vec![0; n];
                    let enough = list.len() >= n;
                    prop_assert_eq!(list.pop_bulk(&mut out), enough);
                    if enough {
                        held.extend(out);
                    }
                } else {
                    let back = held.split_off(held.len().saturating_sub(n));
                    list.push_bulk(&back);
                }
                prop_assert_eq!(list.len() + held.len(), 50);
            }
            let mut rest = vec![0; list.len()];
            prop_assert!(list.pop_bulk(&mut rest));
            held.extend(rest);
            held.sort_unstable();
            prop_assert_eq!(held, (0..50).collect::<Vec<_>>());
        }
    }
}
