//! Whether files have changed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What tells one state of a file from another: inode, length, time of change.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Files that are looked at again and again.
#[derive(Debug)]
pub(crate) struct Watch {
    files: Vec<File>,
    every_ns: u64,
    next_ns: u64,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    /// What was read last, and what was seen last.
    read: Stamp,
    seen: Stamp,
}

fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

impl Watch {
    pub fn new(files: impl IntoIterator<Item = PathBuf>, every_s: u32) -> Self {
        let file = |path: PathBuf| {
            let now = stamp(&path);
            File { path, read: now, seen: now }
        };
        Self { files: files.into_iter().map(file).collect(), every_ns: u64::from(every_s) * 1_000_000_000, next_ns: 0 }
    }

    /// Whether there is anything to look at.
    pub fn looks(&self) -> bool {
        self.every_ns > 0 && !self.files.is_empty()
    }

    /// Whether the files are to be read again. They are when they were the same at two looks, so that half of a file that
    /// is being written is not taken for the whole.
    pub fn look(&mut self, now_ns: u64) -> bool {
        if !self.looks() || now_ns < self.next_ns {
            return false;
        }
        self.next_ns = now_ns.saturating_add(self.every_ns);
        let (mut changed, mut steady) = (false, true);
        for file in &mut self.files {
            let now = stamp(&file.path);
            // A file that is gone for a moment, while an editor puts another in its place, is no change.
            steady &= now.is_some() && now == file.seen;
            changed |= now != file.read;
            file.seen = now;
        }
        if changed && steady {
            self.files.iter_mut().for_each(|file| file.read = file.seen);
        }
        changed && steady
    }
}
