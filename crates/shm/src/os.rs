//! System calls that no safe wrapper covers. They stand here because this crate may say `unsafe`.

use rustix::io::Errno;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What `sched_setattr(2)` sets for a task, in the kernel's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskAttr {
    /// A `SCHED_*` number.
    pub policy: u32,
    /// Nice value; counts with `SCHED_OTHER` and `SCHED_BATCH`.
    pub nice: i32,
    /// Static priority; counts with `SCHED_FIFO` and `SCHED_RR`.
    pub priority: u32,
    /// Nanoseconds: the budget of `SCHED_DEADLINE`; the slice of the fair policies since Linux 6.12, 0 for the default.
    pub runtime_ns: u64,
    /// Nanoseconds; `SCHED_DEADLINE` only.
    pub deadline_ns: u64,
    /// Nanoseconds; `SCHED_DEADLINE` only.
    pub period_ns: u64,
}

/// Sets a thread's policy and all that belongs to it; `tid` 0 is the calling thread.
///
/// # Errors
/// The kernel's answer.
pub fn set_task_attr(tid: i32, attr: &TaskAttr) -> Result<(), Errno> {
    // SAFETY: all-zero is a valid sched_attr.
    let mut raw: libc::sched_attr = unsafe { std::mem::zeroed() };
    raw.size = size_of::<libc::sched_attr>() as u32;
    raw.sched_policy = attr.policy;
    raw.sched_nice = attr.nice;
    raw.sched_priority = attr.priority;
    raw.sched_runtime = attr.runtime_ns;
    raw.sched_deadline = attr.deadline_ns;
    raw.sched_period = attr.period_ns;
    // SAFETY: the kernel reads `size` bytes of `raw` and changes nothing in this process's memory.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const raw, 0u32) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Reads back what [`set_task_attr`] sets. Kernels that have no custom slices say 0 as `runtime_ns` of a fair policy.
///
/// # Errors
/// The kernel's answer.
pub fn task_attr(tid: i32) -> Result<TaskAttr, Errno> {
    // SAFETY: all-zero is a valid sched_attr.
    let mut raw: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes into `raw`, which has as many.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut raw, size, 0u32) };
    if result != 0 {
        return Err(last_error());
    }
    Ok(TaskAttr {
        policy: raw.sched_policy,
        nice: raw.sched_nice,
        priority: raw.sched_priority,
        runtime_ns: raw.sched_runtime,
        deadline_ns: raw.sched_deadline,
        period_ns: raw.sched_period,
    })
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
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
    pub const OTHER: u32 = libc::SCHED_OTHER as u32;
    /// `SCHED_BATCH`
    pub const BATCH: u32 = libc::SCHED_BATCH as u32;
    /// `SCHED_IDLE`
    pub const IDLE: u32 = libc::SCHED_IDLE as u32;
    /// `SCHED_FIFO`
    pub const FIFO: u32 = libc::SCHED_FIFO as u32;
    /// `SCHED_RR`
    pub const RR: u32 = libc::SCHED_RR as u32;
    /// `SCHED_DEADLINE`
    pub const DEADLINE: u32 = libc::SCHED_DEADLINE as u32;
}
