//! What was measured, kept as it is measured: a line for each thing, so that a crash costs at most the last one. The
//! same form serves a benchmark's journal, which `--resume` goes on from, and the cache.

use crate::results::Trial;
use chainline_trial::{Order, Ready};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The job that it belongs to; see [`key`].
    pub job: String,
    /// What was recorded.
    pub entry: Entry,
}

/// What is recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// What the dataplane said before its first trial.
    Ready(Box<Ready>),
    /// A trial, valid or not.
    Trial {
        /// What was asked for.
        order: Order,
        /// What came out.
        trial: Box<Trial>,
    },
}

/// A name for exactly this content: SHA-256 of its JSON.
#[must_use]
pub fn key(content: &serde_json::Value) -> String {
    crate::host::hex(&Sha256::digest(content.to_string()))
}

/// Why a journal or a cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system's word: a full disk, say.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// Not a journal, or changed since.
    #[error("{path}:{line}: found a line that is no record of a benchmark, expected one: {why}")]
    Broken {
        /// Which file.
        path: String,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.display().to_string();
    move |source| JournalError::Io { what, path, source }
}

/// Entries by job, in the order in which they were made.
pub type Entries = HashMap<String, Vec<Entry>>;

/// A file that grows by a line at a time.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// A new journal; an old one at the same place is gone.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        let file = File::create(path).map_err(io("create", path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Goes on with a journal, which may have been cut off at any byte: what the last line lacks is forgotten. One
    /// that is missing is begun.
    ///
    /// # Errors
    /// When it cannot be read or written, or when anything but the end of its last line is broken.
    pub fn resume(path: &Path) -> Result<(Self, Entries), JournalError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(io("read", path)(e)),
        };
        let (entries, whole) = parse(&bytes, path)?;
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(io("open", path))?;
        file.set_len(whole as u64).map_err(io("shorten", path))?;
        Ok((Self { path: path.to_owned(), file }, entries))
    }

    /// Adds a line. It is in the kernel's hands when this returns: it survives a crash of the program. What could not
    /// be written whole is taken back, so that more can be written when there is room again.
    ///
    /// # Errors
    /// When it cannot be written; a full disk, say.
    pub fn add(&mut self, line: &Line) -> Result<(), JournalError> {
        let before = self.file.metadata().map_err(io("write", &self.path))?.len();
        let text = text(line);
        self.file.write_all(text.as_bytes()).map_err(|e| {
            let _ = self.file.set_len(before);
            io("write", &self.path)(e)
        })
    }
}

fn text(line: &Line) -> String {
    // Every number in it is finite where it matters; what is not becomes null and is refused when it is read.
    serde_json::to_string(line).unwrap_or_default() + "\n"
}

/// The entries, and how many bytes of whole lines there are.
fn parse(bytes: &[u8], path: &Path) -> Result<(Entries, usize), JournalError> {
    let mut entries = Entries::new();
    let mut whole = 0;
    for (i, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let Some(text) = line.strip_suffix(b"\n") else { break };
        let line_number = i + 1;
        let parsed: Line = serde_json::from_slice(text).map_err(|e| JournalError::Broken {
            path: path.display().to_string(),
            line: line_number,
            why: e.to_string(),
        })?;
        entries.entry(parsed.job).or_default().push(parsed.entry);
        whole += line.len();
    }
    Ok((entries, whole))
}

/// Finished jobs of earlier benchmarks, a file each, named by their key.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// In `dir`, which is made when something is kept.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Where a user's cache is: `$XDG_CACHE_HOME/chainline/bench`, else below `$HOME/.cache`. `None` without either.
    #[must_use]
    pub fn default_dir() -> Option<PathBuf> {
        let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let base = var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")))?;
        Some(base.join("chainline/bench"))
    }

    fn path(&self, job: &str) -> PathBuf {
        self.dir.join(format!("{job}.jsonl"))
    }

    /// What was measured for exactly this job; `None` if nothing was.
    ///
    /// # Errors
    /// When the file is there and cannot be used.
    pub fn get(&self, job: &str) -> Result<Option<Vec<Entry>>, JournalError> {
        let path = self.path(job);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io("read", &path)(e)),
        };
        let (mut entries, whole) = parse(&bytes, &path)?;
        if whole != bytes.len() {
            let line = bytes.iter().filter(|b| **b == b'\n').count() + 1;
            let path = path.display().to_string();
            return Err(JournalError::Broken { path, line, why: "it ends in the middle of a line".into() });
        }
        Ok(entries.remove(job))
    }

    /// Keeps what was measured for a job.
    ///
    /// # Errors
    /// When it cannot be written. Nothing is half there then.
    pub fn put(&self, job: &str, entries: &[Entry]) -> Result<(), JournalError> {
        fs::create_dir_all(&self.dir).map_err(io("create", &self.dir))?;
        let lines: String = entries.iter().map(|e| text(&Line { job: job.to_owned(), entry: e.clone() })).collect();
        let path = self.path(job);
        let beside = self.dir.join(format!("{job}.{}.part", std::process::id()));
        let written = fs::write(&beside, lines).and_then(|()| fs::rename(&beside, &path));
        written.map_err(|e| {
            let _ = fs::remove_file(&beside);
            io("write", &path)(e)
        })
    }
}
