//! cgroup version 2: `cpu.weight`, a group for each instance.
//!
//! The private parent lies where the controller is handed down: in the manager's own group if that can have inner groups
//! (it is the root, or has only threads), else beside it. `systemd-run --scope -p Delegate=yes` gives an unprivileged
//! manager a place for it.
//!
//! Threads of the manager cannot have groups of their own here (a group takes whole processes unless all around it is
//! threaded): they are refused, and the caller gives them nice values.

use super::group::{Home, Kept, Stale, has_word, read, write};
use super::{Backend, Kind, Member, WeightError, scaled, set_each};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const LEAST: u64 = 1;
const MOST: u64 = 10_000;
/// Members' weights are ten times finer than our units: they count among each other only.
const FINE: f64 = 10.0;

/// See the module.
#[derive(Debug)]
pub struct V2 {
    home: Home,
    /// What was last written, by member.
    members: BTreeMap<usize, Kept>,
}

impl V2 {
    /// Makes the private parent for a manager in group `own`, and removes what killed managers left there.
    ///
    /// # Errors
    /// When the controller is handed down nowhere near, or groups cannot be made.
    pub fn create(own: &Path, remarks: &mut Vec<String>) -> Result<Self, WeightError> {
        let mut refused = None;
        for base in [Some(own), own.parent()].into_iter().flatten() {
            match Self::in_base(base, remarks) {
                Ok(this) => return Ok(this),
                Err(e) => _ = refused.get_or_insert(e),
            }
        }
        Err(refused.unwrap_or_else(|| WeightError::Cannot("no group".to_owned())))
    }

    fn in_base(base: &Path, remarks: &mut Vec<String>) -> Result<Self, WeightError> {
        hand_down(base)?;
        Stale::clean(base, "cgroup.procs").remark(base, remarks);
        let home = Home::create(base, "cgroup.procs")?;
        hand_down(home.path())?;
        Ok(Self { home, members: BTreeMap::new() })
    }

    /// The private parent.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    fn weight(&self, id: usize) -> PathBuf {
        self.home.group(id).join("cpu.weight")
    }

    fn resize(&self) -> Result<(), WeightError> {
        write(&self.home.path().join("cpu.weight"), (100 * self.members.len().max(1) as u64).min(MOST))
    }
}

/// Sees to it that the groups in `group` have the cpu controller.
fn hand_down(group: &Path) -> Result<(), WeightError> {
    let file = group.join("cgroup.subtree_control");
    if has_word(&file, "cpu") { Ok(()) } else { write(&file, "+cpu") }
}

impl Backend for V2 {
    fn kind(&self) -> Kind {
        Kind::V2
    }

    fn enter(&mut self, member: &Member) -> Result<(), WeightError> {
        if member.thread {
            return Err(WeightError::Cannot(
                "a thread of the manager has no group of its own in cgroup version 2".to_owned(),
            ));
        }
        let group = self.home.ensure(member.id)?;
        let idle = group.join("cpu.idle");
        let (is_idle, wants_idle) = (read(&idle).unwrap_or(0), i64::from(member.policy == crate::Policy::Idle));
        if is_idle != wants_idle {
            write(&idle, wants_idle)?;
        }
        write(&group.join("cgroup.procs"), member.tid)?;
        self.members.insert(member.id, Kept::default());
        self.resize()
    }

    fn set(&mut self, weights: &[(usize, f64)]) -> Vec<Result<(), WeightError>> {
        let whole = scaled(weights, FINE, LEAST, MOST);
        let new = weights.iter().zip(whole).map(|((id, _), weight)| (*id, weight));
        set_each(&mut self.members, new, |id| self.home.group(id).join("cpu.weight"))
    }

    fn get(&self, id: usize) -> Result<f64, WeightError> {
        Ok(read(&self.weight(id))? as f64 / FINE)
    }

    fn leave(&mut self, id: usize) {
        self.home.remove(id);
        if self.members.remove(&id).is_some() {
            let _ = self.resize();
        }
    }
}
