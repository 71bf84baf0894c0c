//! The file of services, looked at again and again.

use crate::services::{self, Service};
use chainline_nf::Error;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// What tells one state of a file from another: inode, length, time of change.
type Stamp = Option<(u64, u64, i64, i64)>;

/// A file that is watched.
pub(crate) struct Watch {
    path: PathBuf,
    every_ns: u64,
    next_ns: u64,
    /// What was read last, and what was seen last.
    read: Stamp,
    seen: Stamp,
    /// Why the file as it is now is not in force.
    pub fault: Option<String>,
}

impl Watch {
    /// Reads the file, and looks at it every `every_s` seconds from then on.
    pub fn new(path: PathBuf, every_s: u32) -> Result<(Self, Vec<Service>), Error> {
        let mut watch = Self {
            path,
            every_ns: u64::from(every_s) * 1_000_000_000,
            next_ns: 0,
            read: None,
            seen: None,
            fault: None,
        };
        // Before it is read: a change in between is then seen as one.
        watch.read = watch.stamp();
        watch.seen = watch.read;
        let services = services::read(&watch.path)?;
        Ok((watch, services))
    }

    fn stamp(&self) -> Stamp {
        let meta = std::fs::metadata(&self.path).ok()?;
        Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
    }

    /// The file's services if it has changed, or that it is wrong. A changed file is read when it was the same at two
    /// looks, so that half of a file that is being written is not taken for the whole.
    pub fn look(&mut self, now_ns: u64) -> Option<Result<Vec<Service>, ()>> {
        if self.every_ns == 0 || now_ns < self.next_ns {
            return None;
        }
        self.next_ns = now_ns + self.every_ns;
        let stamp = self.stamp();
        let steady = stamp == self.seen;
        self.seen = stamp;
        // A file that is gone for a moment, while an editor puts another in its place, is no change.
        if stamp.is_none() || stamp == self.read || !steady {
            return None;
        }
        self.read = stamp;
        match services::read(&self.path) {
            Ok(services) => {
                self.fault = None;
                Some(Ok(services))
            }
            Err(e) => {
                self.fault = Some(e.to_string());
                Some(Err(()))
            }
        }
    }
}
