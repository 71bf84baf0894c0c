//! Appending to a file through two buffers.
//!
//! A buffer is *filling*, then *queued* or at once *flying*, and when the NF has heard of it *spare*. One flies at a
//! time, so that the file grows in order. It is written whole or not at all: after an error the end of the file stays
//! where it was, and the next buffer overwrites what the failed one may have left behind.

use crate::engine::{Done, HERE, Task, Token, What};
use crate::open::Opened;
use crate::report::FileReport;
use chainline_nf::{Durable, Errno, FileSpec, Refused};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The most writes with a context in one buffer.
const MAX_CONTEXTS: usize = 4096;

/// Bytes, and whose they are.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Context and length of each write that has one.
    pub contexts: Vec<(u64, u32)>,
    /// Bytes and number of the writes that have none.
    pub silent_bytes: u64,
    pub silent: u64,
    /// When the first byte came.
    since_ns: u64,
}

impl Batch {
    fn new(bytes: usize) -> Self {
        let contexts = Vec::with_capacity(MAX_CONTEXTS.min(bytes));
        Self { bytes: Vec::with_capacity(bytes), contexts, silent_bytes: 0, silent: 0, since_ns: 0 }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.contexts.clear();
        (self.silent, self.silent_bytes) = (0, 0);
    }
}

pub(crate) struct Writer {
    fd: Arc<OwnedFd>,
    /// Where the next buffer goes.
    end: u64,
    /// The end, after an error that may have left bytes behind it.
    torn: bool,
    size: usize,
    flush_ns: u64,
    packet_bytes: usize,
    durable: Durable,
    blocking: bool,
    limit: Option<u64>,
    /// What the file begins with when it begins anew.
    head: Arc<[u8]>,
    /// It was to begin anew, and that failed.
    uncut: bool,
    filling: Batch,
    queued: Option<Batch>,
    spare: Option<Batch>,
    /// The buffer that flies, without its bytes.
    flying: Option<Batch>,
    /// The NF or the host asked for what is filling to be written.
    flush: bool,
    pub report: FileReport,
}

impl Writer {
    pub fn new(spec: &FileSpec, opened: Opened) -> Self {
        let size = spec.batch_bytes as usize;
        Self {
            fd: opened.fd,
            end: opened.end,
            torn: false,
            size,
            flush_ns: u64::from(spec.flush_ms) * 1_000_000,
            packet_bytes: spec.packet_bytes as usize,
            durable: spec.durable,
            blocking: spec.blocking,
            // What has no places has no end that could be cut.
            limit: spec.limit_bytes.filter(|_| opened.end != HERE),
            head: spec.head.as_slice().into(),
            uncut: false,
            filling: Batch::new(size),
            queued: None,
            spare: Some(Batch::new(size)),
            flying: None,
            flush: false,
            report: FileReport::new(spec),
        }
    }

    /// Packets whose writes are sure to find room, each with one context at most.
    pub fn room(&self) -> usize {
        let fits = |batch: &Batch| {
            let contexts = batch.contexts.capacity() - batch.contexts.len();
            ((self.size - batch.bytes.len()) / self.packet_bytes).min(contexts)
        };
        fits(&self.filling) + self.spare.as_ref().map_or(0, fits)
    }

    pub fn write(&mut self, parts: &[&[u8]], context: Option<u64>, now_ns: u64) -> Result<(), Refused> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        if len > self.size {
            return Err(Refused::TooLong);
        }
        let full = |b: &Batch| {
            b.bytes.len() + len > self.size || (context.is_some() && b.contexts.len() == b.contexts.capacity())
        };
        if full(&self.filling) {
            let Some(next) = self.spare.take() else { return Err(Refused::Full) };
            self.queued = Some(std::mem::replace(&mut self.filling, next));
            self.flush = false;
        }
        let batch = &mut self.filling;
        if batch.bytes.is_empty() {
            batch.since_ns = now_ns;
        }
        for part in parts {
            batch.bytes.extend_from_slice(part);
        }
        match context {
            Some(context) => batch.contexts.push((context, len as u32)),
            None => {
                batch.silent += 1;
                batch.silent_bytes += len as u64;
            }
        }
        Ok(())
    }

    pub fn flush(&mut self) {
        self.flush = !self.is_filling_empty();
    }

    fn is_filling_empty(&self) -> bool {
        self.filling.bytes.is_empty() && self.filling.contexts.is_empty() && self.filling.silent == 0
    }

    /// When what is filling must be written by; `None` while nothing is there, or while nothing can be begun.
    pub fn due_ns(&self) -> Option<u64> {
        let waits = self.flying.is_none() && !self.is_filling_empty();
        waits.then(|| self.filling.since_ns.saturating_add(self.flush_ns))
    }

    /// Whether anything is written and not yet reported.
    pub fn pending(&self) -> bool {
        self.flying.is_some() || self.queued.is_some() || !self.is_filling_empty()
    }

    /// The next request, if there is one to be made now.
    #[inline]
    pub fn next(&mut self, token: Token, now_ns: u64) -> Option<Task> {
        if self.flying.is_some() {
            return None;
        }
        if self.queued.is_none() {
            let due = self.flush
                || self.filling.bytes.len() + self.packet_bytes > self.size
                || self.filling.contexts.len() == self.filling.contexts.capacity()
                || self.due_ns().is_some_and(|due| now_ns >= due);
            if !due || self.is_filling_empty() {
                return None;
            }
            let next = self.spare.take()?;
            self.queued = Some(std::mem::replace(&mut self.filling, next));
            self.flush = false;
        }
        let mut batch = self.queued.take()?;
        let bytes = std::mem::take(&mut batch.bytes);
        self.flying = Some(batch);
        let to = bytes.len();
        let anew = self.uncut || self.limit.is_some_and(|limit| self.end.saturating_add(to as u64) > limit);
        if anew {
            self.end = self.head.len() as u64;
            // Until it is known to be cut.
            self.uncut = true;
        }
        Some(Task {
            token,
            fd: self.fd.clone(),
            what: What::Write { durable: self.durable == Durable::EachBatch },
            bytes,
            from: 0,
            to,
            offset: self.end,
            anew: anew.then(|| self.head.clone()),
            blocking: self.blocking,
        })
    }

    /// A request came back. Either the rest of it is to be requested, or the batch is over, one way or the other.
    pub fn done(&mut self, done: Done) -> Outcome {
        let Done { mut task, result } = done;
        let result = match result {
            Ok(0) if task.from < task.to => Err(Errno(libc::EIO)),
            Ok(n) if task.from + (n as usize) < task.to => {
                task.from += n as usize;
                task.offset = if self.end == HERE { HERE } else { task.offset + u64::from(n) };
                return Outcome::Rest(task);
            }
            Err(Errno(libc::EINTR | libc::EAGAIN)) => return Outcome::Rest(task),
            Ok(_) => Ok(()),
            Err(e) => Err(e),
        };
        let total = task.to as u64;
        match result {
            Ok(()) => {
                if self.end != HERE {
                    self.end += total;
                }
                self.report.bytes_written += total;
                self.report.writes += 1;
                self.report.begun_anew += u64::from(std::mem::take(&mut self.uncut));
            }
            Err(e) => {
                self.torn = true;
                self.report.fail(e);
                self.report.bytes_lost += total;
            }
        }
        match self.flying.take() {
            Some(mut batch) => {
                batch.bytes = task.bytes;
                Outcome::Over(batch, result)
            }
            None => Outcome::Nothing,
        }
    }

    /// The NF has heard of all of it.
    pub fn give_back(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare = Some(batch);
    }

    /// At the end, with nothing pending: nothing torn stays, and what must be on the medium is there.
    pub fn finish(&mut self) {
        if (self.torn || self.uncut) && self.end != HERE {
            let _ = rustix::fs::ftruncate(&self.fd, if self.uncut { 0 } else { self.end });
        }
        if self.durable == Durable::AtEnd
            && let Err(e) = rustix::fs::fdatasync(&self.fd)
        {
            self.report.fail(Errno(e.raw_os_error()));
        }
    }
}

/// What came of a request.
pub(crate) enum Outcome {
    /// Not all was written: this is what is left.
    Rest(Task),
    /// Written, or not.
    Over(Batch, Result<(), Errno>),
    /// Nobody asked for that.
    Nothing,
}
