//! What became of the files of an NF.

use chainline_nf::{Errno, FileSpec};
use serde::{Deserialize, Serialize};

/// The storage of one NF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StorageReport {
    /// `io_uring`, `thread` and why, or `blocking`: the NF's instance waited for each batch.
    pub engine: String,
    /// Its files in the order of opening.
    pub files: Vec<FileReport>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FileReport {
    /// Its path.
    pub path: String,
    /// Bytes that are in the file.
    pub bytes_written: u64,
    /// Batches that they were written in.
    pub writes: u64,
    /// Times that the file began anew at its limit.
    pub begun_anew: u64,
    /// Bytes that could not be written.
    pub bytes_lost: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Reads.
    pub reads: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Why the last of them failed.
    pub last_error: Option<String>,
}

impl FileReport {
    pub(crate) fn new(spec: &FileSpec) -> Self {
        Self {
            path: spec.path.display().to_string(),
            bytes_written: 0,
            writes: 0,
            begun_anew: 0,
            bytes_lost: 0,
            bytes_read: 0,
            reads: 0,
            errors: 0,
            last_error: None,
        }
    }

    pub(crate) fn fail(&mut self, e: Errno) {
        self.errors += 1;
        // A disk that stays full says so only once.
        let words = e.to_string();
        if self.last_error.as_ref() != Some(&words) {
            self.last_error = Some(words);
        }
    }
}
