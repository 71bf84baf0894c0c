//! A lock in shared memory that outlives its holder.
//!
//! The word says who holds it. Nobody finds out by itself whether a holder lives: the manager, which waits for dead
//! processes, takes the lock from whoever has died ([`Lock::take_from`]). A holder that lives and does not go on (it was
//! stopped, or lies) keeps others waiting for [`PATIENCE`] a burst and no longer.

use crate::sync::AtomicU32;
use rustix::thread::futex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// The longest wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// The longest sleep: a wake-up that a dying holder left out costs no more.
const NAP: Duration = Duration::from_millis(10);
/// Looks before the first sleep; what is done under the lock takes a microsecond or two.
const LOOKS: u32 = 200;
/// Somebody sleeps.
const WAITED_FOR: u32 = 1 << 31;

/// The lock over its word: 0 is free.
pub(crate) struct Lock<'a>(pub &'a AtomicU32);

/// Held until it is dropped.
pub(crate) struct Held<'a> {
    word: &'a AtomicU32,
    me: u32,
}

impl<'a> Lock<'a> {
    /// Takes it for `me`, which is not 0; none if that took too long.
    #[inline]
    pub fn take(&self, me: u32) -> Option<Held<'a>> {
        let held = Held { word: self.0, me };
        if self.0.compare_exchange(0, me, Acquire, Relaxed).is_ok() || self.wait(me) {
            return Some(held);
        }
        std::mem::forget(held);
        None
    }

    #[cold]
    fn wait(&self, me: u32) -> bool {
        for _ in 0..LOOKS {
            std::hint::spin_loop();
            if self.0.load(Relaxed) == 0 && self.0.compare_exchange(0, me, Acquire, Relaxed).is_ok() {
                return true;
            }
        }
        // The lock is contended: the clock is no matter now. The holder may need this very core.
        let until = Instant::now() + PATIENCE;
        loop {
            let found = self.0.load(Relaxed);
            if found & !WAITED_FOR == 0 {
                // Others may sleep still: who has slept wakes the next.
                if self.0.compare_exchange(found, me | WAITED_FOR, Acquire, Relaxed).is_ok() {
                    return true;
                }
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let announced = found | WAITED_FOR;
            if found == announced || self.0.compare_exchange(found, announced, Relaxed, Relaxed).is_ok() {
                let nap = left.min(NAP);
                let nap = futex::Timespec { tv_sec: nap.as_secs() as _, tv_nsec: nap.subsec_nanos().into() };
                // Woken, interrupted, over, or the word has changed: the loop looks again.
                let _ = futex::wait(self.0, futex::Flags::empty(), announced, Some(&nap));
            }
        }
    }

    /// Takes it from one that is dead, if that one has it.
    pub fn take_from(&self, dead: u32) -> bool {
        release(self.0, dead)
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.word.compare_exchange(self.me, 0, Release, Relaxed).is_err() {
            release(self.word, self.me);
        }
    }
}

/// Frees the lock if `holder` has it.
#[cold]
fn release(word: &AtomicU32, holder: u32) -> bool {
    loop {
        let found = word.load(Relaxed);
        if found & !WAITED_FOR != holder {
            return false;
        }
        if word.compare_exchange(found, 0, Release, Relaxed).is_ok() {
            if found & WAITED_FOR != 0 {
                let _ = futex::wake(word, futex::Flags::empty(), 1);
            }
            return true;
        }
    }
}
