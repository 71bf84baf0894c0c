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
    /// The number of the loan in which each buffer was last lent, or [`KEPT`]. That a loan ends writes nothing.
    lent_in: Box<[u16]>,
    /// The number of the present loan.
    loan: u16,
}

/// In place of a loan's number: in custody beyond loans.
const KEPT: u16 = u16::MAX;

impl Slots {
    /// For one region. At most one `Slots` may exist for a region in one process and thread.
    #[must_use]
    pub fn new(region: Region) -> Self {
        let lent_in = vec![0; region.count as usize].into_boxed_slice();
        Self { region, lent_in, loan: 0 }
    }

    /// The region.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Begins to lend buffers; what was lent before is back, as nobody has it any more.
    #[inline]
    pub fn open(&mut self) -> Loan<'_> {
        self.loan += 1;
        if self.loan == KEPT {
            self.number_anew();
        }
        Loan { region: &self.region, lent_in: &mut self.lent_in, number: self.loan }
    }

    /// All numbers were used.
    #[cold]
    fn number_anew(&mut self) {
        self.lent_in.iter_mut().filter(|n| **n != KEPT).for_each(|n| *n = 0);
        self.loan = 1;
    }

    /// Takes a buffer into custody beyond a loan. `None` as for [`Loan::take`].
    pub fn keep(&mut self, d: Desc) -> Option<Kept> {
        let index = d.buf.index() as usize;
        if !self.region.contains(d) || self.lent_in[index] == KEPT {
            return None;
        }
        self.lent_in[index] = KEPT;
        Some(Kept { region: self.region.clone(), desc: d })
    }

    /// Ends the custody; the descriptor may go on.
    pub fn give_back(&mut self, kept: Kept) -> Desc {
        self.lent_in[kept.desc.buf.index() as usize] = 0;
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
        // SAFETY: in bounds, as `keep` checked the descriptor. Unique, as the only `Slots` of this region have the
        // buffer as kept until `give_back` consumes this value.
        unsafe { std::slice::from_raw_parts_mut(self.region.map.as_ptr().add(at), stride) }
    }
}

/// Buffers lent for the time of one burst.
pub struct Loan<'a> {
    region: &'a Region,
    lent_in: &'a mut [u16],
    number: u16,
}

impl<'a> Loan<'a> {
    /// The whole buffer of `d`. `None` if the descriptor is wrong, or its buffer is lent already (the same buffer
    /// came twice).
    #[inline]
    pub fn take(&mut self, d: Desc) -> Option<&'a mut [u8]> {
        if !self.region.contains(d) {
            return None;
        }
        let index = d.buf.index() as usize;
        let lent_in = &mut self.lent_in[index];
        if *lent_in == self.number || *lent_in == KEPT {
            return None;
        }
        *lent_in = self.number;
        let stride = self.region.stride as usize;
        // SAFETY: in bounds, as `contains` found the index below `count` and the mapping holds `count * stride`
        // bytes. Unique within this process: it was neither lent in this loan nor kept, and the `Slots` stay mutably
        // borrowed for `'a`, so no other loan can begin while the slice lives, even after this one ended. All bytes
        // are valid u8.
        Some(unsafe { std::slice::from_raw_parts_mut(self.region.map.as_ptr().add(index * stride), stride) })
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
        assert!(slots.open().take(d(7, 0, 1)).is_some());
    }

    #[test]
    fn loans_end_and_custody_lasts_however_many_there_are() {
        let mut slots = Slots::new(Region::create(8, 64).unwrap());
        let kept = slots.keep(d(3, 128, 60)).unwrap();
        assert!(slots.keep(d(3, 128, 60)).is_none());
        for i in 0..3 * u32::from(u16::MAX) {
            let mut loan = slots.open();
            assert!(loan.take(d(5, 0, 1)).is_some(), "loan {i}");
            assert!(loan.take(d(5, 0, 1)).is_none(), "loan {i}: twice");
            assert!(loan.take(d(3, 0, 1)).is_none(), "loan {i}: kept");
        }
        slots.give_back(kept);
        assert!(slots.open().take(d(3, 0, 1)).is_some());
    }
}
