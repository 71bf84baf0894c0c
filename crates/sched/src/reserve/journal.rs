//! What was moved, written down for the next manager, should this one be killed.
//!
//! A file `reserved-PID` in a directory that only this user may write to. Its owner holds a lock on it, which goes with the
//! owner however that dies: a file that can be locked has no owner any more. It begins with what thread ids depend on, the
//! boot and the namespace of processes; then comes a line for each thread:
//!
//! ```text
//! chainline-reserved 1
//! 6f1b5a4e-…  pid:[4026531836]
//! TID STARTED BEFORE NOW          e.g. 4711 1234567 0,1,2,3 0,2,3
//! ```
//!
//! A line is written before its thread is moved, so there may be lines of threads that never were; they do not stand where
//! the line says, and are left alone.

use super::Moved;
use crate::task::pin;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const PREFIX: &str = "reserved-";
const HEAD: &str = "chainline-reserved 1";
/// The longest file that is read; a line has some tens of bytes.
const LONGEST: u64 = 64 << 20;

/// The file of a manager that lives. Dropping it removes it.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Begins one in `dir`, which is there and must be this user's alone. A process has one at a time.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(dir: &Path) -> io::Result<Self> {
        let path = dir.join(format!("{PREFIX}{}", std::process::id()));
        // Locked before it has its name: who looks for files without an owner must not find this one.
        let nameless = dir.join(format!(".{PREFIX}{}", std::process::id()));
        let mut file = File::create(&nameless)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(format!("{HEAD}\n{}\n", place()?).as_bytes())?;
        std::fs::rename(&nameless, &path)?;
        Ok(Self { file, path })
    }

    /// Adds a thread.
    pub(super) fn note(&mut self, moved: &Moved) -> io::Result<()> {
        let Moved { tid, started, before, now } = moved;
        let line = format!("{tid} {started} {} {}\n", list(before), list(now));
        self.file.write_all(line.as_bytes())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What was found of a manager that was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutBack {
    /// Its process.
    pub pid: u32,
    /// Threads that are back on the cores that it had moved them off.
    pub threads: usize,
    /// Threads that this process may not move: their line stays for who may.
    pub refused: usize,
}

impl std::fmt::Display for PutBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pid, threads, refused } = self;
        write!(f, "{threads} threads are back on cores that a manager had reserved which was killed (process {pid})")?;
        if *refused > 0 {
            write!(f, "; {refused} may not be moved by this user")?;
        }
        Ok(())
    }
}

/// Puts threads back that killed managers had moved, as the files in `dir` say, which must be this user's alone. Only
/// threads that were started when the file says, and stand where it says, are touched. Files of those that live, of another
/// namespace and of another format stay.
#[must_use]
pub fn put_back(dir: &Path) -> Vec<PutBack> {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PutBack> = names.filter_map(|entry| put_back_one(&entry.path())).collect();
    found.sort_by_key(|f| f.pid);
    found
}

fn put_back_one(path: &Path) -> Option<PutBack> {
    let pid = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok()?;
    let file = File::open(path).ok().filter(|f| f.metadata().is_ok_and(|m| m.is_file()))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let mut text = String::new();
    (&file).take(LONGEST).read_to_string(&mut text).ok()?;
    let rest = text.strip_prefix(HEAD)?.strip_prefix('\n')?;
    let (there, lines) = rest.split_once('\n')?;
    let here = place().ok()?;
    // Ids of another boot mean nothing any more; those of another namespace mean something there.
    let boot = |place: &str| place.split(' ').next().map(str::to_owned);
    let same_boot = boot(there) == boot(&here);
    if same_boot && there != here {
        return None;
    }
    let mut this = PutBack { pid, threads: 0, refused: 0 };
    // The last line may be torn.
    for moved in lines.split_inclusive('\n').filter(|l| same_boot && l.ends_with('\n')).filter_map(line) {
        match moved.stands().then(|| pin(Some(moved.tid), &moved.before)) {
            Some(Ok(())) => this.threads += 1,
            Some(Err(e)) if e.errno == Errno::PERM => this.refused += 1,
            _ => {}
        }
    }
    if this.refused == 0 {
        let _ = std::fs::remove_file(path);
    }
    (this.threads + this.refused > 0).then_some(this)
}

/// The boot and the namespace of processes, which thread ids depend on.
fn place() -> io::Result<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let namespace = std::fs::read_link("/proc/self/ns/pid")?;
    Ok(format!("{} {}", boot.trim(), namespace.display()))
}

fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn line(text: &str) -> Option<Moved> {
    let mut words = text.split_whitespace();
    let cores = |word: &str| word.split(',').map(|c| c.parse().ok()).collect::<Option<Vec<usize>>>();
    let (tid, started) = (words.next()?.parse().ok().filter(|tid| *tid > 0)?, words.next()?.parse().ok()?);
    let moved = Moved { tid, started, before: cores(words.next()?)?, now: cores(words.next()?)? };
    words.next().is_none().then_some(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let moved = Moved { tid: 4711, started: 99, before: vec![0, 1, 17], now: vec![0, 17] };
        let Moved { tid, started, before, now } = &moved;
        assert_eq!(line(&format!("{tid} {started} {} {}\n", list(before), list(now))), Some(moved));
        for bad in ["", "1 2 3", "1 2 3 x", "0 2 3 4", "-1 2 3 4", "1 2 , 3", "1 2 3 4 5"] {
            assert_eq!(line(bad), None, "{bad}");
        }
    }
}
