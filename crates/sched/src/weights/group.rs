//! Control groups of a manager: where they lie, who owns them, how they go.
//!
//! All groups of a manager lie in one of its own, `chainline-PID`, on which it holds a file lock as long as it lives.
//! The kernel lets go of the lock with the process, however it dies: so a group that can be locked has no owner any more
//! and is removed by the next manager. What still runs in it is moved up first.

use super::WeightError;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// How the private parent's name begins.
const PREFIX: &str = "chainline-";

/// Where this process's control groups are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts {
    /// The group that this process is in, in the version 2 hierarchy, if that has the cpu controller.
    pub v2: Option<PathBuf>,
    /// The same in the version 1 hierarchy with the cpu controller.
    pub v1: Option<PathBuf>,
}

impl Mounts {
    /// Asks the kernel.
    #[must_use]
    pub fn find() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self::from_text(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    /// As the two files of proc_pid_mountinfo(5) and cgroups(7) say. A group above the mount's root, as a container may
    /// see it, is taken for the mount itself.
    #[must_use]
    pub fn from_text(mountinfo: &str, own: &str) -> Self {
        let mut this = Self::default();
        for line in mountinfo.lines() {
            // … (4) root (5) mount point … - (9) type (10) source (11) super options
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let (mut before, mut after) = (before.split(' ').skip(3), after.split(' '));
            let (Some(root), Some(point), Some(kind)) = (before.next(), before.next(), after.next()) else { continue };
            let v1_cpu = after.nth(1).unwrap_or("").split(',').any(|o| o == "cpu");
            let group = own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':');
                let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
                let ours = match kind {
                    "cgroup2" => number == "0" && controllers.is_empty(),
                    _ => controllers.split(',').any(|c| c == "cpu"),
                };
                ours.then_some(path)
            });
            let Some(group) = group else { continue };
            // Inside a container, the mount's root is the container's group.
            let below = group.strip_prefix(root.trim_end_matches('/')).unwrap_or("").trim_start_matches('/');
            let below = if below.split('/').any(|p| p == "..") { "" } else { below };
            let path = if below.is_empty() { PathBuf::from(point) } else { Path::new(point).join(below) };
            match kind {
                "cgroup2" if has_word(&path.join("cgroup.controllers"), "cpu") => this.v2 = Some(path),
                "cgroup" if v1_cpu => this.v1 = Some(path),
                _ => {}
            }
        }
        this
    }
}

/// Whether a file lists a word.
pub(super) fn has_word(file: &Path, word: &str) -> bool {
    std::fs::read_to_string(file).is_ok_and(|t| t.split_whitespace().any(|w| w == word))
}

/// Writes a value to a kernel file, which must be there.
pub(super) fn write(path: &Path, value: impl ToString) -> Result<(), WeightError> {
    let open = std::fs::OpenOptions::new().write(true).open(path);
    open.and_then(|mut f| f.write_all(value.to_string().as_bytes())).map_err(WeightError::file(path))
}

/// A kernel file that is written again and again: it stays open, since finding it by its path costs more than the write.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// What was last written; 0: nothing that is still in force.
    pub last: u64,
    file: Option<File>,
}

impl Kept {
    /// Writes a number. `keep`: there are files enough to leave this one open.
    pub fn write(&mut self, path: impl FnOnce() -> PathBuf, value: u64, keep: bool) -> Result<(), WeightError> {
        let text = value.to_string();
        if let Some(file) = &self.file {
            // A group that vanished refuses; so does one that was made again under its name, by having another file.
            if file.write_all_at(text.as_bytes(), 0).is_ok() {
                self.last = value;
                return Ok(());
            }
            self.file = None;
        }
        let path = path();
        let open = std::fs::OpenOptions::new().write(true).open(&path);
        let written = open.and_then(|file| file.write_all_at(text.as_bytes(), 0).map(|()| file));
        let file = written.map_err(WeightError::file(path))?;
        self.last = value;
        self.file = keep.then_some(file);
        Ok(())
    }
}

/// A number from a kernel file.
pub(super) fn read(path: &Path) -> Result<i64, WeightError> {
    let text = std::fs::read_to_string(path).map_err(WeightError::file(path))?;
    let number = text.trim().parse();
    number.map_err(|_| WeightError::Cannot(format!("{}: found {:?}, expected a number", path.display(), text.trim())))
}

/// The private parent of a manager's groups.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    base: PathBuf,
    /// Locked as long as the manager lives.
    _lock: File,
    /// The file that tasks are moved by: `tasks` or `cgroup.procs`.
    tasks: &'static str,
}

impl Home {
    /// Makes `base/chainline-PID` and locks it. A process with several managers has several.
    pub fn create(base: &Path, tasks: &'static str) -> Result<Self, WeightError> {
        let pid = std::process::id();
        let mut last = None;
        for n in 0..100 {
            let name = if n == 0 { format!("{PREFIX}{pid}") } else { format!("{PREFIX}{pid}-{n}") };
            let path = base.join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(source) => return Err(WeightError::File { path, source }),
            }
            // Another manager that cleans up may be in between: then the group is gone, or locked.
            let lock = File::open(&path).and_then(|f| {
                flock(&f, FlockOperation::NonBlockingLockExclusive)?;
                Ok(f)
            });
            match lock {
                Ok(lock) if path.exists() => return Ok(Self { path, base: base.to_owned(), _lock: lock, tasks }),
                Ok(_) => {}
                Err(source) => last = Some(WeightError::File { path, source }),
            }
        }
        Err(last.unwrap_or_else(|| WeightError::Cannot(format!("{}: no free name", base.display()))))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The group of instance `id`.
    pub fn group(&self, id: usize) -> PathBuf {
        self.path.join(format!("instance-{id}"))
    }

    /// Makes that group if it is not there.
    pub fn ensure(&self, id: usize) -> Result<PathBuf, WeightError> {
        let group = self.group(id);
        match std::fs::create_dir_all(&group) {
            Err(e) if !group.is_dir() => Err(WeightError::file(group)(e)),
            _ => Ok(group),
        }
    }

    /// Moves what is in that group up and removes it.
    pub fn remove(&self, id: usize) {
        remove(&self.group(id), &self.base, self.tasks);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        remove(&self.path, &self.base, self.tasks);
    }
}

/// Groups of managers that are gone.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stale {
    /// Removed.
    pub removed: usize,
    /// Could not be removed.
    pub left: usize,
}

impl Stale {
    /// Removes those in `base`; `tasks` is the file that tasks are moved by.
    #[must_use]
    pub fn clean(base: &Path, tasks: &str) -> Self {
        let mut this = Self::default();
        for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|n| n.strip_prefix(PREFIX));
            if !owner.is_some_and(|o| o.starts_with(|c: char| c.is_ascii_digit())) || !entry.path().is_dir() {
                continue;
            }
            let Ok(dir) = File::open(entry.path()) else { continue };
            if flock(&dir, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue; // its owner lives
            }
            if remove(&entry.path(), base, tasks) { this.removed += 1 } else { this.left += 1 }
        }
        this
    }

    pub(super) fn remark(&self, base: &Path, remarks: &mut Vec<String>) {
        let groups = |n: usize| if n == 1 { "1 control group".to_owned() } else { format!("{n} control groups") };
        if self.removed > 0 {
            remarks.push(format!("removed {} that a killed manager left", groups(self.removed)));
        }
        if self.left > 0 {
            remarks.push(format!("{} in {} cannot be removed", groups(self.left), base.display()));
        }
    }
}

/// Removes a group and those in it, after moving their tasks to `base`. Returns whether it is gone.
fn remove(group: &Path, base: &Path, tasks: &str) -> bool {
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove(&entry.path(), base, tasks);
        }
    }
    for tid in std::fs::read_to_string(group.join(tasks)).unwrap_or_default().lines() {
        // One that ends in between is gone as well.
        let _ = write(&base.join(tasks), tid);
    }
    std::fs::remove_dir(group).is_ok() || !group.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                      33 31 0:30 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n";

    #[test]
    fn the_own_group_of_version_1() {
        let v1 = |mounts: &str, own: &str| Mounts::from_text(mounts, own).v1;
        assert_eq!(v1(V1, "3:cpuset:/x\n1:cpu:/\n0::/"), Some("/sys/fs/cgroup/cpu".into()));
        assert_eq!(v1(V1, "1:cpu,cpuacct:/a/b\n"), Some("/sys/fs/cgroup/cpu/a/b".into()));
        // In a container: the mount's root is the container's own group, or the group lies outside.
        let inside = V1.replace("0:29 / ", "0:29 /docker/4711 ");
        assert_eq!(v1(&inside, "1:cpu:/docker/4711\n"), Some("/sys/fs/cgroup/cpu".into()));
        assert_eq!(v1(&inside, "1:cpu:/docker/4711/sub\n"), Some("/sys/fs/cgroup/cpu/sub".into()));
        assert_eq!(v1(V1, "1:cpu:/../..\n"), Some("/sys/fs/cgroup/cpu".into()));
        assert_eq!(v1(V1, "0::/\n"), None);
        assert_eq!(Mounts::from_text("garbage\n - \n1 2 - cgroup2", "::\n"), Mounts::default());
    }
}
