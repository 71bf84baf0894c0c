//! The thread that listens: many clients, none of whom can keep it from the others or make it remember much.
//!
//! Requests go to whoever holds the [`Server`], one at a time for each client; answers come back over a channel. So
//! whoever answers is asked at most as fast as it answers, and what is owed is bounded by the number of clients.

mod client;

use crate::answer::{Fault, Reply, Word};
use crate::place::Listener;
use crate::request::{Call, Id};
use client::{Client, Step};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What clients may do at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Clients at once. One more takes the place of the one that has been silent for longest, if it was for
    /// [`Limits::silent`]; else it is told so and let go.
    pub clients: usize,
    /// Silence after which a client's place may be given away.
    pub silent: Duration,
    /// Bytes in a line.
    pub line: usize,
    /// Requests a second of one client; what comes faster waits in the client's own buffer.
    pub per_second: f64,
    /// Requests of one client that may come at once.
    pub burst: f64,
    /// Time for a client to read its answer, from when it last read anything of it.
    pub unread: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 32,
            silent: Duration::from_secs(2),
            line: 1 << 20,
            per_second: 50.0,
            burst: 20.0,
            unread: Duration::from_secs(5),
        }
    }
}

/// The end of a pair by which a thread that polls is woken.
#[derive(Debug)]
struct Waker(UnixStream);

impl Waker {
    fn wake(&self) {
        // If there is no room, it has not yet noticed the last time.
        let _ = (&self.0).write(&[1]);
    }
}

fn pair() -> io::Result<(Waker, UnixStream)> {
    let (a, b) = UnixStream::pair()?;
    a.set_nonblocking(true)?;
    b.set_nonblocking(true)?;
    Ok((Waker(a), b))
}

fn hush(mut end: &UnixStream) {
    let mut bytes = [0; 64];
    while end.read(&mut bytes).is_ok_and(|n| n > 0) {}
}

/// One request, and the way for its answer.
#[derive(Debug)]
pub struct Ask {
    /// What is asked.
    pub call: Call,
    /// The answer goes here.
    pub answer: Answer,
}

/// The way for one answer. If it is dropped, the client is told that the run is over.
#[derive(Debug)]
pub struct Answer {
    id: Option<Id>,
    client: u64,
    to: Sender<(u64, String)>,
    waker: Arc<Waker>,
}

impl Answer {
    /// Answers.
    pub fn send(mut self, result: Result<Value, Fault>) {
        self.say(result);
    }

    fn say(&mut self, result: Result<Value, Fault>) {
        let Some(id) = self.id.take() else { return };
        let reply = match result {
            Ok(result) => Reply { id, result: Some(result), error: None },
            Err(fault) => Reply { id, result: None, error: Some(fault) },
        };
        // The server may have ended.
        let _ = self.to.send((self.client, line(&reply)));
        self.waker.wake();
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.say(Err(Fault::new(Word::Refused, "the run is over")));
    }
}

fn line(reply: &Reply) -> String {
    // Maps have texts as keys and numbers are finite or null: this cannot fail.
    serde_json::to_string(reply).unwrap_or_default() + "\n"
}

/// A socket that is served.
#[derive(Debug)]
pub struct Server {
    listener: Arc<Listener>,
    asks: Receiver<Ask>,
    asked: UnixStream,
    waker: Arc<Waker>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there is no thread or no file descriptor to be had.
    pub fn start(listener: Listener, limits: Limits) -> io::Result<Self> {
        let listener = Arc::new(listener);
        let (waker, woken) = pair()?;
        let (asker, asked) = pair()?;
        let (waker, over) = (Arc::new(waker), Arc::new(AtomicBool::new(false)));
        let (to, asks) = channel();
        let (answers, answered) = channel();
        let mut serving = Serving {
            listener: listener.clone(),
            limits,
            woken,
            asker,
            to,
            answers,
            answered,
            waker: waker.clone(),
            over: over.clone(),
            clients: Vec::new(),
            next: 0,
            deaf_until: None,
        };
        let thread = std::thread::Builder::new().name("control-socket".into()).spawn(move || serving.run())?;
        Ok(Self { listener, asks, asked, waker, over, thread: Some(thread) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.listener.path()
    }

    /// Readable when there is something to take.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.asked.as_fd()
    }

    /// The next request, if there is one.
    pub fn take(&self) -> Option<Ask> {
        hush(&self.asked);
        self.asks.try_recv().ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whoever waits is told.
        while self.asks.try_recv().is_ok() {}
        self.over.store(true, Relaxed);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Serving {
    listener: Arc<Listener>,
    limits: Limits,
    woken: UnixStream,
    asker: Waker,
    to: Sender<Ask>,
    answers: Sender<(u64, String)>,
    answered: Receiver<(u64, String)>,
    waker: Arc<Waker>,
    over: Arc<AtomicBool>,
    clients: Vec<Client>,
    next: u64,
    /// No file descriptor was left: nobody is accepted before this.
    deaf_until: Option<Instant>,
}

/// How long nobody is accepted after that.
const DEAF: Duration = Duration::from_millis(200);
/// Connections accepted at once, so that those that are there get their turn.
const AT_ONCE: usize = 16;

impl Serving {
    fn run(&mut self) {
        while !self.over.load(Relaxed) {
            let ready = self.wait();
            hush(&self.woken);
            let now = Instant::now();
            while let Ok((id, line)) = self.answered.try_recv() {
                if let Some(c) = self.clients.iter_mut().find(|c| c.id == id) {
                    c.owe(&line, now);
                    c.waiting = false;
                }
            }
            // Those that are accepted now stand behind those that were waited for.
            if ready.first().is_some_and(|r| !r.is_empty()) {
                self.accept(now);
            }
            for i in 0..self.clients.len() {
                self.serve(i, ready.get(i + 1).copied().unwrap_or(PollFlags::empty()), now);
            }
            self.clients.retain(|c| !c.gone);
        }
        // What was answered last is sent as far as the sockets take it.
        while let Ok((id, line)) = self.answered.try_recv() {
            if let Some(c) = self.clients.iter_mut().find(|c| c.id == id) {
                c.owe(&line, Instant::now());
                c.write(Instant::now(), self.limits.unread);
            }
        }
    }

    /// Waits for something to do. What there is at the listener, and then at each client.
    fn wait(&self) -> Vec<PollFlags> {
        let now = Instant::now();
        let deaf = self.deaf_until.is_some_and(|until| now < until);
        let mut wait = Duration::from_secs(60);
        let mut fds = vec![
            PollFd::new(&self.woken, PollFlags::IN),
            PollFd::new(&self.listener.socket, if deaf { PollFlags::empty() } else { PollFlags::IN }),
        ];
        if deaf {
            wait = wait.min(DEAF);
        }
        for c in &self.clients {
            let (flags, at_most) = c.wants(now, &self.limits);
            wait = at_most.map_or(wait, |t| wait.min(t));
            fds.push(PollFd::new(c.stream(), flags));
        }
        // At least a millisecond, so that rounding makes no idle turns.
        let wait = wait.max(Duration::from_millis(1));
        let wait = Timespec { tv_sec: wait.as_secs() as _, tv_nsec: wait.subsec_nanos().into() };
        // An interrupted wait is looked at like any other.
        let _ = poll(&mut fds, Some(&wait));
        fds[1..].iter().map(PollFd::revents).collect()
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..AT_ONCE {
            let stream = match self.listener.socket.accept() {
                Ok((stream, _)) => stream,
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return,
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(_) => {
                    self.deaf_until = Some(now + DEAF);
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.clients.iter().filter(|c| !c.gone).count() >= self.limits.clients && !self.make_room(now) {
                let what = format!("there are {} clients already", self.limits.clients);
                let fault = Fault::new(Word::TooMany, what).hint("try again when one of them has gone");
                // A new socket has room for a line.
                let _ = (&stream).write(line(&Reply { id: Id::None, result: None, error: Some(fault) }).as_bytes());
                continue;
            }
            self.next += 1;
            self.clients.push(Client::new(self.next, stream, &self.limits, now));
        }
    }

    /// Lets go of the client that has been silent for longest. Returns whether there was one.
    fn make_room(&mut self, now: Instant) -> bool {
        let silent = |c: &Client| !c.gone && !c.waiting && now.saturating_duration_since(c.heard) >= self.limits.silent;
        let oldest = self.clients.iter_mut().filter(|c| silent(c)).min_by_key(|c| c.heard);
        oldest.map(|c| c.gone = true).is_some()
    }

    fn serve(&mut self, i: usize, ready: PollFlags, now: Instant) {
        let limits = self.limits;
        let client = &mut self.clients[i];
        client.write(now, limits.unread);
        client.read(ready, now, &limits);
        loop {
            match client.step(now, &limits) {
                Step::Nothing => break,
                Step::Said(id, fault) => {
                    client.owe(&line(&Reply { id, result: None, error: Some(fault) }), now);
                    client.write(now, limits.unread);
                }
                Step::Asked(id, call) => {
                    client.waiting = true;
                    let answer =
                        Answer { id: Some(id), client: client.id, to: self.answers.clone(), waker: self.waker.clone() };
                    // If nobody takes it, the answer is dropped, and that is an answer.
                    let _ = self.to.send(Ask { call, answer });
                    self.asker.wake();
                }
            }
        }
    }
}
