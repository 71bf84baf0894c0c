//! What differs between DPDK releases (22.11 and later), in one place.
//!
//! Also the way to DPDK's error numbers: functions report by negative return value, by `rte_errno`, or both.

use chainline_dpdk_sys as sys;
use std::ffi::{CStr, c_int};

/// `rte_errno` of this thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: reads a thread-local integer.
    unsafe { sys::chainline_errno() }
}

/// The words for an error number, positive or negative.
pub(crate) fn strerror(errno: c_int) -> String {
    // SAFETY: rte_strerror returns a string that lives until this thread's next call; it is copied at once.
    let text = unsafe { CStr::from_ptr(sys::rte_strerror(errno.abs())) };
    text.to_string_lossy().into_owned()
}

/// The release that is loaded, for example `DPDK 22.11.11`.
#[must_use]
pub fn release() -> String {
    // rte_version() is a static inline function before 21.11 only; later ones export it.
    // SAFETY: returns a static string.
    let text = unsafe { CStr::from_ptr(sys::rte_version()) };
    text.to_string_lossy().into_owned()
}

/// What the driver says of a port.
pub(crate) fn dev_info(port: u16) -> Result<sys::rte_eth_dev_info, c_int> {
    // SAFETY: integers and pointers that may be null, for which zeros are valid.
    let mut info: sys::rte_eth_dev_info = unsafe { std::mem::zeroed() };
    // SAFETY: writes the local; an unknown port is refused. The call returns nothing before 19.11 only.
    match unsafe { sys::rte_eth_dev_info_get(port, &mut info) } {
        0 => Ok(info),
        errno => Err(errno),
    }
}
