//! The few fields of an `rte_mbuf` that we touch, by their place (see `wrapper.h` of dpdk-sys for the reason).

use chainline_dpdk_sys as sys;

/// An mbuf that is ours: received and not freed, or taken from the pool and not yet sent.
#[derive(Clone, Copy)]
pub(crate) struct Mbuf(pub *mut sys::rte_mbuf);

/// Bytes of an mbuf's private area, where a pool keeps the buffer's index.
pub(crate) const PRIVATE_BYTES: u16 = 8;

macro_rules! field {
    ($(#[$doc:meta])* $get:ident, $set:ident, $ty:ty, $offset:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The mbuf must be ours.
        #[inline]
        pub(crate) unsafe fn $get(self) -> $ty {
            // SAFETY: the caller's promise; the C compiler gave the offset, and the field has this type and alignment.
            unsafe { self.0.byte_add(sys::$offset as usize).cast::<$ty>().read() }
        }
        /// Its counterpart.
        ///
        /// # Safety
        /// The mbuf must be ours.
        #[inline]
        #[allow(dead_code, reason = "one macro for both ways")]
        pub(crate) unsafe fn $set(self, value: $ty) {
            // SAFETY: as above.
            unsafe { self.0.byte_add(sys::$offset as usize).cast::<$ty>().write(value) }
        }
    };
}

impl Mbuf {
    field!(/** Where the buffer starts. */ buf_addr, set_buf_addr, *mut u8, CHAINLINE_MBUF_BUF_ADDR);
    field!(/** Bytes from there to the data. */ data_off, set_data_off, u16, CHAINLINE_MBUF_DATA_OFF);
    field!(/** Bytes of this segment. */ data_len, set_data_len, u16, CHAINLINE_MBUF_DATA_LEN);
    field!(/** Bytes of all segments. */ pkt_len, set_pkt_len, u32, CHAINLINE_MBUF_PKT_LEN);
    field!(/** Segments. */ nb_segs, set_nb_segs, u16, CHAINLINE_MBUF_NB_SEGS);
    field!(/** The next segment. */ next, set_next, *mut sys::rte_mbuf, CHAINLINE_MBUF_NEXT);
    field!(/** The pool it goes home to. */ pool, set_pool, *mut sys::rte_mempool, CHAINLINE_MBUF_POOL);
    field!(/** Flags. */ ol_flags, set_ol_flags, u64, CHAINLINE_MBUF_OL_FLAGS);
    field!(/** The VLAN tag that the driver took off. */ vlan_tci, set_vlan_tci, u16, CHAINLINE_MBUF_VLAN_TCI);
    field!(/** The buffer's index, kept in the private area of our pools' mbufs. */ index, set_index, u32, CHAINLINE_MBUF_SIZE);

    /// The first byte of this segment's data.
    ///
    /// # Safety
    /// The mbuf must be ours.
    #[inline]
    pub(crate) unsafe fn data(self) -> *mut u8 {
        // SAFETY: the caller's promise; a driver keeps the data inside its buffer.
        unsafe { self.buf_addr().add(usize::from(self.data_off())) }
    }
}
