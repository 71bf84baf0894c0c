//! Starts EAL without loading its drivers, in processes that have tables and no ports.
//!
//! A shared EAL opens every library of its driver folder (some 130 in Debian), also under `--no-pci`, and has no
//! option against it: 40 ms of a start of 55. It looks for the folder with `stat64` first (`eal_plugins_init`). So this
//! process's `stat64`, which EAL binds to before libc's, says "no such folder" to that one question, while a [`Skip`]
//! lives; everything else is passed on as it is. What tables need of the folder, the driver of memory pools, is loaded
//! afterwards.

use libc::{c_char, c_int};
use std::cell::RefCell;
use std::ffi::{CStr, CString};

thread_local! {
    /// `Some` while this thread starts EAL without drivers: the folder, once EAL has asked for it.
    static SKIPPED: RefCell<Option<Option<CString>>> = const { RefCell::new(None) };
}

/// What tables need: `rte_fib` has its nodes in a memory pool over a ring.
const NEEDED: &str = "librte_mempool_ring.so";

/// While it lives, EAL finds no drivers when this thread starts it.
pub(super) struct Skip(());

impl Skip {
    pub(super) fn start() -> Self {
        SKIPPED.with(|s| *s.borrow_mut() = Some(None));
        Self(())
    }

    /// EAL runs: loads what tables need.
    ///
    /// # Errors
    /// What the loader said.
    pub(super) fn finish(self) -> Result<(), String> {
        let Some(folder) = SKIPPED.with(|s| s.borrow_mut().take()).flatten() else {
            // It asked for no folder: its drivers are linked into it.
            return Ok(());
        };
        let path = [folder.as_bytes(), b"/", NEEDED.as_bytes()].concat();
        let path = CString::new(path).map_err(|e| e.to_string())?;
        // SAFETY: a NUL-terminated path; the library is DPDK's own, whose constructor registers a pool driver. It is
        // never unloaded.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            // SAFETY: after a failure, dlerror gives a NUL-terminated text that is valid until the next call.
            let words = unsafe { libc::dlerror() };
            // SAFETY: as above.
            let words = (!words.is_null()).then(|| unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned());
            return Err(words.unwrap_or_else(|| format!("{} cannot be loaded", path.to_string_lossy())));
        }
        Ok(())
    }
}

impl Drop for Skip {
    fn drop(&mut self) {
        SKIPPED.with(|s| *s.borrow_mut() = None);
    }
}

/// A folder of drivers: `…/dpdk/pmds-23.0`.
fn is_driver_folder(path: &CStr) -> bool {
    let bytes = path.to_bytes();
    bytes.windows(5).rposition(|w| w == b"pmds-").is_some_and(|at| !bytes[at..].contains(&b'/'))
}

/// `stat64`, but for the question above.
///
/// # Safety
/// As for libc's: `path` is NUL-terminated, `found` points to a `stat64`.
#[unsafe(no_mangle)]
unsafe extern "C" fn stat64(path: *const c_char, found: *mut libc::stat64) -> c_int {
    // A thread that ends has no thread-locals left, and starts no EAL either.
    let skipping = SKIPPED.try_with(|s| s.try_borrow().is_ok_and(|s| s.is_some())).unwrap_or(false);
    if skipping && !path.is_null() {
        // SAFETY: the caller's promise.
        let path = unsafe { CStr::from_ptr(path) };
        if is_driver_folder(path) {
            SKIPPED.with(|s| *s.borrow_mut() = Some(Some(path.to_owned())));
            // SAFETY: errno is this thread's own.
            unsafe { *libc::__errno_location() = libc::ENOENT };
            return -1;
        }
    }
    // SAFETY: what libc's stat64 is: fstatat64 of a path from the working directory, with the caller's arguments.
    unsafe { libc::fstatat64(libc::AT_FDCWD, path, found, 0) }
}

#[cfg(test)]
mod tests {
    use super::is_driver_folder;

    #[test]
    fn only_the_folder_itself_is_kept_from_eal() {
        assert!(is_driver_folder(c"/usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0"));
        assert!(!is_driver_folder(c"/usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_tap.so"));
        assert!(!is_driver_folder(c"/usr/lib"));
    }
}
