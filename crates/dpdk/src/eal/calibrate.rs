//! Cuts the 100 ms that EAL sleeps to calibrate the time stamp counter.
//!
//! EAL compares the counter with the clock before and after one `nanosleep` and uses the time that really passed, so
//! a sleep that a signal ends early still gives the right frequency (EAL rounds it to 10 MHz). A timer
//! that signals this thread alone ends the sleep after 2 ms; handler, mask and timer go when [`Hurry`] is dropped.

use std::mem::zeroed;

const PERIOD_NS: i64 = 2_000_000;
const SIGNAL: libc::c_int = libc::SIGALRM;

/// While it lives, a signal interrupts this thread's sleeps every 2 ms.
pub(super) struct Hurry {
    timer: Option<libc::timer_t>,
    handler: libc::sigaction,
    mask: libc::sigset_t,
}

extern "C" fn ignore(_: libc::c_int) {}

impl Hurry {
    /// Best effort: without a timer, EAL only starts later.
    pub(super) fn start() -> Self {
        // SAFETY: sigaction, sigset_t and sigevent are plain data for which zeros are valid; the handler does nothing;
        // the pointers are to locals that outlive the calls.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
            let mut handler: libc::sigaction = zeroed();
            libc::sigaction(SIGNAL, &action, &mut handler);

            let mut unblock: libc::sigset_t = zeroed();
            libc::sigemptyset(&mut unblock);
            libc::sigaddset(&mut unblock, SIGNAL);
            let mut mask: libc::sigset_t = zeroed();
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &unblock, &mut mask);

            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = SIGNAL;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::ptr::null_mut();
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) == 0;
            if made {
                let period = libc::timespec { tv_sec: 0, tv_nsec: PERIOD_NS };
                let spec = libc::itimerspec { it_interval: period, it_value: period };
                libc::timer_settime(timer, 0, &spec, std::ptr::null_mut());
            }
            Self { timer: made.then_some(timer), handler, mask }
        }
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        // SAFETY: the timer is deleted once; then no more signal of it can be pending behind the no-op handler once the
        // mask is back, as deletion discards it; handler and mask are what `start` found.
        unsafe {
            if let Some(timer) = self.timer {
                libc::timer_delete(timer);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut());
            libc::sigaction(SIGNAL, &self.handler, std::ptr::null_mut());
        }
    }
}
