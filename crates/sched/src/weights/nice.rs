//! Nice values, where no control group can be written: a step of nice is a factor of 1.25 in weight, so shares come out
//! within some ten percent.

use super::{Backend, Kind, Member, WeightError};
use crate::shares::{USUAL, nearest_nice, nice_factor};
use rustix::process::{Pid, getpriority_process, setpriority_process};
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub struct Nice {
    /// The thread of each member, and the nice value that it came with.
    members: BTreeMap<usize, (i32, i32)>,
    /// The lowest value that this process may set.
    lowest: i8,
}

impl Nice {
    /// Tries whether a raised nice value can be lowered again: without that a share could only ever shrink.
    ///
    /// # Errors
    /// When it cannot.
    pub fn create() -> Result<Self, WeightError> {
        // Tried in a thread of its own, which ends with what it did to itself.
        let tried = std::thread::spawn(|| {
            let me = rustix::thread::gettid();
            let now = getpriority_process(Some(me))?;
            setpriority_process(Some(me), (now + 1).min(19))?;
            setpriority_process(Some(me), now)?;
            Ok(if setpriority_process(Some(me), -20).is_ok() { -20 } else { now.clamp(-20, 19) as i8 })
        });
        match tried.join() {
            Ok(Ok(lowest)) => Ok(Self { members: BTreeMap::new(), lowest }),
            Ok(Err::<_, rustix::io::Errno>(e)) => Err(WeightError::Cannot(format!(
                "a nice value cannot be lowered again ({}); it needs CAP_SYS_NICE or RLIMIT_NICE",
                std::io::Error::from(e)
            ))),
            Err(_) => Err(WeightError::Cannot("nice values could not be tried".to_owned())),
        }
    }

    fn thread(&self, id: usize) -> Result<Option<Pid>, WeightError> {
        let member = self.members.get(&id);
        member.map(|(tid, _)| Pid::from_raw(*tid)).ok_or_else(|| WeightError::Cannot(format!("no instance {id}")))
    }
}

fn refused(id: usize) -> impl FnOnce(rustix::io::Errno) -> WeightError {
    move |e| WeightError::Cannot(format!("nice of instance {id}: {}", std::io::Error::from(e)))
}

impl Backend for Nice {
    fn kind(&self) -> Kind {
        Kind::Nice
    }

    fn enter(&mut self, member: &Member) -> Result<(), WeightError> {
        let before = getpriority_process(Pid::from_raw(member.tid)).map_err(refused(member.id))?;
        self.members.insert(member.id, (member.tid, before));
        Ok(())
    }

    fn set(&mut self, weights: &[(usize, f64)]) -> Vec<Result<(), WeightError>> {
        // Who may not go below some value has the largest weight there, and the others above it.
        let floor = USUAL * nice_factor(self.lowest);
        let largest = weights.iter().map(|(_, w)| *w).fold(0.0, f64::max);
        let shrink = if largest > floor { floor / largest } else { 1.0 };
        let set = |&(id, weight): &(usize, f64)| {
            let nice = i32::from(nearest_nice(weight * shrink).max(self.lowest));
            setpriority_process(self.thread(id)?, nice).map_err(refused(id))
        };
        weights.iter().map(set).collect()
    }

    fn get(&self, id: usize) -> Result<f64, WeightError> {
        let nice = getpriority_process(self.thread(id)?).map_err(refused(id))?;
        Ok(USUAL * nice_factor(nice.clamp(-20, 19) as i8))
    }

    fn leave(&mut self, id: usize) {
        if let Some((tid, before)) = self.members.remove(&id) {
            // Gone as a rule; one that goes on under another back end has its own value again.
            let _ = setpriority_process(Pid::from_raw(tid), before);
        }
    }
}
