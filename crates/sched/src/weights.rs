//! CPU weights: how the kernel is told which instance is to get which part of a core.
//!
//! One trait, [`Backend`], and behind it cgroup v2 (`cpu.weight`), cgroup v1 (`cpu.shares`), nice values, or nothing.
//! [`detect`] takes the first that works here and says why the ones before it do not. Tasks in a control group are in no
//! automatic task group of the kernel (`sched_autogroup`), so these are out of the way for the first two; nice values
//! count inside one session only, which all NFs of one manager are in.
//!
//! Weights are in the units of cgroup v2, where 100 is usual.

mod group;
mod nice;
mod v1;
mod v2;

pub use group::{Mounts, Stale};
pub use nice::Nice;
pub use v1::V1;
pub use v2::V2;

use group::Kept;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Which back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kind {
    /// `cpu.weight` of cgroup version 2.
    #[serde(rename = "cgroup v2 cpu.weight")]
    V2,
    /// `cpu.shares` of cgroup version 1.
    #[serde(rename = "cgroup v1 cpu.shares")]
    V1,
    /// Nice values.
    #[serde(rename = "nice")]
    Nice,
    /// Nothing works here: everybody has the same weight.
    #[serde(rename = "none")]
    None,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V2 => "cgroup v2 cpu.weight",
            Self::V1 => "cgroup v1 cpu.shares",
            Self::Nice => "nice",
            Self::None => "none",
        })
    }
}

/// An instance as the kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number in the run, and so the name of its group.
    pub id: usize,
    /// The thread that works.
    pub tid: i32,
    /// Whether it is a thread of the manager and not a process of its own.
    pub thread: bool,
    /// Its policy: groups treat `idle` and the real-time policies apart.
    pub policy: crate::Policy,
}

/// A weight could not be set.
#[derive(Debug, thiserror::Error)]
pub enum WeightError {
    /// A file of the kernel's.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// This back end cannot do it at all.
    #[error("{0}")]
    Cannot(String),
}

impl WeightError {
    fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

/// A way to tell the kernel. All calls come from one thread; none is on the data path. Dropping it undoes everything.
pub trait Backend: Send + fmt::Debug {
    /// Which it is.
    fn kind(&self) -> Kind;

    /// Takes an instance in, or again after its policy changed or it was started again.
    ///
    /// # Errors
    /// What the kernel refused; the instance then runs where it was.
    fn enter(&mut self, member: &Member) -> Result<(), WeightError>;

    /// Sets the weights of instances that can meet on a core, those of one call being in proportion to each other.
    /// Returns for each whether it was set: one that vanished does not hold up the others.
    fn set(&mut self, weights: &[(usize, f64)]) -> Vec<Result<(), WeightError>>;

    /// The weight in force, read back from the kernel.
    ///
    /// # Errors
    /// When the kernel does not say.
    fn get(&self, id: usize) -> Result<f64, WeightError>;

    /// The instance is gone.
    fn leave(&mut self, id: usize);
}

/// Everybody alike.
#[derive(Debug)]
pub struct Nothing;

impl Backend for Nothing {
    fn kind(&self) -> Kind {
        Kind::None
    }
    fn enter(&mut self, _: &Member) -> Result<(), WeightError> {
        Ok(())
    }
    fn set(&mut self, weights: &[(usize, f64)]) -> Vec<Result<(), WeightError>> {
        weights.iter().map(|_| Ok(())).collect()
    }
    fn get(&self, _: usize) -> Result<f64, WeightError> {
        Ok(crate::shares::USUAL)
    }
    fn leave(&mut self, _: usize) {}
}

/// What [`detect`] came to.
#[derive(Debug)]
pub struct Detected {
    /// The back end.
    pub backend: Box<dyn Backend>,
    /// What an operator should know: why a better back end is not it, and what was cleaned up.
    pub remarks: Vec<String>,
}

/// Takes the best back end of this host, and removes groups that killed managers left.
#[must_use]
pub fn detect(mounts: &Mounts) -> Detected {
    let mut remarks = Vec::new();
    if let Some(base) = &mounts.v2 {
        match V2::create(base, &mut remarks) {
            Ok(v2) => return Detected { backend: Box::new(v2), remarks },
            Err(e) => remarks.push(format!("no weights through cgroup version 2: {e}")),
        }
    }
    if let Some(base) = &mounts.v1 {
        match V1::create(base, &mut remarks) {
            Ok(v1) => return Detected { backend: Box::new(v1), remarks },
            Err(e) => remarks.push(format!("no weights through cgroup version 1: {e}")),
        }
    }
    if mounts.v1.is_none() && mounts.v2.is_none() {
        remarks.push("no weights through control groups: no cpu controller is mounted".to_owned());
    }
    match Nice::create() {
        Ok(nice) => Detected { backend: Box::new(nice), remarks },
        Err(e) => {
            remarks.push(format!("no weights through nice values: {e}; NFs share their cores evenly"));
            Detected { backend: Box::new(Nothing), remarks }
        }
    }
}

/// Weights in whole units of a file with limits: as fine as they allow, in proportion to each other.
fn scaled(weights: &[(usize, f64)], unit: f64, least: u64, most: u64) -> Vec<u64> {
    let largest = weights.iter().map(|(_, w)| *w).fold(0.0, f64::max);
    let unit = if largest * unit > most as f64 { most as f64 / largest } else { unit };
    weights.iter().map(|(_, w)| ((w * unit).round() as u64).clamp(least, most)).collect()
}

/// The most files of weights that are kept open: a process may usually have 1,024 files.
const MOST_KEPT: usize = 256;

/// Writes weights that differ enough from what was last written to matter: a write costs microseconds.
fn set_each(
    written: &mut BTreeMap<usize, Kept>,
    new: impl Iterator<Item = (usize, u64)>,
    file: impl Fn(usize) -> PathBuf,
) -> Vec<Result<(), WeightError>> {
    let keep = written.len() <= MOST_KEPT;
    let set = |(id, weight): (usize, u64)| {
        let kept = written.entry(id).or_default();
        if kept.last > 0 && !crate::shares::differs(kept.last as f64, weight as f64) {
            return Ok(());
        }
        kept.write(|| file(id), weight, keep)
    };
    new.map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::scaled;

    #[test]
    fn proportions_survive_limits() {
        assert_eq!(scaled(&[(0, 100.0), (1, 50.0)], 10.0, 1, 10_000), [1000, 500]);
        assert_eq!(scaled(&[(0, 10_000.0), (1, 5_000.0)], 10.0, 1, 10_000), [10_000, 5_000]);
        assert_eq!(scaled(&[(0, 1e-9), (1, 100.0)], 10.0, 1, 10_000), [1, 1000]);
        assert_eq!(scaled(&[], 10.0, 1, 10_000), [0u64; 0]);
    }
}
