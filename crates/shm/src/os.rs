//! System calls that no safe wrapper covers. They stand here because this crate may say `unsafe`.

use rustix::io::Errno;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Sets the scheduling policy and real-time priority of the calling thread (`sched_setscheduler(2)`); `policy`
/// is a `SCHED_*` number, `priority` is 0 for the policies without one.
///
/// # Errors
/// The kernel's answer.
pub fn set_scheduler(policy: i32, priority: i32) -> Result<(), Errno> {
    // SAFETY: all-zero is a valid sched_param on every libc (some have more fields than the priority).
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    // SAFETY: reads `param`, changes the calling thread only.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const param) } == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
    }
}

/// Lets a process that `command` starts have the three standard streams and no other open file of this one. Rust's own
/// files are closed at `exec` anyway; those of C libraries are not, among them DPDK's packet sockets and the memory of
/// its mbuf headers.
pub fn share_no_files(command: &mut Command) {
    let close_later = || {
        // SAFETY: changes a flag of this process's descriptors above the standard streams; closes none of them now.
        // A kernel before 5.11 refuses, and leaves everything as it was.
        unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        Ok(())
    };
    // SAFETY: between fork and exec, when only async-signal-safe calls are sound: it is one system call, and allocates
    // nothing.
    unsafe { command.pre_exec(close_later) };
}

/// `SCHED_*` numbers (`sched(7)`).
pub mod policy {
    /// `SCHED_OTHER`
    pub const OTHER: i32 = libc::SCHED_OTHER;
    /// `SCHED_BATCH`
    pub const BATCH: i32 = libc::SCHED_BATCH;
    /// `SCHED_IDLE`
    pub const IDLE: i32 = libc::SCHED_IDLE;
    /// `SCHED_FIFO`
    pub const FIFO: i32 = libc::SCHED_FIFO;
    /// `SCHED_RR`
    pub const RR: i32 = libc::SCHED_RR;
}
