//! What belongs to the keys of a table: values in a row, on huge pages where there are any.
//!
//! A table of a million entries is hit at random. On 4 KiB pages nearly each hit would miss the TLB as well as the cache.

use super::MemoryError;
use crate::memory;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A fixed number of values; see [`Array::prefetch`] for what a `Vec` cannot do. All memory is taken, and touched, when
/// it is made.
#[derive(Debug)]
pub struct Array<T> {
    values: NonNull<T>,
    len: usize,
    /// Bytes of the mapping.
    mapped: usize,
}

// SAFETY: the values belong to this one.
unsafe impl<T: Send> Send for Array<T> {}
// SAFETY: sharing it shares values, and nothing else changes behind `&self`.
unsafe impl<T: Sync> Sync for Array<T> {}

impl<T: Copy> Array<T> {
    /// `len` times `value`.
    ///
    /// # Errors
    /// [`MemoryError::Refused`] when the system has no more.
    pub fn new(len: usize, value: T) -> Result<Self, MemoryError> {
        // A huge page is the largest alignment that a mapping has.
        const { assert!(align_of::<T>() <= memory::PAGE) };
        let refused = |bytes: usize, why: &str| MemoryError::Refused { mib: bytes >> 20, why: why.to_owned() };
        let bytes = len.checked_mul(size_of::<T>()).filter(|b| *b <= isize::MAX as usize - memory::PAGE);
        let bytes = bytes.ok_or_else(|| refused(usize::MAX, "more than there are addresses"))?;
        let mapped = bytes.next_multiple_of(memory::PAGE).max(memory::PAGE);
        let area = memory::map(mapped).map_err(|e| refused(mapped, &e.to_string()))?;
        let values: NonNull<T> = NonNull::new(area.cast()).ok_or_else(|| refused(mapped, "mapped at address 0"))?;
        for i in 0..len {
            // SAFETY: `len` values fit the mapping, which is aligned to a page.
            unsafe { values.add(i).write(value) };
        }
        Ok(Self { values, len, mapped })
    }
}

impl<T> Array<T> {
    /// Asks for the cache line of value `i`, so that it is there when it is used a few hundred instructions later. A
    /// number out of range does nothing.
    #[inline]
    pub fn prefetch(&self, i: usize) {
        if i < self.len {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: value `i` is in the mapping; a prefetch reads nothing that the program sees.
            unsafe {
                use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(self.values.add(i).as_ptr().cast());
            }
        }
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` values were written when the array was made.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` is the only way to them.
        unsafe { std::slice::from_raw_parts_mut(self.values.as_ptr(), self.len) }
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and unmapped once. The values are `Copy`: nothing to drop.
        unsafe { libc::munmap(self.values.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_are_there_and_apart() {
        let mut array = Array::new(1000, (7u8, 9u64)).unwrap();
        assert!(array.iter().all(|v| *v == (7, 9)) && array.len() == 1000);
        array[999].1 = 1;
        array[0].1 = 2;
        assert_eq!((array[0].1, array[1].1, array[998].1, array[999].1), (2, 9, 9, 1));
        array.prefetch(999);
        array.prefetch(usize::MAX);
        assert!(Array::new(0, 0u64).unwrap().is_empty());
        assert!(Array::new(usize::MAX / 4, 0u64).is_err());
    }
}
