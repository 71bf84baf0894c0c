//! Files of rules, routes and the like that are read again while an NF runs.
//!
//! An NF's tick looks at its files, at most as often as it is told: that is all that happens on the thread that handles
//! packets. What has changed is read, checked and built by a thread of its own, which takes what the NF leaves of its
//! cores. When it is ready the tick puts it in the place of the old, which goes back to that thread to be dropped. A file
//! that is wrong changes nothing: it is counted, and why it is wrong is told at once and kept for the report.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod watch;
mod worker;

use chainline_nf::{Counter, Ctx, Env, Error};
use std::path::PathBuf;
use watch::Watch;
use worker::Worker;

/// What is read from files, as they change; `T` is what an NF works with.
#[derive(Debug)]
pub struct Reload<T> {
    what: &'static str,
    watch: Watch,
    /// Absent when nothing is ever read again.
    worker: Option<Worker<T>>,
    /// Why the files as they are now are not in force.
    fault: Option<String>,
    news: Option<String>,
    reloads: Counter,
    failed: Counter,
}

impl<T: Send + 'static> Reload<T> {
    /// Looks at the files every `every_s` seconds; 0 is never. Declares the counters `reloads` and `reloads_failed`.
    /// `what` is what the files have: "services". To be called before the files are read for the first time, so that a
    /// change in between is seen as one.
    pub fn new(env: &mut Env<'_>, what: &'static str, files: impl IntoIterator<Item = PathBuf>, every_s: u32) -> Self {
        let mut count = |name, of: &str| env.counter(name, "files", format!("changed files of {what} that {of}"));
        let reloads = count("reloads", "took effect");
        let failed = count("reloads_failed", "were wrong");
        Self { what, watch: Watch::new(files, every_s), worker: None, fault: None, news: None, reloads, failed }
    }

    /// Says how the files are read, and what is built of them: not on the thread that handles packets.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(&mut self, read: impl FnMut() -> Result<T, Error> + Send + 'static) -> Result<(), Error> {
        if self.watch.looks() {
            let worker = Worker::new(read);
            self.worker = Some(worker.map_err(|e| Error::Library(format!("no thread to read {}: {e}", self.what)))?);
        }
        Ok(())
    }

    /// In a tick: what has changed, ready to be put in the place of the old.
    pub fn look(&mut self, ctx: &Ctx<'_>) -> Option<T> {
        let worker = self.worker.as_mut()?;
        if !worker.is_busy() {
            if self.watch.look(ctx.now_ns()) {
                worker.begin();
            }
            return None;
        }
        match worker.take()? {
            Ok(new) => {
                let what = self.what;
                self.news = self.fault.take().map(|_| format!("the file of {what} is right again, and in force"));
                ctx.count(self.reloads, 1);
                Some(new)
            }
            Err(fault) => {
                self.fault = Some(fault);
                self.news = self.words();
                ctx.count(self.failed, 1);
                None
            }
        }
    }

    /// Drops what is no longer in force elsewhere: to free a large table takes a while.
    pub fn retire(&mut self, old: T) {
        match &mut self.worker {
            Some(worker) => worker.retire(old),
            None => drop(old),
        }
    }

    /// For [`chainline_nf::Nf::news`]: that changed files were found to be wrong, or are right again; once for each change.
    pub fn news(&mut self) -> Option<String> {
        self.news.take()
    }

    /// For the report: that the files as they are now are wrong, and why.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let (what, fault) = (self.what, self.fault.as_ref()?);
        Some(format!("the file of {what} has changed and is wrong, the last right one is in force: {fault}\n"))
    }
}

#[cfg(test)]
mod tests;
