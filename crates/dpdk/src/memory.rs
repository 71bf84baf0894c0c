//! Memory for tables: an external heap that grows with them.
//!
//! Under `--no-huge` EAL's own memory has a fixed size and 4 KiB pages. Tables of many megabytes are hit at random, so
//! here they get a heap of their own (programmer's guide, "Support for Externally Allocated Memory") on
//! transparent huge pages, enlarged by what the next table needs. Memory of dropped tables is used again, and goes back
//! to the system at exit.

use crate::{eal, log, version};
use chainline_dpdk_sys as sys;
use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, PoisonError};

const HEAP: &CStr = c"chainline";
/// The size of a huge page, and the step in which the heap grows.
pub(crate) const PAGE: usize = 2 << 20;
/// How often a table is tried, each time with twice the memory. Estimates are good; this is for fragmentation, and for
/// access lists, whose size only the build tells.
const TRIES: u32 = 8;
/// Beyond this a table is a mistake, or an attack by rule file.
const LIMIT: usize = 4 << 30;

/// Why there is no memory for a table.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MemoryError {
    /// EAL did not start.
    #[error(transparent)]
    Eal(#[from] eal::EalError),
    /// The system has no more, or DPDK cannot use it.
    #[error("no memory for a table of about {mib} MiB: {why}")]
    Refused {
        /// What was asked for.
        mib: usize,
        /// The system's word or DPDK's.
        why: String,
    },
}

/// The heap's socket id, once it is there.
static SOCKET: Mutex<Option<c_int>> = Mutex::new(None);

/// Runs `create` with the socket id of a heap that has about `bytes` free in one piece, and again with more, as long
/// as `create` fails for lack of memory. The inner error is `create`'s own, with any errno but ENOMEM.
pub(crate) fn with_heap<T>(
    bytes: usize,
    mut create: impl FnMut(c_int) -> Result<T, c_int>,
) -> Result<Result<T, c_int>, MemoryError> {
    eal::private()?;
    // Held while the table is made, so that no other thread takes what was reserved for it.
    let mut heap = SOCKET.lock().unwrap_or_else(PoisonError::into_inner);
    let mut want = bytes.max(PAGE / 2);
    let mut tries = 1;
    loop {
        let socket = reserve(&mut heap, want)?;
        match create(socket) {
            Err(errno) if errno.abs() == libc::ENOMEM && tries < TRIES && want < LIMIT => {
                want *= 2;
                tries += 1;
                // What DPDK said about the failure is of no use once a later try succeeds.
                log::take();
            }
            other => return Ok(other),
        }
    }
}

/// Makes sure that the heap has `bytes` free in one piece.
fn reserve(heap: &mut Option<c_int>, bytes: usize) -> Result<c_int, MemoryError> {
    let refused = |why: String| MemoryError::Refused { mib: bytes >> 20, why };
    let socket = match heap {
        Some(socket) => *socket,
        None => {
            // SAFETY: HEAP is a NUL-terminated string.
            let (made, socket) =
                unsafe { (sys::rte_malloc_heap_create(HEAP.as_ptr()), sys::rte_malloc_heap_get_socket(HEAP.as_ptr())) };
            if made != 0 || socket < 0 {
                return Err(refused(log::explain(version::strerror(version::errno()))));
            }
            *heap.insert(socket)
        }
    };
    // SAFETY: all integers, for which zeros are valid.
    let mut stats: sys::rte_malloc_socket_stats = unsafe { std::mem::zeroed() };
    // SAFETY: writes to the local.
    let known = unsafe { sys::rte_malloc_get_socket_stats(socket, &mut stats) } == 0;
    // Element headers, alignment, and the memzones' own loss.
    let needed = bytes + bytes / 64 + (64 << 10);
    if known && stats.greatest_free_size >= needed {
        return Ok(socket);
    }
    // EAL has a small fixed number of memory areas, so small tables share one, and areas grow with the heap.
    let len = needed.max(stats.heap_totalsz_bytes / 4).next_multiple_of(PAGE);
    let area = map(len).map_err(|e| refused(e.to_string()))?;
    let mut iova: Vec<sys::rte_iova_t> = (0..len / PAGE).map(|i| (area as usize + i * PAGE) as u64).collect();
    // SAFETY: the area is `len` bytes of fresh private memory, aligned to PAGE, that nobody else has and that is never
    // unmapped; iova has one address a page.
    let added = unsafe {
        sys::rte_malloc_heap_memory_add(HEAP.as_ptr(), area, len, iova.as_mut_ptr(), iova.len() as u32, PAGE)
    };
    if added != 0 {
        let why = log::explain(version::strerror(version::errno()));
        // SAFETY: DPDK refused the area, so nobody uses it.
        unsafe { libc::munmap(area, len) };
        return Err(refused(why));
    }
    Ok(socket)
}

/// Maps `len` bytes, a multiple of PAGE, aligned to PAGE and zero, on huge pages where there are any: transparent ones,
/// and reserved ones on a system that has the others switched off.
pub(crate) fn map(len: usize) -> std::io::Result<*mut c_void> {
    let no_transparent = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .map_or(true, |enabled| enabled.contains("[never]"));
    if no_transparent {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // Reserved pages are taken out of the system's number here, so that none is missing when it is touched.
        // SAFETY: a fresh anonymous mapping touches nothing that exists.
        let area = unsafe {
            libc::mmap(std::ptr::null_mut(), len, prot, flags | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB, -1, 0)
        };
        if area != libc::MAP_FAILED {
            return Ok(area);
        }
    }
    // SAFETY: a fresh anonymous mapping touches nothing that exists; the two ends that are cut off lie inside it.
    unsafe {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let raw = libc::mmap(std::ptr::null_mut(), len + PAGE, prot, flags, -1, 0);
        if raw == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let head = raw.align_offset(PAGE);
        if head > 0 {
            libc::munmap(raw, head);
        }
        let area = raw.byte_add(head);
        if head < PAGE {
            libc::munmap(area.byte_add(len), PAGE - head);
        }
        libc::madvise(area, len, libc::MADV_HUGEPAGE);
        Ok(area)
    }
}
