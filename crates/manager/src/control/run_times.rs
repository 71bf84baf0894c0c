//! Which time threads had on cores, as the kernel counts it.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

/// Nanoseconds that threads had a core, `/proc/TID/schedstat`. The files stay open: finding them costs more than reading.
#[derive(Default)]
pub struct RunTimes {
    files: BTreeMap<i32, std::fs::File>,
}

/// The most of these files that are kept open.
const MOST_KEPT: usize = 256;

impl RunTimes {
    /// Nanoseconds that a thread has been on a core; none if it is gone.
    pub fn ns(&mut self, tid: i32) -> Option<u64> {
        let read = |file: &std::fs::File| {
            let mut text = [0; 64];
            let n = file.read_at(&mut text, 0).ok()?;
            std::str::from_utf8(text.get(..n)?).ok()?.split(' ').next()?.parse().ok()
        };
        if let Some(file) = self.files.get(&tid) {
            return read(file);
        }
        let file = std::fs::File::open(format!("/proc/{tid}/schedstat")).ok()?;
        let ns = read(&file);
        if self.files.len() < MOST_KEPT {
            self.files.insert(tid, file);
        }
        ns
    }

    /// The thread is gone; its number may be another's soon.
    pub fn forget(&mut self, tid: Option<i32>) {
        if let Some(tid) = tid {
            self.files.remove(&tid);
        }
    }
}
