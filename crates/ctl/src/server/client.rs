//! One client as the server sees it: what it has sent and not been asked about yet, and what it is owed.

use super::Limits;
use crate::answer::{Fault, Word};
use crate::request::{Call, Id, parse};
use rustix::event::PollFlags;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes read at once, so that one who floods does not keep the others waiting.
const CHUNK: usize = 64 << 10;

pub struct Client {
    pub id: u64,
    /// Its request is with whoever answers.
    pub waiting: bool,
    /// When it last sent something.
    pub heard: Instant,
    /// Nothing more to do with it.
    pub gone: bool,
    stream: UnixStream,
    input: Vec<u8>,
    /// Bytes of the input that are known to have no line end.
    seen: usize,
    output: Vec<u8>,
    /// When it last read something of what it is owed.
    owed: Instant,
    /// Requests that it may make now.
    tokens: f64,
    filled: Instant,
    /// It sends no more.
    ended: bool,
    /// It is to go when it has read its last answer.
    closing: bool,
}

/// What comes of a look at what a client sent.
pub enum Step {
    Nothing,
    Said(Id, Fault),
    Asked(Id, Call),
}

impl Client {
    pub fn new(id: u64, stream: UnixStream, limits: &Limits, now: Instant) -> Self {
        Self {
            id,
            waiting: false,
            heard: now,
            gone: false,
            stream,
            input: Vec::new(),
            seen: 0,
            output: Vec::new(),
            owed: now,
            tokens: limits.burst,
            filled: now,
            ended: false,
            closing: false,
        }
    }

    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Whether it may be read from: not while it is owed something, nor faster than allowed.
    fn listens(&self) -> bool {
        !(self.waiting || self.ended || self.closing) && self.output.is_empty() && self.tokens >= 1.0
    }

    /// What to poll its socket for, and when to look at it at the latest.
    pub fn wants(&self, now: Instant, limits: &Limits) -> (PollFlags, Option<Duration>) {
        if !self.output.is_empty() {
            let left = (self.owed + limits.unread).saturating_duration_since(now);
            return (PollFlags::OUT, Some(left));
        }
        if self.listens() {
            return (PollFlags::IN, None);
        }
        let short = !self.waiting && self.tokens < 1.0;
        let soon = short.then(|| Duration::from_secs_f64((1.0 - self.tokens) / limits.per_second));
        (PollFlags::empty(), soon)
    }

    /// Takes what it sent, up to a chunk.
    pub fn read(&mut self, ready: PollFlags, now: Instant, limits: &Limits) {
        if !self.listens() {
            // It reads no more: its answer has nobody. What it asked for is done all the same.
            self.gone |= ready.intersects(PollFlags::HUP | PollFlags::ERR);
            return;
        }
        if ready.is_empty() {
            return;
        }
        // Bytes that are read on top of a line's limit are refused with it.
        let room = (limits.line + 1).saturating_sub(self.input.len()).min(CHUNK);
        let before = self.input.len();
        self.input.resize(before + room, 0);
        let read = self.stream.read(&mut self.input[before..]);
        self.input.truncate(before + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) if room > 0 => self.ended = true,
            Ok(_) => self.heard = now,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.gone = true,
        }
    }

    /// The next thing to do with what it sent.
    pub fn step(&mut self, now: Instant, limits: &Limits) -> Step {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * limits.per_second).min(limits.burst);
        self.filled = now;
        loop {
            if self.gone || self.waiting || self.closing || !self.output.is_empty() || self.tokens < 1.0 {
                self.gone |= self.closing && self.output.is_empty();
                return Step::Nothing;
            }
            let Some(end) = self.input[self.seen..].iter().position(|b| *b == b'\n').map(|n| n + self.seen) else {
                self.seen = self.input.len();
                if self.input.len() > limits.line {
                    self.closing = true;
                    self.input = Vec::new();
                    let what = format!("found a line longer than {} bytes", limits.line);
                    let hint = "`reload` makes the manager read a long chain file itself";
                    return Step::Said(Id::None, Fault::new(Word::TooLong, what).hint(hint));
                }
                // A last line without its end is none.
                self.gone |= self.ended;
                return Step::Nothing;
            };
            let line: Vec<u8> = self.input.drain(..=end).collect();
            self.seen = 0;
            if self.input.is_empty() && self.input.capacity() > CHUNK {
                self.input = Vec::new();
            }
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            self.tokens -= 1.0;
            return match parse(line) {
                Ok((id, call)) => Step::Asked(id, call),
                Err((id, fault)) => Step::Said(id, fault),
            };
        }
    }

    /// One more line is to be sent to it.
    pub fn owe(&mut self, line: &str, now: Instant) {
        if self.output.is_empty() {
            self.owed = now;
        }
        self.output.extend_from_slice(line.as_bytes());
    }

    /// Sends what it is owed, as far as it reads.
    pub fn write(&mut self, now: Instant, unread: Duration) {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(n) if n > 0 => sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                _ => {
                    self.gone = true;
                    return;
                }
            }
        }
        if sent > 0 {
            self.output.drain(..sent);
            self.owed = now;
        }
        if self.output.is_empty() {
            self.output = Vec::new();
        } else if now.saturating_duration_since(self.owed) >= unread {
            self.gone = true;
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("id", &self.id).field("waiting", &self.waiting).finish_non_exhaustive()
    }
}
