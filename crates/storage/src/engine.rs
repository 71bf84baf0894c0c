//! Who does the reading and writing: io_uring, or a thread where that is not permitted. A thread beside io_uring cuts files
//! that are at their limit, since rings of supported kernels cannot (`IORING_OP_FTRUNCATE` is of Linux 6.9); what an NF wants to
//! wait for is done at once.

use crate::threaded::{Threaded, perform};
use crate::uring::Uring;
use chainline_nf::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Called from another thread when something is done: it wakes the host if it sleeps.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Which engine to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// io_uring, or the thread where the kernel refuses that.
    Auto,
    /// The thread.
    Thread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Read,
    Write {
        /// Done when it is on the medium.
        durable: bool,
    },
}

/// A request. It owns its bytes while it is worked on.
#[derive(Debug)]
pub(crate) struct Task {
    /// The requester's.
    pub token: Token,
    pub fd: Arc<OwnedFd>,
    pub what: What,
    pub bytes: Vec<u8>,
    /// Which of the bytes are to be written, or filled.
    pub from: usize,
    pub to: usize,
    /// Where in the file; [`HERE`] where the file has no places.
    pub offset: u64,
    /// The file is cut to nothing first, and begins with this.
    pub anew: Option<Arc<[u8]>>,
    /// It is done before the call that begins it returns.
    pub blocking: bool,
}

/// The offset of files that cannot seek.
pub(crate) const HERE: u64 = u64::MAX;

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub nf: u16,
    pub file: u16,
    /// The place of a read.
    pub slot: u32,
}

/// A request that is done.
#[derive(Debug)]
pub(crate) struct Done {
    pub task: Task,
    pub result: Result<u32, Errno>,
}

enum Kind {
    Uring(Box<Uring>),
    Thread(Threaded),
    /// Every file is one that the instance waits for.
    None,
}

/// What is asked of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Requests at a time.
    pub depth: u32,
    /// Some are not blocking.
    pub asynchronous: bool,
    /// Files may have to be cut.
    pub cuts: bool,
}

pub(crate) struct Engine {
    kind: Kind,
    /// For what a ring cannot do.
    beside: Option<Threaded>,
    /// Done at once, not yet reaped.
    done: VecDeque<Done>,
    /// Requests that may still be begun.
    room: u32,
}

/// What the engine of files is called that the instance waits for.
pub(crate) const BLOCKING: &str = "blocking";
/// The most requests on their way; others wait for their turn.
const MAX_DEPTH: u32 = 4096;

impl Engine {
    /// For what is `wanted`. Also returns which it is, in words.
    pub fn new(wanted: Wanted, choice: Choice, waker: Waker) -> std::io::Result<(Self, String)> {
        let room = wanted.depth.clamp(1, MAX_DEPTH);
        let of = |kind, beside| Self { kind, beside, done: VecDeque::with_capacity(room as usize), room };
        if !wanted.asynchronous {
            return Ok((of(Kind::None, None), BLOCKING.into()));
        }
        let why = match choice {
            Choice::Auto => match Uring::new(room, waker.clone()) {
                Ok(uring) => {
                    let beside = wanted.cuts.then(|| Threaded::new(room, waker)).transpose()?;
                    return Ok((of(Kind::Uring(Box::new(uring)), beside), "io_uring".into()));
                }
                Err(e) => format!("no io_uring: {e}"),
            },
            Choice::Thread => "as asked".into(),
        };
        let thread = Kind::Thread(Threaded::new(room, waker)?);
        Ok((of(thread, None), format!("thread ({why})")))
    }

    /// Whether [`Engine::start`] may be called.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Takes a request; [`Engine::submit`] sets it going. A blocking one is done when this returns.
    pub fn start(&mut self, mut task: Task) {
        self.room -= 1;
        if task.blocking {
            let result = perform(&mut task);
            return self.done.push_back(Done { task, result });
        }
        match (&mut self.kind, &mut self.beside) {
            (Kind::Uring(_), Some(beside)) if task.anew.is_some() => beside.start(task),
            (Kind::Uring(e), _) => e.start(task),
            (Kind::Thread(e), _) => e.start(task),
            // Opened for files of which none is asynchronous: there is no such request.
            (Kind::None, _) => self.room += 1,
        }
    }

    /// Sets going what was taken: at most one system call.
    #[inline]
    pub fn submit(&mut self) {
        match &mut self.kind {
            Kind::Uring(e) => e.submit(),
            Kind::Thread(_) | Kind::None => {}
        }
    }

    /// The next request that is done.
    #[inline]
    pub fn reap(&mut self) -> Option<Done> {
        let of_kind = |kind: &mut Kind| match kind {
            Kind::Uring(e) => e.reap(),
            Kind::Thread(e) => e.reap(),
            Kind::None => None,
        };
        let at_once = self.done.pop_front();
        let done = at_once.or_else(|| of_kind(&mut self.kind)).or_else(|| self.beside.as_mut()?.reap())?;
        self.room += 1;
        Some(done)
    }

    /// Whether [`Engine::reap`] has something, or [`Engine::submit`] did not get all through.
    pub fn ready(&mut self) -> bool {
        let of_kind = match &mut self.kind {
            Kind::Uring(e) => e.ready(),
            Kind::Thread(e) => e.ready(),
            Kind::None => false,
        };
        of_kind || !self.done.is_empty() || self.beside.as_ref().is_some_and(Threaded::ready)
    }
}
