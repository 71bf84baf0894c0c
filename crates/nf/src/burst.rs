//! Packets as an NF sees them.

use crate::Verdict;
use arrayvec::ArrayVec;

/// The most packets that one call of [`crate::Nf::process`] can get. A chain file's `batch` is 32 unless set.
pub const MAX_BURST: usize = 256;

/// What travels with a packet besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketMeta {
    /// The chain, as an index into the chain file's list.
    pub chain: u16,
    /// Which hop of its chain the packet is at; 0 is the first NF.
    pub hop: u8,
    /// Hash of the flow: the same for every packet of a 5-tuple. 0 when the packet is not IP.
    pub flow_hash: u32,
}

/// One packet in its buffer. The bytes before and after the data are room to grow into.
#[derive(Debug)]
pub struct Packet<'a> {
    buf: &'a mut [u8],
    off: u16,
    len: u16,
    meta: PacketMeta,
}

impl<'a> Packet<'a> {
    /// A packet whose data are `buf[off..off + len]`; `None` if that is outside the buffer.
    #[inline]
    #[must_use]
    pub fn new(buf: &'a mut [u8], off: u16, len: u16, meta: PacketMeta) -> Option<Self> {
        (usize::from(off) + usize::from(len) <= buf.len()).then_some(Self { buf, off, len, meta })
    }

    /// The frame, from the first byte of the Ethernet header, without FCS.
    #[inline]
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.buf[usize::from(self.off)..usize::from(self.off) + usize::from(self.len)]
    }

    /// The frame, writable in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.buf[usize::from(self.off)..usize::from(self.off) + usize::from(self.len)]
    }

    /// Length of the frame in bytes, without FCS.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Where the frame starts in its buffer.
    #[inline]
    #[must_use]
    pub fn offset(&self) -> u16 {
        self.off
    }

    /// Chain, hop and flow hash.
    #[inline]
    #[must_use]
    pub fn meta(&self) -> PacketMeta {
        self.meta
    }

    /// Free bytes before the frame.
    #[must_use]
    pub fn headroom(&self) -> usize {
        usize::from(self.off)
    }

    /// Free bytes after the frame.
    #[must_use]
    pub fn tailroom(&self) -> usize {
        self.buf.len() - usize::from(self.off) - usize::from(self.len)
    }

    /// Adds `n` bytes in front (their content is whatever was there); `false`, and no change, without room.
    #[must_use]
    pub fn push_front(&mut self, n: u16) -> bool {
        let ok = self.off >= n && self.len.checked_add(n).is_some();
        if ok {
            self.off -= n;
            self.len += n;
        }
        ok
    }

    /// Removes `n` bytes in front; `false`, and no change, if the frame is shorter.
    #[must_use]
    pub fn pull_front(&mut self, n: u16) -> bool {
        let ok = self.len >= n;
        if ok {
            self.off += n;
            self.len -= n;
        }
        ok
    }

    /// Makes the frame `len` bytes long, cut or grown at its end; `false`, and no change, without room.
    #[must_use]
    pub fn set_len(&mut self, len: u16) -> bool {
        let ok = usize::from(self.off) + usize::from(len) <= self.buf.len();
        if ok {
            self.len = len;
        }
        ok
    }

    /// The whole buffer with the frame's place in it: what the C ABI hands on.
    #[must_use]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        self.buf
    }

    /// Moves the frame within its buffer; `false`, and no change, if that is outside.
    #[must_use]
    pub fn set_frame(&mut self, off: u16, len: u16) -> bool {
        let ok = usize::from(off) + usize::from(len) <= self.buf.len();
        if ok {
            self.off = off;
            self.len = len;
        }
        ok
    }
}

/// Up to [`MAX_BURST`] packets of one chain and hop, each with a verdict.
#[derive(Debug, Default)]
pub struct Burst<'a> {
    packets: ArrayVec<Packet<'a>, MAX_BURST>,
    verdicts: ArrayVec<Verdict, MAX_BURST>,
}

impl<'a> Burst<'a> {
    /// An empty burst.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        Self { packets: ArrayVec::new_const(), verdicts: ArrayVec::new_const() }
    }

    /// Adds a packet with [`Verdict::NEXT`]; gives it back when the burst is full.
    ///
    /// # Errors
    /// The packet, when there are [`MAX_BURST`] already.
    #[inline]
    pub fn push(&mut self, packet: Packet<'a>) -> Result<(), Packet<'a>> {
        self.packets.try_push(packet).map_err(|e| e.element())?;
        self.verdicts.push(Verdict::NEXT);
        Ok(())
    }

    /// Number of packets.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there is no packet.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packets, in order of arrival.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> &[Packet<'a>] {
        &self.packets
    }

    /// The packets, writable.
    #[inline]
    pub fn packets_mut(&mut self) -> &mut [Packet<'a>] {
        &mut self.packets
    }

    /// The verdicts, one for each packet.
    #[inline]
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// Sets the verdict of packet `i`.
    #[inline]
    pub fn set(&mut self, i: usize, verdict: Verdict) {
        self.verdicts[i] = verdict;
    }

    /// Each packet with its verdict, both writable: the usual loop of an NF.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&mut Packet<'a>, &mut Verdict)> {
        self.packets.iter_mut().zip(self.verdicts.iter_mut())
    }

    /// Empties the burst.
    #[inline]
    pub fn clear(&mut self) {
        self.packets.clear();
        self.verdicts.clear();
    }

    /// Keeps the packets for which `keep(index, verdict)` holds, in order; the host takes the others away first.
    pub fn retain(&mut self, mut keep: impl FnMut(usize, Verdict) -> bool) {
        let (verdicts, mut i) = (&self.verdicts, 0);
        self.packets.retain(|_| {
            i += 1;
            keep(i - 1, verdicts[i - 1])
        });
        self.verdicts.clear();
        self.verdicts.extend(std::iter::repeat_n(Verdict::NEXT, self.packets.len()));
    }
}
