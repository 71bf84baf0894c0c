//! What this host has, and so what it cannot do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The cores that may be used, by socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// In ascending order; the first is the manager's.
    pub all: Vec<usize>,
    sockets: BTreeMap<usize, usize>,
    cpus: PathBuf,
}

impl Cores {
    /// What the kernel says of `cores`.
    #[must_use]
    pub fn of(cores: &[usize]) -> Self {
        Self::under(Path::new("/sys/devices/system/cpu"), cores)
    }

    pub(super) fn under(cpus: &Path, cores: &[usize]) -> Self {
        let socket = |core: usize| {
            let path = cpus.join(format!("cpu{core}/topology/physical_package_id"));
            fs::read_to_string(path).ok().and_then(|s| s.trim().parse().ok()).unwrap_or(0)
        };
        let sockets = cores.iter().map(|c| (*c, socket(*c))).collect();
        Self { all: cores.to_vec(), sockets, cpus: cpus.to_owned() }
    }

    /// The manager's.
    #[must_use]
    pub fn manager(&self) -> usize {
        self.all.first().copied().unwrap_or(0)
    }

    /// Those of NFs: all but the manager's, or that one if there is no other.
    #[must_use]
    pub fn nfs(&self) -> &[usize] {
        if self.all.len() > 1 { &self.all[1..] } else { &self.all }
    }

    /// Without the first, which becomes a tester's.
    pub(super) fn tested(&self) -> Self {
        Self { all: self.all.get(1..).unwrap_or_default().to_vec(), ..self.clone() }
    }

    /// NF cores of the first socket that has one, and of another; none if all are on one socket.
    pub(super) fn two_sockets(&self) -> Option<[usize; 2]> {
        let first = *self.nfs().first()?;
        let other = self.nfs().iter().find(|c| self.sockets.get(c) != self.sockets.get(&first))?;
        Some([first, *other])
    }

    /// Why the cores cannot be set to `mhz`; `None` if they can.
    pub(super) fn no_frequency(&self, mhz: u64) -> Option<String> {
        let dir = self.cpus.join(format!("cpu{}/cpufreq", self.manager()));
        let khz = |name: &str| fs::read_to_string(dir.join(name)).ok().and_then(|s| s.trim().parse::<u64>().ok());
        let (Some(low), Some(high)) = (khz("cpuinfo_min_freq"), khz("cpuinfo_max_freq")) else {
            return Some("this host does not let its cores' frequency be set: no cpufreq driver in the kernel".into());
        };
        if !(low..=high).contains(&(mhz * 1000)) {
            return Some(format!("this host's cores run at {} to {} MHz", low / 1000, high / 1000));
        }
        None
    }

    /// Sets the cores to `mhz` until the value is dropped.
    ///
    /// # Errors
    /// The system's word, with the file; root is needed.
    pub fn set_frequency(&self, mhz: u64) -> Result<Frequency, String> {
        let mut set = Frequency { before: Vec::new() };
        for core in &self.all {
            // The upper limit first: the lower one may not be above it, so both directions need two goes.
            for name in ["scaling_max_freq", "scaling_min_freq", "scaling_max_freq"] {
                let path = self.cpus.join(format!("cpu{core}/cpufreq/{name}"));
                let cannot = |e: std::io::Error| format!("cannot set {}: {e}", path.display());
                let before = fs::read_to_string(&path).map_err(cannot)?;
                if !set.before.iter().any(|(p, _)| *p == path) {
                    set.before.push((path.clone(), before));
                }
                let written = fs::write(&path, format!("{}\n", mhz * 1000));
                // The last go is the one that counts.
                if name == "scaling_min_freq" {
                    written.map_err(cannot)?;
                }
            }
        }
        Ok(set)
    }
}

/// Cores at another frequency than before.
#[derive(Debug)]
pub struct Frequency {
    before: Vec<(PathBuf, String)>,
}

impl Drop for Frequency {
    fn drop(&mut self) {
        // Twice, since a lower limit above the upper one is refused.
        for _ in 0..2 {
            for (path, before) in &self.before {
                let _ = fs::write(path, before);
            }
        }
    }
}
