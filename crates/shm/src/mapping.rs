//! A memfd and its mapping, on the largest pages to be had.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

const HUGE: usize = 2 << 20;

/// The pages that a mapping stands on, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// 2 MiB pages that were reserved (`vm.nr_hugepages`).
    Huge,
    /// Pages of 2 MiB that the kernel put together on request.
    Transparent,
    /// Pages of 4 KiB.
    Small,
}

/// What may go wrong.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The kernel refused.
    #[error("shared memory of {len} bytes: {step}: {errno}")]
    Kernel {
        /// Which call.
        step: &'static str,
        /// Bytes asked for.
        len: usize,
        /// Its answer.
        errno: Errno,
    },
    /// A file descriptor from another process is not what it should be.
    #[error("shared memory from another process: {0}")]
    Foreign(&'static str),
}

/// Shared memory, mapped readable and writable for as long as the value lives.
#[derive(Debug)]
pub struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
    /// Start and length of the address space to give back, alignment slack included.
    reserved: (NonNull<u8>, usize),
    fd: OwnedFd,
    pages: PageKind,
}

// SAFETY: the mapping is plain memory that stays mapped until drop; all access goes through atomics or through
// slots whose exclusive use `Slots` enforces.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// New memory of at least `len` bytes, zeroed and sealed against shrinking and growing (a process that maps
    /// it could otherwise be killed by another one truncating the file). `large` asks for large pages.
    ///
    /// # Errors
    /// When the kernel has no memory or no file descriptor left.
    pub fn create(name: &str, len: usize, large: bool) -> Result<Self, MapError> {
        let err = |step| move |errno| MapError::Kernel { step, len, errno };
        if large && free_huge_pages() >= len.div_ceil(HUGE) {
            let rounded = len.next_multiple_of(HUGE);
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
            // Somebody else may take the pages between the look and the call: then go on with small ones.
            if let Ok(fd) = memfd_create(name, flags)
                && ftruncate(&fd, rounded as u64).is_ok()
                && let Ok(mapping) = Self::map(fd, rounded, PageKind::Huge)
            {
                seal(&mapping.fd).map_err(err("fcntl(F_ADD_SEALS)"))?;
                return Ok(mapping);
            }
        }
        let rounded = if large { len.next_multiple_of(HUGE) } else { len.next_multiple_of(4096) };
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(err("memfd_create"))?;
        ftruncate(&fd, rounded as u64).map_err(err("ftruncate"))?;
        seal(&fd).map_err(err("fcntl(F_ADD_SEALS)"))?;
        let pages = if large { PageKind::Transparent } else { PageKind::Small };
        Self::map(fd, rounded, pages)
    }

    /// Maps memory that another process created and whose length must be at least `min_len`.
    ///
    /// # Errors
    /// When it is shorter, or could be made shorter while it is in use, or cannot be mapped.
    pub fn open(fd: OwnedFd, min_len: usize, pages: PageKind) -> Result<Self, MapError> {
        let len = fstat(&fd).map_err(|errno| MapError::Kernel { step: "fstat", len: min_len, errno })?.st_size;
        let len = usize::try_from(len).map_err(|_| MapError::Foreign("negative length"))?;
        if len < min_len || len == 0 {
            return Err(MapError::Foreign("shorter than announced"));
        }
        match fcntl_get_seals(&fd) {
            Ok(seals) if seals.contains(SealFlags::SHRINK) => Self::map(fd, len, pages),
            _ => Err(MapError::Foreign("not sealed against shrinking")),
        }
    }

    fn map(fd: OwnedFd, len: usize, pages: PageKind) -> Result<Self, MapError> {
        let err = |step| move |errno| MapError::Kernel { step, len, errno };
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        if pages == PageKind::Small {
            // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
            let ptr =
                unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, &fd, 0) }.map_err(err("mmap"))?;
            let ptr = NonNull::new(ptr.cast::<u8>()).ok_or(MapError::Foreign("mapped at zero"))?;
            return Ok(Self { ptr, len, reserved: (ptr, len), fd, pages });
        }
        // Large pages need an aligned address: reserve more, then map over the aligned part of it.
        let reserve = len + HUGE;
        // SAFETY: as above.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), reserve, ProtFlags::empty(), MapFlags::PRIVATE) }
            .map_err(err("mmap"))?
            .cast::<u8>();
        let aligned = base.wrapping_add(base.align_offset(HUGE));
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: `aligned..aligned + len` lies inside the reservation just made, which nobody else knows of.
        if let Err(errno) = unsafe { mmap(aligned.cast(), len, prot, flags, &fd, 0) } {
            // SAFETY: gives back exactly that reservation.
            let _ = unsafe { munmap(base.cast(), reserve) };
            return Err(MapError::Kernel { step: "mmap", len, errno });
        }
        let mut found = pages;
        if pages == PageKind::Transparent {
            // Both are requests: what they brought is in `found`. MADV_COLLAPSE (Linux 6.1) works even where
            // `shmem_enabled` says never, as it is an explicit request.
            // SAFETY: advice on our own mapping; it changes no content.
            unsafe {
                let _ = madvise(aligned.cast(), len, Advice::LinuxHugepage);
                let _ = madvise(aligned.cast(), len, Advice::LinuxPopulateWrite);
                if libc::madvise(aligned.cast(), len, libc::MADV_COLLAPSE) != 0 {
                    found = PageKind::Small;
                }
            }
        }
        let (Some(ptr), Some(base)) = (NonNull::new(aligned), NonNull::new(base)) else {
            return Err(MapError::Foreign("mapped at zero"));
        };
        Ok(Self { ptr, len, reserved: (base, reserve), fd, pages: found })
    }

    /// Length in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The pages it stands on.
    #[must_use]
    pub fn pages(&self) -> PageKind {
        self.pages
    }

    /// Address of the first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The memfd, to be handed to another process.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A second handle of the memfd.
    ///
    /// # Errors
    /// When no file descriptor is left.
    pub fn dup_fd(&self) -> std::io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// A reference to a `T` at `offset`. Only for types of atomics, which are valid whatever the bytes are.
    pub(crate) fn atomics<T: Atomics>(&self, offset: usize) -> Option<&T> {
        let end = offset.checked_add(size_of::<T>())?;
        (end <= self.len && offset.is_multiple_of(align_of::<T>())).then(|| {
            // SAFETY: in bounds and aligned (mappings start on a page); `Atomics` types are valid for all bit
            // patterns and are only ever read and written atomically.
            unsafe { &*self.ptr.as_ptr().add(offset).cast::<T>() }
        })
    }

    /// As [`Mapping::atomics`], `n` of them in a row.
    pub(crate) fn atomic_slice<T: Atomics>(&self, offset: usize, n: usize) -> Option<&[T]> {
        let end = offset.checked_add(size_of::<T>().checked_mul(n)?)?;
        (end <= self.len && offset.is_multiple_of(align_of::<T>())).then(|| {
            // SAFETY: as in `atomics`.
            unsafe { std::slice::from_raw_parts(self.ptr.as_ptr().add(offset).cast::<T>(), n) }
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: gives back what `map` reserved; `&mut self` shows that nobody borrows from it.
        let _ = unsafe { munmap(self.reserved.0.as_ptr().cast(), self.reserved.1) };
    }
}

/// Types made of atomics and nothing else.
///
/// # Safety
/// Every bit pattern is a valid value, and all fields have interior mutability.
pub(crate) unsafe trait Atomics {}
// SAFETY: an atomic integer.
unsafe impl Atomics for std::sync::atomic::AtomicU32 {}
// SAFETY: an atomic integer.
unsafe impl Atomics for std::sync::atomic::AtomicU64 {}

fn seal(fd: &OwnedFd) -> Result<(), Errno> {
    fcntl_add_seals(fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
}

fn free_huge_pages() -> usize {
    std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
        .ok()
        .and_then(|s| s.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_memory_that_can_shrink() {
        let fd = memfd_create("t", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, 4096).unwrap();
        assert!(matches!(Mapping::open(fd, 4096, PageKind::Small), Err(MapError::Foreign(_))));
    }

    #[test]
    fn refuses_memory_that_is_too_short() {
        let m = Mapping::create("t", 4096, false).unwrap();
        assert!(matches!(Mapping::open(m.dup_fd().unwrap(), 8192, PageKind::Small), Err(MapError::Foreign(_))));
    }

    #[test]
    fn two_mappings_share_content() {
        let a = Mapping::create("t", 3 << 20, true).unwrap();
        let b = Mapping::open(a.dup_fd().unwrap(), 3 << 20, a.pages()).unwrap();
        let (x, y): (&std::sync::atomic::AtomicU64, &std::sync::atomic::AtomicU64) =
            (a.atomics(4096).unwrap(), b.atomics(4096).unwrap());
        x.store(42, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(y.load(std::sync::atomic::Ordering::Relaxed), 42);
        assert!(a.atomics::<std::sync::atomic::AtomicU64>(a.len()).is_none());
    }
}
