//! The slice of `SCHED_RR`: one number for the whole system (`sched_rr_timeslice_ms`), so it is put back.

use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel keeps it.
pub const FILE: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";

/// The changed slice; dropping it puts the old one back.
#[derive(Debug)]
pub struct RrSlice {
    file: PathBuf,
    before: String,
    ms: u32,
}

impl RrSlice {
    /// Sets the system's slice to `ms` milliseconds; `file` is [`FILE`] but in tests.
    ///
    /// # Errors
    /// When the kernel has no such file or it may not be written.
    pub fn set(file: &Path, ms: u32) -> io::Result<Self> {
        let before = std::fs::read_to_string(file)?.trim().to_owned();
        std::fs::write(file, ms.to_string())?;
        // The kernel counts in ticks and says what that came to.
        let got = std::fs::read_to_string(file)?.trim().parse().unwrap_or(ms);
        Ok(Self { file: file.to_owned(), before, ms: got })
    }

    /// What is in force, in milliseconds.
    #[must_use]
    pub fn ms(&self) -> u32 {
        self.ms
    }

    /// What was in force before.
    #[must_use]
    pub fn before(&self) -> &str {
        &self.before
    }
}

impl Drop for RrSlice {
    fn drop(&mut self) {
        // Somebody else's later word stays.
        let now = std::fs::read_to_string(&self.file).unwrap_or_default();
        if now.trim() == self.ms.to_string() {
            let _ = std::fs::write(&self.file, &self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_put_back_unless_changed_since() {
        let dir = std::env::temp_dir().join(format!("chainline-rr-{}", std::process::id()));
        std::fs::write(&dir, "100\n").unwrap();
        let slice = RrSlice::set(&dir, 5).unwrap();
        assert_eq!((slice.ms(), slice.before()), (5, "100"));
        drop(slice);
        assert_eq!(std::fs::read_to_string(&dir).unwrap(), "100");
        let slice = RrSlice::set(&dir, 5).unwrap();
        std::fs::write(&dir, "7").unwrap();
        drop(slice);
        assert_eq!(std::fs::read_to_string(&dir).unwrap(), "7");
        std::fs::remove_file(&dir).unwrap();
        assert!(RrSlice::set(&dir, 5).is_err());
    }
}
