//! Reading a file at places that the NF names. Each read in flight has a buffer of its own.

use crate::engine::{Done, Task, Token, What};
use crate::open::Opened;
use crate::report::FileReport;
use chainline_nf::{Errno, FileSpec, Refused};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

struct Request {
    slot: u32,
    offset: u64,
    len: u32,
}

pub(crate) struct Reader {
    fd: Arc<OwnedFd>,
    most: u32,
    blocking: bool,
    /// By place: the buffer while nobody reads into it, and the context.
    slots: Vec<(Vec<u8>, u64)>,
    free: Vec<u32>,
    asked: VecDeque<Request>,
    pub report: FileReport,
}

impl Reader {
    pub fn new(spec: &FileSpec, opened: Opened) -> Self {
        let reads = spec.reads as usize;
        Self {
            fd: opened.fd,
            most: spec.read_bytes,
            blocking: spec.blocking,
            slots: (0..reads).map(|_| (vec![0; spec.read_bytes as usize], 0)).collect(),
            free: (0..spec.reads).rev().collect(),
            asked: VecDeque::with_capacity(reads),
            report: FileReport::new(spec),
        }
    }

    pub fn room(&self) -> usize {
        self.free.len()
    }

    pub fn read(&mut self, offset: u64, len: u32, context: u64) -> Result<(), Refused> {
        if len > self.most {
            return Err(Refused::TooLong);
        }
        let slot = self.free.pop().ok_or(Refused::Full)?;
        self.slots[slot as usize].1 = context;
        self.asked.push_back(Request { slot, offset, len });
        Ok(())
    }

    pub fn pending(&self) -> bool {
        self.free.len() < self.slots.len()
    }

    pub fn next(&mut self, token: Token) -> Option<Task> {
        let r = self.asked.pop_front()?;
        let bytes = std::mem::take(&mut self.slots[r.slot as usize].0);
        let token = Token { slot: r.slot, ..token };
        // The last offset stands for "here"; nothing is to be found there anyway.
        let offset = r.offset.min(i64::MAX as u64);
        Some(Task {
            token,
            fd: self.fd.clone(),
            what: What::Read,
            bytes,
            from: 0,
            to: r.len as usize,
            offset,
            anew: None,
            blocking: self.blocking,
        })
    }

    /// A request came back: the rest of it, or its slot, context and what came of it.
    pub fn done(&mut self, done: Done) -> Result<Task, (Task, u64, Result<u64, Errno>)> {
        let Done { mut task, result } = done;
        let context = self.slots.get(task.token.slot as usize).map_or(0, |s| s.1);
        match result {
            Err(Errno(libc::EINTR | libc::EAGAIN)) => Ok(task),
            Ok(n) if n > 0 && task.from + (n as usize) < task.to => {
                task.from += n as usize;
                task.offset += u64::from(n);
                Ok(task)
            }
            Ok(n) => {
                let got = (task.from + n as usize) as u64;
                self.report.bytes_read += got;
                self.report.reads += 1;
                Err((task, context, Ok(got)))
            }
            Err(e) => {
                self.report.fail(e);
                Err((task, context, Err(e)))
            }
        }
    }

    /// The NF has seen it.
    pub fn give_back(&mut self, task: Task) {
        if let Some(slot) = self.slots.get_mut(task.token.slot as usize) {
            slot.0 = task.bytes;
            self.free.push(task.token.slot);
        }
    }
}
