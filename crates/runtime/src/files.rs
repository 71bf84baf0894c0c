//! The files of NFs in the loop of an instance: what is done is told, what is ready is set going.
//!
//! The loop looks for what is done in each pass, which costs a load; when it sleeps, the storage rings its bell. It asks
//! for room before it takes packets (`Inlet::credit`), so an NF whose buffers are full yields like one whose queues are.

use crate::host::{Host, add};
use chainline_nf::Ctx;
use chainline_shm::clock::ticks;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::fence;
use std::time::Duration;

/// At the end there is nothing else to do than to wait for what is still being written.
const LAST_WAIT: Duration = Duration::from_millis(10);

impl Host {
    /// Tells NFs what is done, and sets going what is ready. Returns whether something was done.
    #[inline]
    pub(crate) fn move_files(&mut self) -> bool {
        if !self.storage.is_used() {
            return false;
        }
        let any = self.storage.ready() && self.tell();
        self.storage.submit(self.clock.at_ns(self.now));
        self.show_files();
        any
    }

    /// Lets the manager know whether anything is on its way.
    fn show_files(&self) {
        let (io, pending) = (&self.page.status().io, u32::from(self.storage.pending()));
        if io.load(Relaxed) != pending {
            io.store(pending, Release);
        }
    }

    fn tell(&mut self) -> bool {
        // What an NF releases is no longer shown as held and not yet in a queue.
        self.page.status().busy.store(1, Relaxed);
        fence(Release);
        self.now = ticks();
        let now_ns = self.clock.at_ns(self.now);
        let Self { nfs, storage, holds, page, .. } = self;
        let any = storage.complete(now_ns, &mut |nf, done, files| {
            let mut ctx = Ctx::new(now_ns, page.counters(nf), holds).with_storage(Some(files));
            nfs[nf].completed(done, &mut ctx);
        });
        self.holds.settle(&mut self.slots);
        self.flush_released();
        any
    }

    /// Whether a queue has packets that must wait until something is written or read.
    pub(crate) fn waits_for_files(&mut self) -> bool {
        let Self { inlets, storage, holds, .. } = self;
        storage.pending() && inlets.iter_mut().any(|i| i.consumer.available(1) > 0 && i.credit(storage, holds) == 0)
    }

    /// Before sleeping: packets that wait for room do not wait until a buffer is old enough, too.
    /// Returns the time until the next one is, if that is to wake this instance.
    pub(crate) fn rest_files(&mut self) -> Option<Duration> {
        if !self.storage.is_used() {
            return None;
        }
        let now_ns = self.clock.at_ns(self.now);
        if self.waits_for_files() {
            self.storage.flush();
            self.storage.submit(now_ns);
        }
        self.storage.due_ns().map(|due| Duration::from_nanos(due.saturating_sub(now_ns)))
    }

    /// All that was written reaches its file, and the NFs hear of it; what they hold for that goes on.
    pub(crate) fn end_files(&mut self) {
        if !self.storage.is_used() {
            return;
        }
        self.storage.set_ending();
        while self.storage.pending() {
            self.storage.flush();
            self.storage.submit(self.clock.at_ns(self.now));
            if !self.storage.ready() {
                self.own_bell.announce_sleep();
                if self.storage.ready() {
                    self.own_bell.stay_awake();
                } else {
                    self.own_bell.sleep(LAST_WAIT);
                }
            }
            if self.storage.ready() {
                self.tell();
            }
        }
        while self.flush_released() {}
        self.show_files();
        add(&self.page.status().passes, 1);
    }
}
