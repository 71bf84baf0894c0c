//! A file in memory, for readers that want a path.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Leaves nothing behind, however the run ends.
pub struct MemFile(File);

impl MemFile {
    pub fn new(content: &[u8]) -> Self {
        let mut file = File::from(memfd_create("chainline-fuzz", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(content).unwrap();
        Self(file)
    }

    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}
