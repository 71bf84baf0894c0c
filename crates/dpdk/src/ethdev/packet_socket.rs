//! What `net_af_packet` does with its sockets that loses or keeps frames (DPDK 22.11, `rte_pmd_init_internals`,
//! `eth_af_packet_tx`). It has no arguments for either, so this process's `setsockopt`, which the driver's calls bind to before
//! libc's, takes out what must not be and remembers the sockets; everything else it passes on as it is.
//!
//! *Fan-out.* It joins a fan-out group with `PACKET_FANOUT_FLAG_DEFRAG`, always: the kernel then puts fragments together before
//! they reach the ring, whose frames hold no whole datagram, and cuts what does not fit without a word (packet(7)). A
//! dataplane must see the frames of the wire, and a group cannot be changed once it is joined.
//!
//! *The end of a ring.* It puts frames into a ring and calls `sendto` once, without waiting. If the frames that are under way fill
//! the socket's send buffer (200 KiB: some 250 frames), the kernel leaves the rest in the ring, and nobody calls again before
//! there is another packet to send. A larger send buffer would be no better: veth drops what is more than 256 frames.

use libc::{MSG_DONTWAIT, PACKET_FANOUT, PACKET_TX_RING, SOL_PACKET, TIOCOUTQ, c_int, c_void, socklen_t};
use std::sync::Mutex;

/// `linux/if_packet.h`; the upper half of the option's value holds type and flags.
const PACKET_FANOUT_FLAG_DEFRAG: u32 = 0x8000 << 16;

/// Sockets with a ring for sending, until whoever attaches a device asks for them.
static WITH_RING: Mutex<Vec<c_int>> = Mutex::new(Vec::new());

/// The sockets that got a ring since this was last asked.
pub(super) fn take() -> Vec<c_int> {
    WITH_RING.lock().map(|mut sockets| std::mem::take(&mut *sockets)).unwrap_or_default()
}

/// Has the kernel send what is in a socket's ring, as far as it takes it. Returns whether frames are under way: if none are, the
/// ring is empty.
pub(super) fn kick(socket: c_int) -> bool {
    let mut bytes: c_int = 0;
    // SAFETY: no memory is passed to the first; frames that the kernel refuses stay in the ring, and there is nothing else to
    // do with an error. The second writes an int (socket(7), SIOCOUTQ), our local, or fails and leaves 0.
    unsafe {
        libc::send(socket, std::ptr::null(), 0, MSG_DONTWAIT);
        libc::ioctl(socket, TIOCOUTQ, &raw mut bytes);
    }
    bytes > 0
}

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
    let result = unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, value, len) as c_int };
    if level == SOL_PACKET
        && name == PACKET_TX_RING
        && result == 0
        && let Ok(mut sockets) = WITH_RING.lock()
    {
        sockets.push(fd);
    }
    result
}
