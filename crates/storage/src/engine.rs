//! Who does the reading and writing: io_uring, or a thread where that is not permitted.

use crate::threaded::Threaded;
use crate::uring::Uring;
use chainline_nf::Errno;
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
}

pub(crate) struct Engine {
    kind: Kind,
    /// Requests that may still be begun.
    room: u32,
}

/// The most requests on their way; others wait for their turn.
const MAX_DEPTH: u32 = 4096;

impl Engine {
    /// For up to `depth` requests at a time. Also returns which it is, in words.
    pub fn new(depth: u32, choice: Choice, waker: Waker) -> std::io::Result<(Self, String)> {
        let room = depth.clamp(1, MAX_DEPTH);
        let why = match choice {
            Choice::Auto => match Uring::new(room, waker.clone()) {
                Ok(uring) => return Ok((Self { kind: Kind::Uring(Box::new(uring)), room }, "io_uring".into())),
                Err(e) => format!("no io_uring: {e}"),
            },
            Choice::Thread => "as asked".into(),
        };
        let thread = Kind::Thread(Threaded::new(room, waker)?);
        Ok((Self { kind: thread, room }, format!("thread ({why})")))
    }

    /// Whether [`Engine::start`] may be called.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Takes a request; [`Engine::submit`] sets it going.
    pub fn start(&mut self, task: Task) {
        self.room -= 1;
        match &mut self.kind {
            Kind::Uring(e) => e.start(task),
            Kind::Thread(e) => e.start(task),
        }
    }

    /// Sets going what was taken: at most one system call.
    #[inline]
    pub fn submit(&mut self) {
        match &mut self.kind {
            Kind::Uring(e) => e.submit(),
            Kind::Thread(_) => {}
        }
    }

    /// The next request that is done.
    #[inline]
    pub fn reap(&mut self) -> Option<Done> {
        let done = match &mut self.kind {
            Kind::Uring(e) => e.reap(),
            Kind::Thread(e) => e.reap(),
        }?;
        self.room += 1;
        Some(done)
    }

    /// Whether [`Engine::reap`] has something, or [`Engine::submit`] did not get all through.
    pub fn ready(&mut self) -> bool {
        match &mut self.kind {
            Kind::Uring(e) => e.ready(),
            Kind::Thread(e) => e.ready(),
        }
    }
}
