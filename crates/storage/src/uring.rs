//! Requests through io_uring (Axboe 2019, io_uring(7)).
//!
//! The host looks at the completion queue in each of its passes, which is a load from memory. For when it sleeps, the
//! ring has an eventfd on which a thread waits, whose only work is to ring the host's bell: a futex and a ring cannot be
//! waited for together before Linux 6.7 (docs/adr/0011).
//!
//! What makes it sound: a request's bytes and file are kept in `flying`, which nobody touches, until the kernel has
//! said that it is done; a ring that ends first waits for all, and gives the memory up if it cannot.

use crate::engine::{Done, Task, Waker, What};
use chainline_nf::Errno;
use io_uring::{IoUring, opcode, types};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub(crate) struct Uring {
    ring: IoUring,
    flying: Vec<Option<Task>>,
    free: Vec<u32>,
    /// In the submission queue, and not yet taken by the kernel.
    unsubmitted: usize,
    waiter: Waiter,
}

impl Uring {
    pub fn new(depth: u32, waker: Waker) -> io::Result<Self> {
        let ring = IoUring::new(depth.next_power_of_two())?;
        let waiter = Waiter::new(waker)?;
        ring.submitter().register_eventfd(waiter.event.as_raw_fd())?;
        let flying = (0..depth).map(|_| None).collect();
        Ok(Self { ring, flying, free: (0..depth).rev().collect(), unsubmitted: 0, waiter })
    }

    pub fn start(&mut self, task: Task) {
        // There is one: the engine counts.
        let Some(slot) = self.free.pop() else { return };
        let task = self.flying[slot as usize].insert(task);
        let fd = types::Fd(task.fd.as_raw_fd());
        let bytes = &mut task.bytes[task.from..task.to];
        let entry = match task.what {
            What::Read => opcode::Read::new(fd, bytes.as_mut_ptr(), bytes.len() as u32).offset(task.offset).build(),
            What::Write { durable } => opcode::Write::new(fd, bytes.as_ptr(), bytes.len() as u32)
                .offset(task.offset)
                .rw_flags(if durable { libc::RWF_DSYNC } else { 0 })
                .build(),
        };
        // SAFETY: the bytes lie on the heap and the file is open as long as the task is in `flying`. It leaves that
        // only in `reap`, after the kernel is done with it; see also `drop`. Nobody touches its bytes meanwhile.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(slot.into())) };
        // The queue has a place for each slot.
        debug_assert!(pushed.is_ok());
        self.unsubmitted += 1;
    }

    #[inline]
    pub fn submit(&mut self) {
        if self.unsubmitted > 0 {
            // A kernel that is short of memory takes them the next time.
            if let Ok(n) = self.ring.submit() {
                self.unsubmitted = self.unsubmitted.saturating_sub(n);
            }
        }
    }

    pub fn reap(&mut self) -> Option<Done> {
        let entry = self.ring.completion().next()?;
        let slot = entry.user_data() as u32;
        let task = self.flying.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(Done { task, result: u32::try_from(entry.result()).map_err(|_| Errno(-entry.result())) })
    }

    pub fn ready(&mut self) -> bool {
        self.unsubmitted > 0 || !self.ring.completion().is_empty()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Who sleeps in here is not to be woken any more.
        self.waiter.stop();
        while self.free.len() < self.flying.len() {
            while self.reap().is_some() {}
            let left = self.flying.len() - self.free.len();
            match self.ring.submit_and_wait(left.min(1)) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => {
                    // The kernel may still write there.
                    std::mem::forget(std::mem::take(&mut self.flying));
                    return;
                }
                _ => {}
            }
        }
    }
}

/// The thread that rings when a request is done.
struct Waiter {
    event: Arc<OwnedFd>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Waiter {
    fn new(waker: Waker) -> io::Result<Self> {
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let ends = Arc::new(AtomicBool::new(false));
        let thread = {
            let (event, ends) = (event.clone(), ends.clone());
            std::thread::Builder::new().name("storage".into()).spawn(move || {
                let mut count = [0; 8];
                while !ends.load(Ordering::Acquire) {
                    match rustix::io::read(event.as_fd(), &mut count) {
                        Ok(_) => waker(),
                        Err(rustix::io::Errno::INTR) => {}
                        Err(_) => break,
                    }
                }
            })?
        };
        Ok(Self { event, ends, thread: Some(thread) })
    }

    fn stop(&mut self) {
        self.ends.store(true, Ordering::Release);
        let _ = rustix::io::write(self.event.as_fd(), &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.stop();
    }
}
