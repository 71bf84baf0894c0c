//! Where sockets are: the directory, their names, who still listens.

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// The directory's name below the host's place for such things.
const DIR: &str = "chainline";
const ENDING: &str = ".sock";

/// Where a run is to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketPath {
    /// In the usual directory, under the run's name and process id.
    Usual,
    /// Here.
    At(PathBuf),
}

/// A socket that nobody reads yet; removed when dropped.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: UnixListener,
    path: PathBuf,
    /// Set if the directory is ours to remove.
    dir: Option<PathBuf>,
}

impl Listener {
    /// Makes the socket, with mode 0600, and removes those in the usual directory that killed runs left.
    ///
    /// # Errors
    /// When the directory cannot be had or is somebody else's, the path is taken or too long.
    pub fn bind(at: &SocketPath, name: &str) -> io::Result<Self> {
        match at {
            SocketPath::At(path) => {
                remove_stale(path)?;
                Ok(Self { socket: open(path)?, path: path.clone(), dir: None })
            }
            SocketPath::Usual => {
                let mut last = io::Error::from(io::ErrorKind::NotFound);
                for dir in dirs() {
                    // Another run that ends may remove the directory just now.
                    for _ in 0..8 {
                        match Self::in_dir(&dir, name) {
                            Ok(this) => return Ok(this),
                            Err(e) if e.kind() == io::ErrorKind::NotFound => last = e,
                            Err(e) => {
                                last = e;
                                break;
                            }
                        }
                    }
                }
                Err(last)
            }
        }
    }

    fn in_dir(dir: &Path, name: &str) -> io::Result<Self> {
        own(dir)?;
        for run in in_dir(dir) {
            // Whoever listens stays; one that cannot be told is left alone.
            let _ =
                remove_stale(&run.path).or_else(|e| if e.kind() == io::ErrorKind::AddrInUse { Ok(()) } else { Err(e) });
        }
        let path = dir.join(format!("{name}-{}{ENDING}", std::process::id()));
        Ok(Self { socket: open(&path)?, path, dir: Some(dir.to_owned()) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have been removed by hand; and the directory has others' sockets.
        let _ = std::fs::remove_file(&self.path);
        if let Some(dir) = &self.dir {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

fn open(path: &Path) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path).map_err(|e| {
        let what = "the path of a UNIX socket has at most 107 bytes";
        if e == Errno::NAMETOOLONG { io::Error::new(io::ErrorKind::InvalidInput, what) } else { e.into() }
    })?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file gets the mode that the socket has when it is bound: there is no moment in which others may connect.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Makes a directory that is this user's alone, or makes sure that it is.
fn own(dir: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => is_own(dir),
        other => other,
    }
}

/// Refuses a directory that is somebody else's, or that others may write to.
fn is_own(dir: &Path) -> io::Result<()> {
    // Not through a link that somebody else made.
    let found = std::fs::symlink_metadata(dir)?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
    let what = format!("{} is not a directory that only this user may write to", dir.display());
    if own { Ok(()) } else { Err(io::Error::new(io::ErrorKind::PermissionDenied, what)) }
}

/// Removes a socket whose owner is dead. A file that is no socket stays, and so does one whose owner lives.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !found.file_type().is_socket() {
        let what = format!("{} is there and no socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    match UnixStream::connect(path) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => match std::fs::remove_file(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) => {
            let what = format!("somebody listens at {} already", path.display());
            Err(io::Error::new(io::ErrorKind::AddrInUse, what))
        }
        Err(e) => Err(e),
    }
}

/// The directories in the order of preference.
fn dirs() -> Vec<PathBuf> {
    let user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|d| d.is_absolute());
    let uid = rustix::process::geteuid().as_raw();
    user.map(|d| d.join(DIR))
        .into_iter()
        .chain([Path::new("/run").join(DIR), std::env::temp_dir().join(format!("{DIR}-{uid}"))])
        .collect()
}

/// The directory for what runs leave word of, made if there is none: the one where [`SocketPath::Usual`] is. Whoever writes
/// there removes its file when it ends, and the directory if that is empty then.
///
/// # Errors
/// When it cannot be had or is somebody else's.
pub fn run_dir() -> io::Result<PathBuf> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for dir in dirs() {
        match own(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// The directories that [`run_dir`] can have been for this user's runs, and that are there.
#[must_use]
pub fn run_dirs() -> Vec<PathBuf> {
    dirs().into_iter().filter(|dir| is_own(dir).is_ok()).collect()
}

/// A run that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// `metadata.name`.
    pub name: String,
    /// The manager's process.
    pub pid: u32,
    /// Its socket.
    pub path: PathBuf,
}

/// The runs on this host that listen in the usual directories and that this user may ask.
#[must_use]
pub fn runs() -> Vec<Run> {
    let all = dirs().into_iter().flat_map(|dir| in_dir(&dir));
    let mut found: Vec<Run> = all.filter(|run| UnixStream::connect(&run.path).is_ok()).collect();
    found.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
    found
}

fn in_dir(dir: &Path) -> Vec<Run> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let run = |path: PathBuf| {
        let stem = path.file_name()?.to_str()?.strip_suffix(ENDING)?;
        let (name, pid) = stem.rsplit_once('-')?;
        Some(Run { name: name.to_owned(), pid: pid.parse().ok()?, path })
    };
    entries.filter_map(|e| run(e.path())).collect()
}
