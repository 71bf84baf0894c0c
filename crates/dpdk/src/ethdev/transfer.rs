//! The fast path of a port: bursts in and out.

use super::devargs::OWN_ROOM;
use super::{EthDev, Frame, packet_socket};
use crate::mbuf::Mbuf;
use crate::pool::{HEADROOM, Mempool};
use chainline_dpdk_sys as sys;

/// Frames of one call into the driver.
const BURST: usize = 64;
/// The longest frame that fits a buffer of the driver's own.
const OWN_DATA: u16 = OWN_ROOM - HEADROOM;
/// A VLAN tag: TPID 0x8100 and TCI (IEEE 802.1Q).
const VLAN_TAG: usize = 4;
/// The two MAC addresses, after which a tag stands.
const VLAN_OFFSET: usize = 12;

impl EthDev {
    /// Receives up to `out.len()` frames, at most 64, and returns how many. Their buffers are the caller's now.
    pub fn rx(&mut self, out: &mut [Frame]) -> usize {
        let mut mbufs = [std::ptr::null_mut(); BURST];
        let want = out.len().min(BURST) as u16;
        // SAFETY: the port is started and has queue 0; room for `want` pointers.
        let got = unsafe { sys::chainline_rx_burst(self.port, 0, mbufs.as_mut_ptr(), want) };
        let ours = self.pool.mempool().as_ptr();
        let mut n = 0;
        for mbuf in mbufs.iter().take(usize::from(got)).map(|mbuf| Mbuf(*mbuf)) {
            // SAFETY: the driver handed the mbuf over.
            let plain = unsafe {
                mbuf.pool() == ours && mbuf.nb_segs() == 1 && mbuf.ol_flags() & sys::CHAINLINE_MBUF_VLAN_STRIPPED == 0
            };
            let frame = if plain {
                // SAFETY: as above; one of our pool's mbufs has an index.
                Some(unsafe { Frame { index: mbuf.index(), off: mbuf.data_off(), len: mbuf.data_len() } })
            } else {
                self.adopt(mbuf)
            };
            if let Some(frame) = frame {
                out[n] = frame;
                n += 1;
            }
        }
        n
    }

    /// Sends frames and returns how many the driver accepted, from the front. The buffers of these go back to the free
    /// list once they are sent; the others stay the caller's.
    ///
    /// # Panics
    /// When a frame does not lie in a buffer of the pool, a mistake in the program.
    pub fn tx(&mut self, frames: &[Frame]) -> usize {
        let mut sent = 0;
        self.sent = true;
        while sent < frames.len() {
            let chunk = &frames[sent..(sent + BURST).min(frames.len())];
            let (accepted, wanted) = match &self.own {
                None => (self.tx_in_place(chunk), chunk.len()),
                Some(own) => match chunk.iter().position(|frame| frame.len > OWN_DATA) {
                    Some(0) => {
                        self.tx_oversize += 1;
                        self.pool.free().push_bulk(&[chunk[0].index]);
                        (1, 1)
                    }
                    longer => {
                        let chunk = &chunk[..longer.unwrap_or(chunk.len())];
                        (self.tx_copied(own, chunk), chunk.len())
                    }
                },
            };
            sent += accepted;
            if accepted < wanted {
                break;
            }
        }
        sent
    }

    /// To be called now and then, whether or not there is something to send: a driver may have left frames in its ring (`net_af_packet`), and
    /// nothing but the next packet would send them.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.sent) {
            self.unsettled = true;
        } else if self.unsettled {
            // Not `any`: all are kicked.
            let under_way = self.rings.iter().filter(|&&socket| packet_socket::kick(socket)).count();
            self.unsettled = under_way > 0;
        }
    }

    fn tx_in_place(&self, frames: &[Frame]) -> usize {
        let mut mbufs = [std::ptr::null_mut(); BURST];
        let table = self.pool.mbufs();
        for (mbuf, frame) in mbufs.iter_mut().zip(frames) {
            self.assert_inside(*frame);
            *mbuf = table[frame.index as usize].0;
        }
        // SAFETY: the caller owns the buffers, so their mbufs are in no one else's hands; the frames lie inside; the
        // port is started and has queue 0.
        unsafe {
            sys::chainline_mbuf_reset_bulk(mbufs.as_mut_ptr(), frames.len() as u32);
            for (mbuf, frame) in mbufs.iter().zip(frames) {
                set_data(Mbuf(*mbuf), frame.off, frame.len);
            }
            usize::from(sys::chainline_tx_burst(self.port, 0, mbufs.as_mut_ptr(), frames.len() as u16))
        }
    }

    fn tx_copied(&self, own: &Mempool, frames: &[Frame]) -> usize {
        let mut mbufs = [std::ptr::null_mut(); BURST];
        // SAFETY: room for as many pointers as there are frames.
        let got = unsafe { sys::chainline_mbuf_alloc_bulk(own.as_ptr(), mbufs.as_mut_ptr(), frames.len() as u32) };
        if got != 0 {
            return 0;
        }
        for (mbuf, frame) in mbufs.iter().zip(frames) {
            self.assert_inside(*frame);
            // SAFETY: the mbuf is fresh, and `tx` saw that the frame fits behind its headroom; the frame lies inside its
            // buffer.
            unsafe {
                let mbuf = Mbuf(*mbuf);
                set_data(mbuf, HEADROOM, frame.len);
                let from = self.pool.buffer(frame.index).add(usize::from(frame.off));
                std::ptr::copy_nonoverlapping(from.as_ptr(), mbuf.data(), usize::from(frame.len));
            }
        }
        // SAFETY: the mbufs are ours; the driver takes the first ones, and the rest goes back.
        let accepted = unsafe {
            let accepted = usize::from(sys::chainline_tx_burst(self.port, 0, mbufs.as_mut_ptr(), frames.len() as u16));
            let rest = &mut mbufs[accepted..frames.len()];
            sys::chainline_mbuf_free_bulk(rest.as_mut_ptr(), rest.len() as u32);
            accepted
        };
        let mut indexes = [0; BURST];
        for (index, frame) in indexes.iter_mut().zip(&frames[..accepted]) {
            *index = frame.index;
        }
        self.pool.free().push_bulk(&indexes[..accepted]);
        accepted
    }

    /// Takes a frame that is not simply in one of our buffers: in several, in another pool's, or robbed of its VLAN tag.
    #[cold]
    fn adopt(&mut self, mbuf: Mbuf) -> Option<Frame> {
        // SAFETY: the driver handed the mbuf over.
        let (len, stripped) =
            unsafe { (mbuf.pkt_len() as usize, mbuf.ol_flags() & sys::CHAINLINE_MBUF_VLAN_STRIPPED != 0) };
        let tag = if stripped && len >= VLAN_OFFSET { VLAN_TAG } else { 0 };
        let mut index = [0];
        let fits = len + tag <= self.pool.stride() - usize::from(HEADROOM);
        let frame = if !fits {
            self.rx_oversize += 1;
            None
        } else if !self.pool.free().pop_bulk(&mut index) {
            self.rx_no_buffer += 1;
            None
        } else {
            let [index] = index;
            let frame = Frame { index, off: HEADROOM, len: (len + tag) as u16 };
            // SAFETY: `fits` says that the buffer has room behind the headroom for the frame and the tag.
            unsafe {
                let to = self.pool.buffer(index).as_ptr().add(usize::from(HEADROOM));
                gather(mbuf, to.add(tag), len);
                if tag > 0 {
                    std::ptr::copy(to.add(tag), to, VLAN_OFFSET);
                    let [hi, lo] = mbuf.vlan_tci().to_be_bytes();
                    to.add(VLAN_OFFSET).cast::<[u8; VLAN_TAG]>().write([0x81, 0x00, hi, lo]);
                }
            }
            Some(frame)
        };
        let mut mbufs = [mbuf.0];
        // SAFETY: the mbuf is ours and goes home.
        unsafe { sys::chainline_mbuf_free_bulk(mbufs.as_mut_ptr(), 1) };
        frame
    }

    fn assert_inside(&self, frame: Frame) {
        let end = usize::from(frame.off) + usize::from(frame.len);
        assert!(end <= self.pool.stride(), "frame to byte {end} in a buffer of {}", self.pool.stride());
    }
}

/// Says where the data of a one-segment mbuf lies.
///
/// # Safety
/// The mbuf must be ours, and the data inside its buffer.
unsafe fn set_data(mbuf: Mbuf, off: u16, len: u16) {
    // SAFETY: the caller's promise.
    unsafe {
        mbuf.set_data_off(off);
        mbuf.set_data_len(len);
        mbuf.set_pkt_len(len.into());
    }
}

/// Copies at most `len` bytes of a packet's segments to `to`.
///
/// # Safety
/// The packet must be ours, and `to` must have room for `len` bytes.
unsafe fn gather(mut mbuf: Mbuf, mut to: *mut u8, mut len: usize) {
    loop {
        // SAFETY: the caller's promise; a driver's chain ends with a null pointer.
        unsafe {
            let part = usize::from(mbuf.data_len()).min(len);
            std::ptr::copy_nonoverlapping(mbuf.data(), to, part);
            (to, len) = (to.add(part), len - part);
            mbuf = Mbuf(mbuf.next());
        }
        if mbuf.0.is_null() || len == 0 {
            return;
        }
    }
}
