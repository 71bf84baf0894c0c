//! Asynchronous file I/O for the NFs of one instance: batches, double buffering, credit (NFVnice section 3.4).
//!
//! ```text
//!  NF ── write ──▶ buffer that fills ─┐ full, flushed or old        ┌─▶ completed ─▶ NF
//!                  buffer that flies ◀┴─ submit ─▶ io_uring / thread ┘
//! ```
//!
//! [`Storage`] belongs to the instance's loop, which lends an NF its [`Files`] during a call, calls [`Storage::submit`]
//! once a pass (one system call at most, and only if a batch is ready), and [`Storage::complete`] before. It asks
//! [`Storage::room`] before it takes packets, so that a request in an NF's `process` never finds both buffers full.
//! Nothing here allocates once the files are open, and nothing waits; the [`Waker`] wakes a loop that sleeps.
//!
//! Deliberately absent: knowledge of packets, queues and bells.

mod engine;
mod files;
mod open;
mod reader;
mod report;
mod threaded;
#[allow(unsafe_code)] // Requests carry addresses to the kernel: docs/adr/0011.
mod uring;
mod writer;

pub use engine::{Choice, Waker};
pub use files::Files;
pub use open::OpenError;
pub use report::{FileReport, StorageReport};

use chainline_nf::{Access, Completion, FileSpec};
use engine::{BLOCKING, Engine, Wanted};

/// The files of all NFs of an instance.
pub struct Storage {
    /// None without files.
    engine: Option<Engine>,
    name: String,
    /// By NF; none for an NF without files.
    nfs: Vec<Option<Files>>,
}

impl Storage {
    /// Opens the files of each NF.
    ///
    /// # Errors
    /// The NF's index, and why a file could not be opened or no engine could be had.
    pub fn open(specs: &[&[FileSpec]], choice: Choice, waker: Waker) -> Result<Self, (usize, String)> {
        let mut nfs = Vec::with_capacity(specs.len());
        for (i, files) in specs.iter().enumerate() {
            let open = || Files::open(i as u16, files).map_err(|e| (i, e.to_string()));
            nfs.push(if files.is_empty() { None } else { Some(open()?) });
        }
        let Some(first) = nfs.iter().position(Option::is_some) else {
            return Ok(Self { engine: None, name: String::new(), nfs });
        };
        let depth = specs.iter().flat_map(|files| files.iter()).map(|f| match f.access {
            Access::Append { .. } => 1,
            Access::Read => f.reads,
        });
        let depth = depth.fold(0u32, u32::saturating_add);
        let all = || specs.iter().flat_map(|files| files.iter());
        let wanted =
            Wanted { depth, asynchronous: !all().all(|f| f.blocking), cuts: all().any(|f| f.limit_bytes.is_some()) };
        let (engine, name) =
            Engine::new(wanted, choice, waker).map_err(|e| (first, format!("no engine for its files: {e}")))?;
        Ok(Self { engine: Some(engine), name, nfs })
    }

    /// Whether any NF has files.
    #[inline]
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.engine.is_some()
    }

    /// The files of an NF, to be lent to it; `None` if it has none. `now_ns` is the time of the burst.
    #[inline]
    pub fn files(&mut self, nf: usize, now_ns: u64) -> Option<&mut dyn chainline_nf::Storage> {
        let files = self.nfs.get_mut(nf)?.as_mut()?;
        files.at(now_ns);
        Some(files)
    }

    /// Packets that an NF may be handed without its requests finding no room.
    #[inline]
    #[must_use]
    pub fn room(&self, nf: usize) -> u32 {
        let files = self.nfs.get(nf).and_then(Option::as_ref);
        files.map_or(u32::MAX, |f| u32::try_from(f.room()).unwrap_or(u32::MAX))
    }

    /// Sets going what is ready: full, flushed, or old enough. At most one system call.
    #[inline]
    pub fn submit(&mut self, now_ns: u64) {
        if let Some(engine) = &mut self.engine {
            for files in self.nfs.iter_mut().flatten() {
                files.begin(engine, now_ns);
            }
            engine.submit();
        }
    }

    /// Whether [`Storage::complete`] has something to tell.
    pub fn ready(&mut self) -> bool {
        self.engine.as_mut().is_some_and(Engine::ready)
    }

    /// Tells `tell` of every request that is done: the NF, what was done, and its files.
    /// Returns whether there was one.
    pub fn complete(
        &mut self,
        now_ns: u64,
        tell: &mut dyn FnMut(usize, &Completion<'_>, &mut dyn chainline_nf::Storage),
    ) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        let mut any = false;
        while let Some(done) = engine.reap() {
            any = true;
            let nf = usize::from(done.task.token.nf);
            let Some(files) = self.nfs.get_mut(nf).and_then(Option::as_mut) else { continue };
            files.at(now_ns);
            if let Some(rest) = files.done(done, &mut |c, files| tell(nf, c, files)) {
                engine.start(rest);
            }
        }
        any
    }

    /// When the next buffer is old enough to be written, on the clock of the bursts.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        self.nfs.iter().flatten().filter_map(Files::due_ns).min()
    }

    /// Whether anything was asked for and not yet reported.
    #[must_use]
    pub fn pending(&self) -> bool {
        self.nfs.iter().flatten().any(Files::pending)
    }

    /// Does not wait for buffers to be full or old enough.
    pub fn flush(&mut self) {
        self.nfs.iter_mut().flatten().for_each(Files::flush_all);
    }

    /// From now on NFs that ask for more when they are told what is done are refused
    /// ([`chainline_nf::Refused::Ending`]).
    pub fn set_ending(&mut self) {
        self.nfs.iter_mut().flatten().for_each(|f| f.ending = true);
    }

    /// When nothing is pending: makes durable what must be, and says what became of the files of each NF.
    pub fn finish(&mut self) -> Vec<Option<StorageReport>> {
        let engine = &self.name;
        let report = |f: &mut Files| StorageReport {
            engine: if f.blocking { BLOCKING.to_owned() } else { engine.clone() },
            files: f.finish(),
        };
        self.nfs.iter_mut().map(|f| f.as_mut().map(report)).collect()
    }
}
