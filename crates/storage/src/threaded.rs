//! Requests through a thread that waits for them one by one: where io_uring is not permitted, and to cut files.

use crate::engine::{Done, Task, Waker, What};
use chainline_nf::Errno;
use rustix::io::{IoSlice, IoSliceMut, ReadWriteFlags};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

pub(crate) struct Threaded {
    /// Bounded, so that nothing is allocated for a message.
    requests: Option<SyncSender<Task>>,
    done: Receiver<Done>,
    /// Requests done and not yet reaped.
    waiting: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Threaded {
    pub fn new(depth: u32, waker: Waker) -> io::Result<Self> {
        let depth = depth as usize;
        let (requests, inbox) = sync_channel::<Task>(depth);
        let (outbox, done) = sync_channel(depth);
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = waiting.clone();
        let thread = std::thread::Builder::new().name("storage".into()).spawn(move || {
            while let Ok(mut task) = inbox.recv() {
                let result = perform(&mut task);
                if outbox.send(Done { task, result }).is_err() {
                    break;
                }
                count.fetch_add(1, Ordering::Release);
                waker();
            }
        })?;
        Ok(Self { requests: Some(requests), done, waiting, thread: Some(thread) })
    }

    pub fn start(&mut self, task: Task) {
        if let Some(requests) = &self.requests {
            // There is room: the engine counts. The thread lives as long as `requests`.
            let _ = requests.try_send(task);
        }
    }

    pub fn reap(&mut self) -> Option<Done> {
        if !self.ready() {
            return None;
        }
        let done = self.done.try_recv().ok()?;
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        Some(done)
    }

    pub fn ready(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}

/// Does what a request asks for, and waits until it is done.
pub(crate) fn perform(task: &mut Task) -> Result<u32, Errno> {
    if let Some(head) = &task.anew {
        let begun = rustix::fs::ftruncate(&*task.fd, 0).and_then(|()| crate::open::write_all(&*task.fd, head, 0));
        begun.map_err(|e| Errno(e.raw_os_error()))?;
        task.anew = None;
    }
    let bytes = &mut task.bytes[task.from..task.to];
    let n = match task.what {
        What::Write { durable } => {
            let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
            rustix::io::pwritev2(&*task.fd, &[IoSlice::new(bytes)], task.offset, flags)
        }
        What::Read => {
            rustix::io::preadv2(&*task.fd, &mut [IoSliceMut::new(bytes)], task.offset, ReadWriteFlags::empty())
        }
    };
    n.map(|n| n as u32).map_err(|e| Errno(e.raw_os_error()))
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
