//! Keeps IPv4 fragments apart on `net_af_packet`.
//!
//! The driver (DPDK 22.11, `rte_pmd_init_internals`) joins a fan-out group with `PACKET_FANOUT_FLAG_DEFRAG`, always and
//! without an option to leave that out: the kernel then puts fragments together before they reach the ring, whose frames
//! hold no whole datagram, and cuts what does not fit without a word (packet(7)). A dataplane must see the frames of the
//! wire, and a group cannot be changed once it is joined. So this process's `setsockopt`, which the driver's call
//! binds to before libc's, takes that one flag out and passes everything else on as it is.

use libc::{PACKET_FANOUT, SOL_PACKET, c_int, c_void, socklen_t};

/// `linux/if_packet.h`; the upper half of the option's value holds type and flags.
const PACKET_FANOUT_FLAG_DEFRAG: u32 = 0x8000 << 16;

/// `setsockopt(2)`, but for the flag above.
///
/// # Safety
/// As for libc's: `value` points to `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    mut value: *const c_void,
    len: socklen_t,
) -> c_int {
    let apart;
    if level == SOL_PACKET && name == PACKET_FANOUT && len as usize == size_of::<u32>() && !value.is_null() {
        // SAFETY: the caller's promise, and the length is that of a u32.
        apart = unsafe { value.cast::<u32>().read_unaligned() } & !PACKET_FANOUT_FLAG_DEFRAG;
        value = (&raw const apart).cast();
    }
    // SAFETY: the system call that libc's function makes, with the caller's arguments; the kernel checks `value`, or it
    // is our local of the same length. A failure leaves its code in errno and gives -1, as that function does.
    unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, value, len) as c_int }
}
