//! Shared memory and the kernel's futex.

use super::Side;
use crate::mapping::{MapError, Mapping};
use crate::ring::Header;
use rustix::thread::futex;
use std::sync::Arc;
pub use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// A full fence.
#[inline]
pub fn full_fence(_: Side) {
    fence(Ordering::SeqCst);
}

/// The memory of a bell: one word.
#[derive(Clone, Debug)]
pub struct BellMemory(Arc<Mapping>);

impl BellMemory {
    pub fn create() -> Result<Self, MapError> {
        Ok(Self(Arc::new(Mapping::create("chainline-bell", 4096, false)?)))
    }

    pub fn over(map: Arc<Mapping>) -> Result<Self, MapError> {
        map.atomics::<AtomicU32>(0).ok_or(MapError::Foreign("bell too short"))?;
        Ok(Self(map))
    }

    pub fn mapping(&self) -> &Mapping {
        &self.0
    }

    #[inline]
    pub fn word(&self) -> &AtomicU32 {
        // SAFETY: both constructors checked that the word is there.
        unsafe { &*self.0.as_ptr().cast::<AtomicU32>() }
    }

    /// Sleeps while the word is `expected`, until woken or until `timeout` is over. May return early.
    pub fn wait(&self, expected: u32, timeout: Duration) {
        let timeout = futex::Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
        let _ = futex::wait(self.word(), futex::Flags::empty(), expected, Some(&timeout));
    }

    /// Wakes who sleeps.
    pub fn wake(&self) {
        let _ = futex::wake(self.word(), futex::Flags::empty(), 1);
    }
}

/// The memory of a queue: the header, then `capacity` descriptors of two words.
#[derive(Clone, Debug)]
pub struct RingMemory(Arc<Mapping>);

impl RingMemory {
    const SLOT: usize = 16;

    pub const fn bytes(capacity: u32) -> usize {
        size_of::<Header>() + capacity as usize * Self::SLOT
    }

    pub fn create(capacity: u32) -> Result<Self, MapError> {
        Ok(Self(Arc::new(Mapping::create("chainline-queue", Self::bytes(capacity), false)?)))
    }

    pub fn over(map: Arc<Mapping>, capacity: u32) -> Result<Self, MapError> {
        if map.len() < Self::bytes(capacity) {
            return Err(MapError::Foreign("queue capacity does not fit"));
        }
        Ok(Self(map))
    }

    pub fn mapping(&self) -> &Mapping {
        &self.0
    }

    #[inline]
    pub fn header(&self) -> &Header {
        // SAFETY: both constructors checked the length; a mapping starts on a page; only atomics are behind the reference.
        unsafe { &*self.0.as_ptr().cast::<Header>() }
    }

    /// The words of a place; `place` is below the capacity.
    #[inline]
    pub fn slot(&self, place: u32) -> (&AtomicU64, &AtomicU64) {
        debug_assert!(Self::bytes(place + 1) <= self.0.len());
        let at = size_of::<Header>() + place as usize * Self::SLOT;
        // SAFETY: both constructors checked that `capacity` descriptors fit behind the header, and the queue masks its
        // indexes with it; words are 8-byte aligned.
        unsafe {
            let p = self.0.as_ptr().add(at).cast::<AtomicU64>();
            (&*p, &*p.add(1))
        }
    }
}
