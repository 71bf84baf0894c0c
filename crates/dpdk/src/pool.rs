//! Packet buffers in memory that is not DPDK's, for DPDK's drivers.
//!
//! The bytes of buffer `i` lie at `base + i * stride` in a region that NFs may see too; its `rte_mbuf` header is private.
//! The mempool behind it has no list of its own: its operations (programmer's guide, "Mempool Handlers") pop from and
//! push to the [`FreeList`], which the manager's own ports use directly. So there is one authority, and a buffer that
//! a driver received can be freed by anyone. No per-core cache, for the same reason.
//!
//! For the manager's thread only: neither `Send` nor `Sync`.

use crate::mbuf::{Mbuf, PRIVATE_BYTES};
use crate::tables::{MemoryError, unique_name};
use crate::{FreeList, log, memory, version};
use chainline_dpdk_sys as sys;
use std::cell::{OnceCell, RefCell};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::OnceLock;

/// Bytes before a received frame, room for headers that an NF adds.
pub const HEADROOM: u16 = sys::CHAINLINE_MBUF_HEADROOM as u16;

const OPS_NAME: &[u8] = b"chainline\0";
/// Indexes that move at a time between mempool and free list.
const CHUNK: usize = 64;
/// What a header costs with its mempool header and alignment.
const HEADER_BYTES: usize = 256;

/// Why a pool could not be made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PoolError {
    /// The layout of the region is wrong.
    #[error("packet buffers: {0}")]
    Layout(String),
    /// No memory for the headers.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// DPDK refused.
    #[error("cannot make a pool of {count} packet buffers: {why}")]
    Library {
        /// How many there would be.
        count: u32,
        /// DPDK's word.
        why: String,
    },
}

/// The packet buffers of a region.
#[derive(Clone, Debug)]
pub struct Pool(Rc<Region>);

#[derive(Debug)]
struct Region {
    mempool: Mempool,
    base: NonNull<u8>,
    len: usize,
    stride: u16,
    /// Keeps a shared region mapped.
    memory: Option<chainline_shm::Region>,
}

impl Pool {
    /// The buffers of a shared region, which stays mapped as long as the pool or a port over it lives.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn over(region: &chainline_shm::Region, free: Rc<FreeList>) -> Result<Self, PoolError> {
        let memory = region.mapping();
        let base = NonNull::new(memory.as_ptr()).ok_or_else(|| PoolError::Layout("at address zero".into()))?;
        // SAFETY: a `Mapping` is readable and writable for as long as it lives, and `memory` below keeps it alive;
        // a region holds packet data and nothing else.
        let mut pool = unsafe { Self::new(base, memory.len(), region.stride() as usize, region.count(), free) }?;
        if let Some(inner) = Rc::get_mut(&mut pool.0) {
            inner.memory = Some(region.clone());
        }
        Ok(pool)
    }

    /// Makes headers for `count` buffers of `stride` bytes each at `base`.
    ///
    /// # Errors
    /// [`PoolError`].
    ///
    /// # Safety
    /// `base` must point to `len` bytes of mapped, readable and writable memory that stays mapped as long as any clone of
    /// the pool or any port over it lives. Other processes may write there at any time; nothing but packet data is kept
    /// there.
    pub unsafe fn new(
        base: NonNull<u8>,
        len: usize,
        stride: usize,
        count: u32,
        free: Rc<FreeList>,
    ) -> Result<Self, PoolError> {
        let layout = |why: String| Err(PoolError::Layout(why));
        let room = match u16::try_from(stride) {
            Ok(room) if stride.is_multiple_of(64) && room > HEADROOM => room,
            _ => return layout(format!("{stride} bytes each, expected a multiple of 64 from 192 to 65472")),
        };
        if count == 0 || (count as usize).checked_mul(stride).is_none_or(|need| need > len) {
            return layout(format!("{count} of {stride} bytes do not fit a region of {len} bytes"));
        }
        if free.capacity() != count as usize {
            return layout(format!("{count} of them, and a free list of {}", free.capacity()));
        }
        let page = page_size(base, len)?;
        let mempool = Mempool::new(count, room, true, free)?;
        for (index, mbuf) in (0..count).zip(mempool.mbufs()) {
            // SAFETY: the header was made for pinning, is in no one's hands yet, and its buffer lies in the region.
            unsafe {
                let buffer = base.add(index as usize * stride);
                sys::chainline_mbuf_pin(mbuf.0, buffer.as_ptr().cast(), buffer.as_ptr() as u64, room);
            }
        }
        let mut iova: Vec<u64> = (0..len / page).map(|i| (base.as_ptr() as usize + i * page) as u64).collect();
        // SAFETY: the region is mapped, and aligned to pages of this size; iova has one address a page.
        let known = unsafe {
            sys::rte_extmem_register(base.as_ptr().cast(), len, iova.as_mut_ptr(), iova.len() as c_uint, page)
        };
        if known != 0 {
            return Err(PoolError::Library { count, why: log::explain(version::strerror(version::errno())) });
        }
        Ok(Self(Rc::new(Region { mempool, base, len, stride: room, memory: None })))
    }

    /// The free buffers.
    #[must_use]
    pub fn free(&self) -> &FreeList {
        &self.0.mempool.handler.free
    }

    /// Bytes of a buffer.
    #[must_use]
    pub fn stride(&self) -> usize {
        usize::from(self.0.stride)
    }

    /// The first byte of a buffer. The index must be one of the pool's.
    pub(crate) fn buffer(&self, index: u32) -> NonNull<u8> {
        assert!((index as usize) < self.mbufs().len(), "no buffer {index} in a pool of {}", self.mbufs().len());
        // SAFETY: below the count, so inside the region.
        unsafe { self.0.base.add(index as usize * self.stride()) }
    }

    /// The region's place and size.
    pub(crate) fn region(&self) -> (NonNull<u8>, usize) {
        (self.0.base, self.0.len)
    }

    pub(crate) fn mbufs(&self) -> &[Mbuf] {
        self.0.mempool.mbufs()
    }

    pub(crate) fn mempool(&self) -> &Mempool {
        &self.0.mempool
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: registered by `Pool::new` with this place and size; no port is left, as ports hold the pool.
        unsafe { sys::rte_extmem_unregister(self.base.as_ptr().cast(), self.len) };
    }
}

/// The page size to register: huge where the region allows it, so that DPDK keeps fewer records.
fn page_size(base: NonNull<u8>, len: usize) -> Result<usize, PoolError> {
    // SAFETY: sysconf has no preconditions.
    let small = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let whole = |page: &usize| (base.as_ptr() as usize).is_multiple_of(*page) && len.is_multiple_of(*page);
    [2 << 20, small].into_iter().find(whole).ok_or_else(|| {
        PoolError::Layout(format!("a region of {len} bytes at {base:p}, expected whole pages of {small} bytes"))
    })
}

/// A mempool of mbufs over a [`FreeList`].
#[derive(Debug)]
pub(crate) struct Mempool {
    mempool: NonNull<sys::rte_mempool>,
    /// What the operations find through the mempool's `pool_config`: it must outlive the mempool.
    handler: Box<Handler>,
}

#[derive(Debug)]
struct Handler {
    free: Rc<FreeList>,
    /// Takes the headers while the mempool makes them, one by one.
    made: RefCell<Vec<Mbuf>>,
    /// All of them by index, from then on.
    mbufs: OnceCell<Box<[Mbuf]>>,
}

impl std::fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:p}", self.0)
    }
}

impl Mempool {
    /// Mbufs of `room` bytes, headroom included: with memory of their own, or to be pinned to buffers elsewhere.
    pub(crate) fn new(count: u32, room: u16, pinned: bool, free: Rc<FreeList>) -> Result<Self, PoolError> {
        // SAFETY: both only return a size.
        let (pin_bytes, private_bytes) =
            unsafe { (sys::chainline_mbuf_pin_size(), sys::chainline_pktmbuf_pool_private_size()) };
        let behind = if pinned { pin_bytes } else { u32::from(room) };
        let element = sys::CHAINLINE_MBUF_SIZE + u32::from(PRIVATE_BYTES) + behind;
        let bytes = count as usize * (HEADER_BYTES + if pinned { 0 } else { usize::from(room) });
        let handler = Box::new(Handler { free, made: RefCell::default(), mbufs: OnceCell::new() });
        let library = |errno: c_int| PoolError::Library { count, why: log::explain(version::strerror(errno)) };

        let mempool = memory::with_heap(bytes, |socket| {
            register_ops()?;
            let name = unique_name("pool");
            // SAFETY: the name lives through the call and is copied; no cache.
            let made =
                unsafe { sys::rte_mempool_create_empty(name.as_ptr(), count, element, 0, private_bytes, socket, 0) };
            let mempool = Owned(NonNull::new(made).ok_or_else(version::errno)?);
            *handler.made.borrow_mut() = Vec::with_capacity(count as usize);
            let config: *const Handler = &*handler;
            // SAFETY: the mempool is new; the handler is boxed and outlives it; its private area was made large enough.
            unsafe {
                let raw = mempool.0.as_ptr();
                check(sys::rte_mempool_set_ops_byname(raw, OPS_NAME.as_ptr().cast(), config.cast_mut().cast()))?;
                sys::chainline_pktmbuf_pool_init(raw, room, PRIVATE_BYTES, c_int::from(pinned));
                check(sys::rte_mempool_populate_default(raw))?;
                sys::rte_mempool_obj_iter(raw, Some(sys::rte_pktmbuf_init), std::ptr::null_mut());
            }
            Ok(mempool)
        })?
        .map_err(library)?;

        let mbufs = handler.made.take();
        if mbufs.len() != count as usize {
            return Err(library(libc::ENOMEM));
        }
        for (index, mbuf) in (0..count).zip(&mbufs) {
            // SAFETY: the header is in no one's hands yet and has a private area.
            unsafe { mbuf.set_index(index) };
        }
        let _ = handler.mbufs.set(mbufs.into_boxed_slice());
        Ok(Self { mempool: mempool.keep(), handler })
    }

    pub(crate) fn mbufs(&self) -> &[Mbuf] {
        self.handler.mbufs()
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.mempool.as_ptr()
    }
}

impl Drop for Mempool {
    fn drop(&mut self) {
        // A mempool empties itself before it goes, but the free list is not its own.
        let mut free = vec![0; self.handler.free.len()];
        self.handler.free.pop_bulk(&mut free);
        drop(Owned(self.mempool));
        self.handler.free.push_bulk(&free);
    }
}

impl Handler {
    #[inline]
    fn mbufs(&self) -> &[Mbuf] {
        self.mbufs.get().map_or(&[], |mbufs| mbufs)
    }
}

/// Frees a mempool on the way out.
struct Owned(NonNull<sys::rte_mempool>);

impl Owned {
    fn keep(self) -> NonNull<sys::rte_mempool> {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by rte_mempool_create_empty and freed once; ports that use it are gone.
        unsafe { sys::rte_mempool_free(self.0.as_ptr()) };
    }
}

/// DPDK's habit of negative error numbers.
fn check(result: c_int) -> Result<(), c_int> {
    if result < 0 { Err(-result) } else { Ok(()) }
}

/// Makes the operations known to DPDK, once.
fn register_ops() -> Result<(), c_int> {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    let result = *REGISTERED.get_or_init(|| {
        // SAFETY: for optional function pointers and a name, zeros are valid.
        let mut ops: sys::rte_mempool_ops = unsafe { std::mem::zeroed() };
        for (to, from) in ops.name.iter_mut().zip(OPS_NAME) {
            *to = *from as c_char;
        }
        ops.alloc = Some(alloc);
        ops.free = Some(free);
        ops.enqueue = Some(enqueue);
        ops.dequeue = Some(dequeue);
        ops.get_count = Some(get_count);
        // SAFETY: the operations follow the signatures that DPDK declares, and DPDK copies the structure.
        unsafe { sys::rte_mempool_register_ops(&ops) }
    });
    // The result is the place in DPDK's table.
    if result < 0 { Err(-result) } else { Ok(()) }
}

/// # Safety
/// For mempools that `Mempool::new` made.
unsafe fn handler<'a>(mempool: *const sys::rte_mempool) -> &'a Handler {
    // SAFETY: the configuration is the boxed handler, which outlives the mempool.
    unsafe { &*sys::chainline_mempool_config(mempool).cast::<Handler>() }
}

unsafe extern "C" fn alloc(_: *mut sys::rte_mempool) -> c_int {
    0
}

unsafe extern "C" fn free(_: *mut sys::rte_mempool) {}

unsafe extern "C" fn enqueue(mempool: *mut sys::rte_mempool, objects: *const *mut c_void, n: c_uint) -> c_int {
    // SAFETY: DPDK calls with a mempool that has these operations, and n objects of it.
    let (handler, objects) =
        unsafe { (handler(mempool), std::slice::from_raw_parts(objects.cast::<*mut sys::rte_mbuf>(), n as usize)) };
    if handler.mbufs.get().is_none() {
        handler.made.borrow_mut().extend(objects.iter().map(|object| Mbuf(*object)));
        return 0;
    }
    let mut indexes = [0; CHUNK];
    for objects in objects.chunks(CHUNK) {
        for (index, object) in indexes.iter_mut().zip(objects) {
            // SAFETY: an mbuf on its way into the mempool is ours, and has its index.
            *index = unsafe { Mbuf(*object).index() };
        }
        handler.free.push_bulk(&indexes[..objects.len()]);
    }
    0
}

unsafe extern "C" fn dequeue(mempool: *mut sys::rte_mempool, objects: *mut *mut c_void, n: c_uint) -> c_int {
    // SAFETY: as above, with room for n objects.
    let (handler, objects) = unsafe { (handler(mempool), std::slice::from_raw_parts_mut(objects, n as usize)) };
    // All or nothing is what the mempool library expects. There are no mbufs when a mempool that failed half-way goes.
    let mbufs = handler.mbufs();
    if handler.free.len() < objects.len() || mbufs.is_empty() {
        return -libc::ENOBUFS;
    }
    let mut indexes = [0; CHUNK];
    for objects in objects.chunks_mut(CHUNK) {
        let indexes = &mut indexes[..objects.len()];
        handler.free.pop_bulk(indexes);
        for (object, index) in objects.iter_mut().zip(indexes) {
            *object = mbufs[*index as usize].0.cast();
        }
    }
    0
}

unsafe extern "C" fn get_count(mempool: *const sys::rte_mempool) -> c_uint {
    // SAFETY: as above.
    unsafe { handler(mempool) }.free.len() as c_uint
}
