//! DPDK's log: kept for error messages instead of going to stderr.
//!
//! EAL and the drivers explain a failure in the log only, so the latest text is kept here, bounded, until an error
//! takes it along. Any thread may write.

use chainline_dpdk_sys as sys;
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Enough for the handful of lines that belong to one failure.
const KEPT_BYTES: usize = 4096;

static KEPT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<u8>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the log here from now on.
pub(crate) fn capture() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `sink` has the signature that the shim declares; the stream is never closed.
        unsafe {
            let stream = sys::chainline_log_stream(Some(sink));
            if !stream.is_null() {
                sys::rte_openlog_stream(stream);
            }
        }
    });
}

/// Sends the words of the libraries that `net_af_xdp` uses the same way. They are loaded with the drivers, and write to
/// stderr by themselves, so this follows EAL's start.
pub(crate) fn capture_xdp() {
    for (library, setter) in [
        (c"libbpf.so.1", c"libbpf_set_print"),
        (c"libbpf.so.0", c"libbpf_set_print"),
        (c"libxdp.so.1", c"libxdp_set_print"),
    ] {
        // SAFETY: both strings are NUL-terminated. RTLD_NOLOAD finds the library only if a driver has loaded it, and
        // drivers stay loaded. The setter takes a printer and returns the one before.
        unsafe {
            let library = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() {
                continue;
            }
            let symbol = libc::dlsym(library, setter.as_ptr());
            if !symbol.is_null() {
                let set: unsafe extern "C" fn(*mut c_void) -> *mut c_void = std::mem::transmute(symbol);
                set(sys::chainline_log_printer());
            }
        }
    }
}

/// Whether drivers explain their errors. They do while a port is attached; afterwards some log every frame that they
/// treat in a way of their own (`net_af_packet` each VLAN tag), which the fast path has no time for.
pub(crate) fn drivers_speak(speak: bool) {
    // RTE_LOG_ERR and RTE_LOG_EMERG of rte_log.h.
    let level = if speak { 4 } else { 1 };
    // SAFETY: the pattern is a NUL-terminated string.
    unsafe { sys::rte_log_set_level_pattern(c"pmd.net.*".as_ptr(), level) };
}

/// What was logged since the last call, as lines joined by `; `, and empties it.
pub(crate) fn take() -> String {
    let bytes = std::mem::take(&mut *kept());
    let text = String::from_utf8_lossy(&bytes);
    text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ")
}

/// `message`, and what DPDK said about it.
pub(crate) fn explain(message: String) -> String {
    let said = take();
    if said.is_empty() { message } else { format!("{message} ({said})") }
}

unsafe extern "C" fn sink(text: *const c_char, len: usize) {
    if text.is_null() {
        return;
    }
    // SAFETY: stdio hands over `len` readable bytes.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    let mut kept = kept();
    let text = &text[text.len().saturating_sub(KEPT_BYTES)..];
    let excess = (kept.len() + text.len()).saturating_sub(KEPT_BYTES);
    kept.drain(..excess);
    kept.extend_from_slice(text);
}
