//! cgroup version 1: `cpu.shares`, a group for each instance.
//!
//! A group's share of a core counts against its siblings only, so the private parent gets the shares of all its members
//! together: NFs stand against the rest of the host as they would without groups.
//!
//! Real-time threads stay in the manager's own group: a new group has no real-time budget (`cpu.rt_runtime_us` is 0, and
//! `SCHED_FIFO` and `SCHED_RR` are refused in it). If the manager's own group has none either, one is asked for, and
//! given back at the end.

use super::group::{Home, Kept, Stale, read, write};
use super::{Backend, Kind, Member, WeightError, scaled, set_each};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Shares of a task that nobody gave any: 100 in our units.
const USUAL: u64 = 1024;
const LEAST: u64 = 2;
const MOST: u64 = 262_144;
/// Real-time budgets to ask for, in microseconds of each second, until one is granted.
const BUDGETS: [i64; 4] = [900_000, 500_000, 200_000, 50_000];

/// See the module.
#[derive(Debug)]
pub struct V1 {
    home: Home,
    base: PathBuf,
    /// What was last written, by member.
    members: BTreeMap<usize, Kept>,
    /// A budget was asked for and is given back.
    budget: bool,
}

impl V1 {
    /// Makes the private parent in `base`, the manager's own group, and removes what killed managers left there.
    ///
    /// # Errors
    /// When groups cannot be made there.
    pub fn create(base: &Path, remarks: &mut Vec<String>) -> Result<Self, WeightError> {
        Stale::clean(base, "tasks").remark(base, remarks);
        let home = Home::create(base, "tasks")?;
        write(&home.path().join("cpu.shares"), USUAL)?;
        Ok(Self { home, base: base.to_owned(), members: BTreeMap::new(), budget: false })
    }

    /// The private parent.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    fn shares(&self, id: usize) -> PathBuf {
        self.home.group(id).join("cpu.shares")
    }

    fn resize(&self) -> Result<(), WeightError> {
        let all = (USUAL * self.members.len().max(1) as u64).min(MOST);
        write(&self.home.path().join("cpu.shares"), all)
    }

    /// Sees to it that real-time threads are allowed in the manager's own group.
    fn allow_real_time(&mut self) -> Result<(), WeightError> {
        let file = self.base.join("cpu.rt_runtime_us");
        // Without RT_GROUP_SCHED there is no such file, and no such limit.
        if !file.exists() || read(&file)? != 0 {
            return Ok(());
        }
        let mut refused = None;
        for budget in BUDGETS {
            match write(&file, budget) {
                Ok(()) => {
                    self.budget = true;
                    return Ok(());
                }
                Err(e) => refused = Some(e),
            }
        }
        let why = refused.map_or(String::new(), |e| e.to_string());
        Err(WeightError::Cannot(format!("no real-time budget in the group of the manager: {why}")))
    }
}

impl Backend for V1 {
    fn kind(&self) -> Kind {
        Kind::V1
    }

    fn enter(&mut self, member: &Member) -> Result<(), WeightError> {
        // `tasks` takes a thread, `cgroup.procs` a whole process.
        let file = if member.thread { "tasks" } else { "cgroup.procs" };
        if member.policy.is_real_time() {
            self.allow_real_time()?;
            write(&self.base.join(file), member.tid)?;
            self.leave(member.id);
            return Ok(());
        }
        let group = self.home.ensure(member.id)?;
        let idle = group.join("cpu.idle");
        let (is_idle, wants_idle) = (read(&idle).unwrap_or(0), i64::from(member.policy == crate::Policy::Idle));
        // Among groups a thread's own policy does not count: the group itself must be idle (Linux 5.15).
        if is_idle != wants_idle {
            write(&idle, wants_idle)?;
        }
        write(&group.join(file), member.tid)?;
        self.members.insert(member.id, Kept::default());
        self.resize()
    }

    fn set(&mut self, weights: &[(usize, f64)]) -> Vec<Result<(), WeightError>> {
        let shares = scaled(weights, USUAL as f64 / crate::shares::USUAL, LEAST, MOST);
        let new = weights.iter().zip(shares).map(|((id, _), shares)| (*id, shares));
        set_each(&mut self.members, new, |id| self.home.group(id).join("cpu.shares"))
    }

    fn get(&self, id: usize) -> Result<f64, WeightError> {
        Ok(read(&self.shares(id))? as f64 * crate::shares::USUAL / USUAL as f64)
    }

    fn leave(&mut self, id: usize) {
        self.home.remove(id);
        if self.members.remove(&id).is_some() {
            // The parent's part is a matter of degree; the next instance sets it again.
            let _ = self.resize();
        }
    }
}

impl Drop for V1 {
    fn drop(&mut self) {
        if self.budget {
            // Refused while a real-time thread is left in the group; it is then still needed.
            let _ = write(&self.base.join("cpu.rt_runtime_us"), 0);
        }
    }
}
