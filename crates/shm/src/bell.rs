//! A doorbell: how a sleeping instance is woken.
//!
//! The sleeper announces itself, looks at its queues once more, and sleeps. Whoever gives it work publishes
//! the work, and looks whether it is asleep. Both put a full fence between their store and their load, so at
//! least one of them sees the other: no wake-up is lost (the store-buffering pattern; `handover/model.rs` checks it).

use crate::mapping::MapError;
#[cfg(not(loom))]
use crate::mapping::Mapping;
use crate::sync::{AtomicU32, BellMemory, Side, full_fence};
#[cfg(not(loom))]
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// The doorbell of one instance, shared with its neighbours and the manager.
#[derive(Clone, Debug)]
pub struct Bell {
    memory: BellMemory,
}

impl Bell {
    /// A new bell.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn create() -> Result<Self, MapError> {
        Ok(Self { memory: BellMemory::create()? })
    }

    /// A bell in memory from another process.
    ///
    /// # Errors
    /// When the memory is too short.
    #[cfg(not(loom))]
    pub fn over(map: Arc<Mapping>) -> Result<Self, MapError> {
        Ok(Self { memory: BellMemory::over(map)? })
    }

    /// The memory.
    #[cfg(not(loom))]
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        self.memory.mapping()
    }

    #[inline]
    fn word(&self) -> &AtomicU32 {
        self.memory.word()
    }

    /// First step of falling asleep: from now on whoever has work rings. Look for work once more afterwards.
    pub fn announce_sleep(&self) {
        self.word().store(ASLEEP, Ordering::Relaxed);
        full_fence(Side::Sleeper);
    }

    /// There was work after all.
    pub fn stay_awake(&self) {
        self.word().store(AWAKE, Ordering::Relaxed);
    }

    /// Last step: sleeps until rung or until `timeout` is over.
    pub fn sleep(&self, timeout: Duration) {
        // An early return (a signal, a word that changed) is harmless: the caller looks at its queues.
        self.memory.wait(ASLEEP, timeout);
        self.word().store(AWAKE, Ordering::Relaxed);
    }

    /// Whether the owner sleeps. Exact only after [`Bell::publish_fence`].
    #[inline]
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.word().load(Ordering::Relaxed) == ASLEEP
    }

    /// To be called between publishing work and [`Bell::is_asleep`].
    #[inline]
    pub fn publish_fence() {
        full_fence(Side::Waker);
    }

    /// Wakes the owner if it sleeps. Returns whether a system call was made.
    pub fn ring(&self) -> bool {
        let was_asleep = self.word().swap(AWAKE, Ordering::AcqRel) == ASLEEP;
        if was_asleep {
            self.wake();
        }
        was_asleep
    }

    /// Wakes the owner whatever the word says: for the manager, which does not trust it. What was stored before is seen
    /// by the owner when it wakes, or before it sleeps.
    pub fn wake(&self) {
        full_fence(Side::Waker);
        self.word().store(AWAKE, Ordering::Release);
        self.memory.wake();
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn no_wake_up_is_lost() {
        // The sleeper waits ten seconds if it misses one ring; 20,000 rounds then never end in time.
        let (bell, work, done) = (Bell::create().unwrap(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let sleeper = {
            let (bell, work, done) = (bell.clone(), work.clone(), done.clone());
            std::thread::spawn(move || {
                let mut seen = 0;
                while seen < 20_000 {
                    if work.load(Ordering::Acquire) > seen {
                        seen += 1;
                        done.store(seen, Ordering::Release);
                        continue;
                    }
                    bell.announce_sleep();
                    if work.load(Ordering::Acquire) > seen {
                        bell.stay_awake();
                        continue;
                    }
                    bell.sleep(Duration::from_secs(3600));
                }
            })
        };
        for i in 1..=20_000 {
            work.store(i, Ordering::Release);
            Bell::publish_fence();
            if bell.is_asleep() {
                bell.ring();
            }
            while done.load(Ordering::Acquire) < i {
                std::hint::spin_loop();
                std::thread::yield_now();
            }
        }
        sleeper.join().unwrap();
    }
}
