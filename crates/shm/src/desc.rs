//! The 16 bytes that stand for a packet in every queue.

/// A buffer of a region together with the generation of its allocation, packed in 32 bits: the index in the
/// lower 24, the generation in the upper eight. The generation tells a descriptor that came back twice from one
/// whose buffer carries another packet by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct BufId(pub u32);

/// The most buffers that a region can have.
pub const MAX_BUFFERS: u32 = 1 << 24;

impl BufId {
    /// Puts index and generation together.
    #[inline]
    #[must_use]
    pub const fn new(index: u32, generation: u8) -> Self {
        Self(index & (MAX_BUFFERS - 1) | (generation as u32) << 24)
    }
    /// The buffer's index in its region.
    #[inline]
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 & (MAX_BUFFERS - 1)
    }
    /// The generation.
    #[inline]
    #[must_use]
    pub const fn generation(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

/// A packet descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C, align(16))]
pub struct Desc {
    /// The buffer.
    pub buf: BufId,
    /// Where the frame starts in the buffer, in bytes.
    pub off: u16,
    /// Length of the frame in bytes, without FCS.
    pub len: u16,
    /// The chain, as an index into the plan.
    pub chain: u16,
    /// The hop that the packet is on its way to.
    pub hop: u8,
    /// On the way back to the manager: the reason for the drop, in the order of declaration. Elsewhere 0.
    pub tag: u8,
    /// Hash of the flow.
    pub hash: u32,
}

const _: () = assert!(size_of::<Desc>() == 16 && align_of::<Desc>() == 16);

impl Desc {
    /// As two words in the order in which queues hold them.
    #[inline]
    #[must_use]
    pub const fn to_words(self) -> (u64, u64) {
        (
            self.buf.0 as u64 | (self.off as u64) << 32 | (self.len as u64) << 48,
            self.chain as u64 | (self.hop as u64) << 16 | (self.tag as u64) << 24 | (self.hash as u64) << 32,
        )
    }

    /// From two words.
    #[inline]
    #[must_use]
    pub const fn from_words(a: u64, b: u64) -> Self {
        Self {
            buf: BufId(a as u32),
            off: (a >> 32) as u16,
            len: (a >> 48) as u16,
            chain: b as u16,
            hop: (b >> 16) as u8,
            tag: (b >> 24) as u8,
            hash: (b >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        let d =
            Desc { buf: BufId::new(0xABCDEF, 0x12), off: 128, len: 1514, chain: 7, hop: 3, tag: 9, hash: 0xDEAD_BEEF };
        let (a, b) = d.to_words();
        assert_eq!(Desc::from_words(a, b), d);
        assert_eq!((d.buf.index(), d.buf.generation()), (0xABCDEF, 0x12));
    }
}
