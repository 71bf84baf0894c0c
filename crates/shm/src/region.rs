//! A region of packet buffers and the exclusive use of single ones.

use crate::desc::{Desc, MAX_BUFFERS};
use crate::mapping::{MapError, Mapping, PageKind};
use crate::prefetch;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes before a received frame, for headers that NFs push. The same as DPDK's default.
pub const HEADROOM: u16 = 128;

const LINE: usize = 64;

/// Packet buffers of one tenant. Buffer `i` is `stride` bytes from `i * stride` on.
#[derive(Clone, Debug)]
pub struct Region {
    map: Arc<Mapping>,
    stride: u32,
    count: u32,
}

impl Region {
    /// The distance between buffers that hold a frame of `max_frame` bytes: an odd number of cache lines, so
    /// that the headers of many packets spread over all sets of the caches instead of a few.
    #[must_use]
    pub const fn stride_for(max_frame: u16) -> u32 {
        let lines = (HEADROOM as usize + max_frame as usize).div_ceil(LINE);
        ((lines | 1) * LINE) as u32
    }

    /// A new region of `count` buffers for frames of up to `max_frame` bytes.
    ///
    /// # Errors
    /// When there is no memory, or more than 2^24 buffers are asked for.
    pub fn create(count: u32, max_frame: u16) -> Result<Self, MapError> {
        let stride = Self::stride_for(max_frame);
        if count == 0 || count > MAX_BUFFERS {
            return Err(MapError::Foreign("between 1 and 2^24 buffers are possible"));
        }
        let map = Mapping::create("chainline-region", count as usize * stride as usize, true)?;
        Ok(Self { map: Arc::new(map), stride, count })
    }

    /// A region that another process created.
    ///
    /// # Errors
    /// When the memory is shorter than `count * stride` bytes.
    pub fn open(fd: OwnedFd, stride: u32, count: u32, pages: PageKind) -> Result<Self, MapError> {
        let bytes = (count as usize).checked_mul(stride as usize).ok_or(MapError::Foreign("region too large"))?;
        if count == 0 || count > MAX_BUFFERS || stride == 0 || stride as usize > 1 << 16 {
            return Err(MapError::Foreign("region of an impossible shape"));
        }
        Ok(Self { map: Arc::new(Mapping::open(fd, bytes, pages)?), stride, count })
    }

    /// Number of buffers.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }
    /// Bytes from one buffer to the next.
    #[must_use]
    pub fn stride(&self) -> u32 {
        self.stride
    }
    /// The memory.
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        &self.map
    }

    /// Whether a descriptor names a place inside a buffer of this region.
    #[inline]
    #[must_use]
    pub fn contains(&self, d: Desc) -> bool {
        d.buf.index() < self.count && u32::from(d.off) + u32::from(d.len) <= self.stride
    }

    /// Asks the processor to fetch the beginning of a frame. Any descriptor will do.
    #[inline]
    pub fn prefetch(&self, d: Desc) {
        prefetch::to_read(self.beginning(d));
    }

    /// The same for a frame that is not looked at any more, and whose buffer the next one is soon written into.
    #[inline]
    pub fn prefetch_to_write(&self, d: Desc) {
        prefetch::to_write(self.beginning(d));
    }

    #[inline]
    fn beginning(&self, d: Desc) -> *const u8 {
        let at = d.buf.index() as usize * self.stride as usize + usize::from(d.off);
        self.map.as_ptr().wrapping_add(at)
    }
}

/// Gives out buffers of a region as byte slices, each to one holder at a time within this process.
///
/// Across processes a buffer belongs to whoever holds its descriptor. A process that breaks this can change the
/// bytes of a packet that it was given once; it cannot make a slice point elsewhere, and code that parses packets
/// is safe whatever the bytes are.
#[derive(Debug)]
pub struct Slots {
    region: Region,
    /// A bit for each buffer that is lent out or kept.
    lent: Box<[u64]>,
    /// The buffers of the present loan. Lives here so that opening a loan writes nothing.
    taken: Box<[u32; MAX_LOAN]>,
}

impl Slots {
    /// For one region. At most one `Slots` may exist for a region in one process and thread.
    #[must_use]
    pub fn new(region: Region) -> Self {
        let words = (region.count as usize).div_ceil(64);
        Self { region, lent: vec![0; words].into_boxed_slice(), taken: Box::new([0; MAX_LOAN]) }
    }

    /// The region.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Begins to lend buffers; what was lent comes back when the loan is dropped.
    #[inline]
    pub fn open(&mut self) -> Loan<'_> {
        Loan { region: &self.region, lent: &mut self.lent, taken: &mut self.taken, n: 0 }
    }

    /// Takes a buffer into custody beyond a loan. `None` as for [`Loan::take`].
    pub fn keep(&mut self, d: Desc) -> Option<Kept> {
        let index = d.buf.index() as usize;
        if !self.region.contains(d) || self.lent[index / 64] & 1 << (index % 64) != 0 {
            return None;
        }
        self.lent[index / 64] |= 1 << (index % 64);
        Some(Kept { region: self.region.clone(), desc: d })
    }

    /// Ends the custody; the descriptor may go on.
    pub fn give_back(&mut self, kept: Kept) -> Desc {
        let index = kept.desc.buf.index() as usize;
        self.lent[index / 64] &= !(1 << (index % 64));
        kept.desc
    }
}

/// A buffer in custody beyond a burst, see [`Slots::keep`].
#[derive(Debug)]
pub struct Kept {
    region: Region,
    /// The descriptor; frame offset and length may be changed within the buffer.
    desc: Desc,
}

impl Kept {
    /// The descriptor.
    #[must_use]
    pub fn desc(&self) -> Desc {
        self.desc
    }

    /// Moves the frame within its buffer; `false`, and no change, if that is outside.
    pub fn set_frame(&mut self, off: u16, len: u16) -> bool {
        let ok = u32::from(off) + u32::from(len) <= self.region.stride;
        if ok {
            (self.desc.off, self.desc.len) = (off, len);
        }
        ok
    }

    /// The whole buffer.
    pub fn bytes(&mut self) -> &mut [u8] {
        let stride = self.region.stride as usize;
        let at = self.desc.buf.index() as usize * stride;
        // SAFETY: in bounds, as `keep` checked the descriptor. Unique, as the buffer's bit stays set in the only
        // `Slots` of this region until `give_back` consumes this value.
        unsafe { std::slice::from_raw_parts_mut(self.region.map.as_ptr().add(at), stride) }
    }
}

/// The most buffers in one loan.
pub const MAX_LOAN: usize = 256;

/// Buffers lent for the time of one burst.
pub struct Loan<'a> {
    region: &'a Region,
    lent: &'a mut [u64],
    taken: &'a mut [u32; MAX_LOAN],
    n: usize,
}

impl<'a> Loan<'a> {
    /// The whole buffer of `d`. `None` if the descriptor is wrong, or its buffer is lent already (the same buffer
    /// came twice), or [`MAX_LOAN`] buffers are lent.
    #[inline]
    pub fn take(&mut self, d: Desc) -> Option<&'a mut [u8]> {
        let index = d.buf.index();
        if !self.region.contains(d) || self.n == MAX_LOAN {
            return None;
        }
        let (word, bit) = (&mut self.lent[index as usize / 64], 1u64 << (index % 64));
        if *word & bit != 0 {
            return None;
        }
        *word |= bit;
        self.taken[self.n] = index;
        self.n += 1;
        let (stride, at) = (self.region.stride as usize, index as usize * self.region.stride as usize);
        // SAFETY: in bounds, as `contains` found the index below `count` and the mapping holds `count * stride`
        // bytes. Unique within this process: the bit was clear, and the `Slots` stay mutably borrowed for `'a`, so
        // no other loan can begin while the slice lives, even after this one ended. All bytes are valid u8.
        Some(unsafe { std::slice::from_raw_parts_mut(self.region.map.as_ptr().add(at), stride) })
    }
}

impl Drop for Loan<'_> {
    #[inline]
    fn drop(&mut self) {
        for &index in &self.taken[..self.n] {
            self.lent[index as usize / 64] &= !(1 << (index % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desc::BufId;

    fn d(index: u32, off: u16, len: u16) -> Desc {
        Desc { buf: BufId::new(index, 3), off, len, ..Desc::default() }
    }

    #[test]
    fn strides_are_odd_numbers_of_lines() {
        for frame in [60, 1514, 9018, 1, 0] {
            let s = Region::stride_for(frame);
            assert!(s >= u32::from(frame) + u32::from(HEADROOM));
            assert_eq!((s % 64, (s / 64) % 2), (0, 1));
        }
    }

    #[test]
    fn wrong_descriptors_get_nothing() {
        let mut slots = Slots::new(Region::create(8, 64).unwrap());
        let mut loan = slots.open();
        assert!(loan.take(d(8, 0, 0)).is_none());
        assert!(loan.take(d(0xFF_FFFF, 0, 0)).is_none());
        assert!(loan.take(d(0, 128, 65)).is_none());
        assert!(loan.take(d(0, u16::MAX, u16::MAX)).is_none());
        assert_eq!(loan.take(d(7, 128, 64)).map(|b| b.len()), Some(192));
        assert!(loan.take(d(7, 128, 64)).is_none(), "the same buffer twice");
        drop(loan);
        assert!(slots.open().take(d(7, 0, 1)).is_some());
    }
}
