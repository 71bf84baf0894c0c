//! The kernel's files, below a root that tests can set.

use std::path::{Path, PathBuf};

/// Where to look.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
    runtime_dirs: Vec<String>,
}

impl Default for Host {
    /// This host.
    fn default() -> Self {
        Self::at("/")
    }
}

impl Host {
    /// A host whose files lie below `root`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), runtime_dirs: vec!["/run".into(), "/tmp".into()] }
    }

    /// Besides `/run` and `/tmp`, a directory for the state of running programs: `$XDG_RUNTIME_DIR`.
    #[must_use]
    pub fn with_runtime_dir(mut self, dir: impl Into<String>) -> Self {
        self.runtime_dirs.push(dir.into());
        self
    }

    pub(crate) fn runtime_dirs(&self) -> &[String] {
        &self.runtime_dirs
    }

    /// `path`, which may begin with `/`, below the root.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file's text without white space at its ends; `None` if it is not there or not readable.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = std::fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file that holds one number.
    pub(crate) fn number(&self, path: impl AsRef<Path>) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// The names in a directory, sorted; none if it is not there.
    pub(crate) fn names(&self, dir: impl AsRef<Path>) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(dir)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Whether a path is there.
    pub(crate) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// A field of /proc/self/status.
    pub(crate) fn own_status(&self, field: &str) -> Option<String> {
        self.status_of("self", field)
    }

    /// A field of a process's status, proc_pid_status(5).
    pub(crate) fn status_of(&self, process: &str, field: &str) -> Option<String> {
        let text = self.text(format!("/proc/{process}/status"))?;
        text.lines().find_map(|l| Some(l.strip_prefix(field)?.strip_prefix(':')?.trim().to_owned()))
    }
}

/// The numbers in a list of the kernel's form, `0-3,8`. Malformed parts and absurd ranges count for nothing.
pub(crate) fn cpu_list(text: &str) -> Vec<u32> {
    const MOST: u32 = 1 << 16;
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        (last < MOST).then_some(first..=last)
    };
    text.split(',').filter_map(part).flatten().collect()
}

/// The chosen word of a list such as `always [madvise] never`.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|w| w.strip_prefix('[')?.strip_suffix(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(cpu_list("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(cpu_list(""), [0; 0]);
        assert_eq!(cpu_list("x,1-,5-3,7,0-4294967295"), [7]);
    }

    #[test]
    fn the_chosen_word() {
        assert_eq!(chosen("always within_size advise [never] deny force"), Some("never"));
        assert_eq!(chosen("always never"), None);
    }
}
