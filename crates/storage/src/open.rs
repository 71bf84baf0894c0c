//! Opening files as their specifications say.

use crate::engine::HERE;
use chainline_nf::{Access, FileSpec};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// Why a file could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}: {why}", path.display())]
pub struct OpenError {
    /// What was tried: `read`, `write to`, `begin`.
    pub doing: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The system's word, or ours.
    pub why: String,
}

/// An open file and where its next byte goes.
#[derive(Debug)]
pub(crate) struct Opened {
    pub fd: Arc<OwnedFd>,
    /// [`HERE`] if it has no places.
    pub end: u64,
}

pub(crate) fn open(spec: &FileSpec) -> Result<Opened, OpenError> {
    let fail = |doing| move |why: String| OpenError { doing, path: spec.path.clone(), why };
    match spec.access {
        Access::Read => {
            let fail = fail("read");
            let (fd, kind) = open_fd(spec, OFlags::RDONLY).map_err(|e| fail(io::Error::from(e).to_string()))?;
            if kind == FileType::Directory {
                return Err(fail("it is a directory; expected a file".into()));
            }
            Ok(Opened { fd, end: HERE })
        }
        Access::Append { keep } => {
            let why = fail("write to");
            let (fd, kind) =
                open_fd(spec, OFlags::WRONLY | OFlags::CREATE).map_err(|e| why(io::Error::from(e).to_string()))?;
            let mut end = HERE;
            if kind == FileType::RegularFile {
                end = cut(&fd, keep).map_err(|e| match e {
                    Errno::AGAIN => why("another instance writes to it; expected one writer a file".into()),
                    e => why(io::Error::from(e).to_string()),
                })?;
            }
            if let Err(e) = write_all(&fd, &spec.head, end) {
                if end != HERE {
                    // Half a head is worse than none.
                    let _ = rustix::fs::ftruncate(&fd, end);
                }
                return Err(fail("begin")(io::Error::from(e).to_string()));
            }
            Ok(Opened { fd, end: if end == HERE { HERE } else { end + spec.head.len() as u64 } })
        }
    }
}

fn open_fd(spec: &FileSpec, flags: OFlags) -> Result<(Arc<OwnedFd>, FileType), Errno> {
    // Without NONBLOCK a pipe or a device could hold the instance up for ever.
    let fd = rustix::fs::open(&spec.path, flags | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::from_raw_mode(0o644))?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
    rustix::fs::fcntl_setfl(&fd, rustix::fs::fcntl_getfl(&fd)? - OFlags::NONBLOCK)?;
    Ok((Arc::new(fd), kind))
}

/// Takes the file for this instance alone, and cuts it to the bytes that stay.
fn cut(fd: &OwnedFd, keep: Option<u64>) -> Result<u64, Errno> {
    rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive)?;
    let size = rustix::fs::fstat(fd)?.st_size.unsigned_abs();
    match keep {
        Some(keep) if keep < size => rustix::fs::ftruncate(fd, keep).map(|()| keep),
        _ => Ok(size),
    }
}

/// Writes all of it, at a place in the file or at none.
pub(crate) fn write_all(fd: impl AsFd, mut bytes: &[u8], mut at: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = if at == HERE { rustix::io::write(&fd, bytes) } else { rustix::io::pwrite(&fd, bytes, at) };
        match written {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => {
                bytes = &bytes[n..];
                at = if at == HERE { HERE } else { at + n as u64 };
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
