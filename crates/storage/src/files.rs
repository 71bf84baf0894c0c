//! The files of one NF.

use crate::engine::{Done, Engine, Task, Token};
use crate::open::{OpenError, open};
use crate::reader::Reader;
use crate::report::FileReport;
use crate::writer::{Outcome, Writer};
use chainline_nf::{Access, Completion, File, FileSpec, Refused, Storage};

/// Hands a completion to the NF, with its files.
type Tell<'a> = dyn FnMut(&Completion<'_>, &mut dyn Storage) + 'a;

enum Use {
    Append(Box<Writer>),
    Read(Box<Reader>),
}

/// The files of one NF: what its context lends it.
pub struct Files {
    nf: u16,
    files: Vec<Use>,
    now_ns: u64,
    /// The instance ends: an NF that asks for more whenever something is done would keep it from that.
    pub(crate) ending: bool,
    /// The NF is being told what is done.
    telling: bool,
    /// The instance waits while one of them is written.
    pub(crate) blocking: bool,
}

impl Files {
    pub(crate) fn open(nf: u16, specs: &[FileSpec]) -> Result<Self, OpenError> {
        let mut files = Vec::with_capacity(specs.len());
        for spec in specs {
            let opened = open(spec)?;
            files.push(match spec.access {
                Access::Append { .. } => Use::Append(Box::new(Writer::new(spec, opened))),
                Access::Read => Use::Read(Box::new(Reader::new(spec, opened))),
            });
        }
        let blocking = specs.iter().all(|s| s.blocking);
        Ok(Self { nf, files, now_ns: 0, ending: false, telling: false, blocking })
    }

    /// Packets whose requests are sure to find room.
    pub(crate) fn room(&self) -> usize {
        let rooms = self.files.iter().map(|f| match f {
            Use::Append(w) => w.room(),
            Use::Read(r) => r.room(),
        });
        rooms.min().unwrap_or(usize::MAX)
    }

    pub(crate) fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    pub(crate) fn flush_all(&mut self) {
        for file in &mut self.files {
            if let Use::Append(w) = file {
                w.flush();
            }
        }
    }

    pub(crate) fn pending(&self) -> bool {
        self.files.iter().any(|f| match f {
            Use::Append(w) => w.pending(),
            Use::Read(r) => r.pending(),
        })
    }

    pub(crate) fn due_ns(&self) -> Option<u64> {
        let due = self.files.iter().filter_map(|f| match f {
            Use::Append(w) => w.due_ns(),
            Use::Read(_) => None,
        });
        due.min()
    }

    #[inline]
    pub(crate) fn begin(&mut self, engine: &mut Engine, now_ns: u64) {
        for (i, file) in self.files.iter_mut().enumerate() {
            let token = Token { nf: self.nf, file: i as u16, slot: 0 };
            match file {
                Use::Append(w) => {
                    if engine.has_room()
                        && let Some(task) = w.next(token, now_ns)
                    {
                        engine.start(task);
                    }
                }
                Use::Read(r) => {
                    while engine.has_room()
                        && let Some(task) = r.next(token)
                    {
                        engine.start(task);
                    }
                }
            }
        }
    }

    /// Tells the NF of a request that is done; returns what is left of one that is not.
    pub(crate) fn done(&mut self, done: Done, tell: &mut Tell<'_>) -> Option<Task> {
        self.telling = true;
        let rest = self.tell(done, tell);
        self.telling = false;
        rest
    }

    fn tell(&mut self, done: Done, tell: &mut Tell<'_>) -> Option<Task> {
        let file = File::from_bits(done.task.token.file.into());
        let at = usize::from(done.task.token.file);
        match self.files.get_mut(at)? {
            Use::Append(w) => match w.done(done) {
                Outcome::Rest(task) => return Some(task),
                Outcome::Over(batch, result) => {
                    if batch.silent > 0 {
                        let result = result.map(|()| batch.silent_bytes);
                        let count = batch.silent;
                        tell(&Completion { file, context: None, count, result, data: &[] }, self);
                    }
                    for &(context, len) in &batch.contexts {
                        let result = result.map(|()| len.into());
                        tell(&Completion { file, context: Some(context), count: 1, result, data: &[] }, self);
                    }
                    if let Some(Use::Append(w)) = self.files.get_mut(at) {
                        w.give_back(batch);
                    }
                }
                Outcome::Nothing => {}
            },
            Use::Read(r) => match r.done(done) {
                Ok(rest) => return Some(rest),
                Err((task, context, result)) => {
                    let data = result.map_or(&[][..], |n| task.bytes.get(..n as usize).unwrap_or(&[]));
                    tell(&Completion { file, context: Some(context), count: 1, result, data }, self);
                    if let Some(Use::Read(r)) = self.files.get_mut(at) {
                        r.give_back(task);
                    }
                }
            },
        }
        None
    }

    pub(crate) fn finish(&mut self) -> Vec<FileReport> {
        let report = |f: &mut Use| match f {
            Use::Append(w) => {
                w.finish();
                w.report.clone()
            }
            Use::Read(r) => r.report.clone(),
        };
        self.files.iter_mut().map(report).collect()
    }
}

impl Storage for Files {
    fn write(&mut self, file: File, parts: &[&[u8]], context: Option<u64>) -> Result<(), Refused> {
        match self.files.get_mut(file.to_bits() as usize) {
            _ if self.ending && self.telling => Err(Refused::Ending),
            Some(Use::Append(w)) => w.write(parts, context, self.now_ns),
            _ => Err(Refused::Absent),
        }
    }

    fn read(&mut self, file: File, offset: u64, len: u32, context: u64) -> Result<(), Refused> {
        match self.files.get_mut(file.to_bits() as usize) {
            _ if self.ending && self.telling => Err(Refused::Ending),
            Some(Use::Read(r)) => r.read(offset, len, context),
            _ => Err(Refused::Absent),
        }
    }

    fn flush(&mut self, file: File) -> Result<(), Refused> {
        match self.files.get_mut(file.to_bits() as usize) {
            Some(Use::Append(w)) => {
                w.flush();
                Ok(())
            }
            _ => Err(Refused::Absent),
        }
    }
}
