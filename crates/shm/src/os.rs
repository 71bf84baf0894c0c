//! System calls that no safe wrapper covers. They stand here because this crate may say `unsafe`.

use rustix::io::Errno;

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
