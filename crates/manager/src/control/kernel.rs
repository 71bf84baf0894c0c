//! The kernel's side of the instances: their policies, and the weights that are in force.
//!
//! What the kernel refuses is said once, and the next best is done: nice values for an instance that can have no group,
//! the policy `batch` for one that cannot have its own.

use chainline_chain::model::{Sched, Weight};
use chainline_sched::shares::nice_factor;
use chainline_sched::weights::{Backend, Detected, Kind, Member, Mounts, Nice, Nothing, detect};
use chainline_sched::{Policy, Task};
use procfs::process::Process;

/// An instance.
#[derive(Clone, Debug)]
struct Place {
    tid: i32,
    thread: bool,
    kind: Kind,
}

/// All of them.
#[derive(Debug)]
pub struct Kernel {
    /// Whether there are to be weights at all.
    weights: bool,
    main: Box<dyn Backend>,
    /// For those that the main one cannot take.
    second: Box<dyn Backend>,
    places: Vec<Option<Place>>,
    /// The policy in force, by instance.
    policies: Vec<Policy>,
    /// Why a better back end is not it, and what was cleaned up.
    pub remarks: Vec<String>,
    /// What an operator should know: of which instance, and what.
    said: Vec<(Option<usize>, String)>,
}

/// The scheduling of a chain file as the kernel's.
pub fn task(sched: &Sched, cores: &[usize]) -> Task {
    Task {
        cores: cores.to_vec(),
        policy: Policy::from_word(sched.policy.word()).unwrap_or_default(),
        nice: sched.nice.unwrap_or(0),
        priority: sched.priority.unwrap_or(1),
        slice_us: sched.slice_us,
        runtime_us: sched.runtime_us.unwrap_or(0),
        deadline_us: sched.deadline_us.unwrap_or(0),
        period_us: sched.period_us.unwrap_or(0),
    }
}

/// The factor of a share: the priority, and what a nice value means to a weight. Threads of different groups are not
/// compared by their own nice values.
pub fn factor(sched: &Sched) -> f64 {
    f64::from(sched.priority.unwrap_or(1)) * nice_factor(sched.nice.unwrap_or(0))
}

/// The weight that the file fixed.
pub fn fixed(sched: &Sched) -> Option<f64> {
    match sched.weight {
        Weight::Fixed(weight) => Some(f64::from(weight)),
        Weight::Auto => None,
    }
}

/// No back end, as the run is to have none.
fn none() -> Detected {
    Detected { backend: Box::new(Nothing), remarks: vec!["no CPU weights: these mechanisms have none".to_owned()] }
}

/// Whether a thread is there and no mere entry that waits for its parent.
fn lives(tid: i32) -> bool {
    Process::new(tid).and_then(|p| p.stat()).is_ok_and(|s| !matches!(s.state, 'Z' | 'X'))
}

impl Kernel {
    /// Looks what this host has, for as many instances. Without `weights` they stay as they are, in no group and with
    /// even weights; a back end is then wanted only if there are real-time ones, which may need a budget.
    pub fn new(instances: usize, weights: bool, real_time: bool) -> Self {
        let found = if weights || real_time { detect(&Mounts::find()) } else { none() };
        let second: Box<dyn Backend> = match found.backend.kind() {
            Kind::V1 | Kind::V2 => Nice::create().map_or_else(|_| Box::new(Nothing) as _, |n| Box::new(n) as _),
            _ => Box::new(Nothing),
        };
        Self {
            weights,
            main: found.backend,
            second,
            places: vec![None; instances],
            policies: vec![Policy::default(); instances],
            remarks: found.remarks,
            said: Vec::new(),
        }
    }

    /// There are so many instances now.
    pub fn grow(&mut self, instances: usize) {
        self.places.resize(instances, None);
        self.policies.resize(instances, Policy::default());
    }

    /// The back end of this host.
    pub fn kind(&self) -> Kind {
        if self.weights { self.main.kind() } else { Kind::None }
    }

    /// The back end and the policy of an instance.
    pub fn standing(&self, i: usize) -> (Option<Kind>, Policy) {
        (self.places[i].as_ref().map(|p| p.kind), self.policies[i])
    }

    /// The thread that does an instance's work.
    pub fn tid(&self, i: usize) -> Option<i32> {
        self.places[i].as_ref().map(|p| p.tid)
    }

    /// What there is to say since it was last asked.
    pub fn take_said(&mut self) -> Vec<(Option<usize>, String)> {
        std::mem::take(&mut self.said)
    }

    /// An instance runs, or is to be scheduled otherwise from now on. Returns the refusal of its policy, if it was.
    pub fn schedule(&mut self, i: usize, tid: i32, thread: bool, task: &Task) -> Result<(), String> {
        let real_time = |policy: Policy| policy.is_real_time();
        // A real-time thread may not enter a group without a budget, and a group may have none: so into the group first
        // on the way to such a policy, and out of the policy first on the way back.
        let mut result = Ok(());
        if real_time(task.policy) {
            self.enter(i, tid, thread, task.policy);
            result = self.apply(i, tid, thread, task);
        } else {
            result = result.and(self.apply(i, tid, thread, task));
        }
        if result.is_err() {
            let plain = Task { cores: task.cores.clone(), ..Task::default() };
            let _ = self.apply(i, tid, thread, &plain);
        }
        if !real_time(self.policies[i]) {
            self.enter(i, tid, thread, self.policies[i]);
        }
        result
    }

    fn apply(&mut self, i: usize, tid: i32, thread: bool, task: &Task) -> Result<(), String> {
        match task.apply(tid) {
            Ok(remarks) => self.said.extend(remarks.into_iter().map(|r| (Some(i), r))),
            Err(e) => {
                let what = format!("the kernel refused {e}");
                if !lives(tid) {
                    return Err(what); // its end is on its way to us
                }
                self.said.push((Some(i), what.clone()));
                return Err(what);
            }
        }
        self.policies[i] = task.policy;
        // Threads that an NF made for itself; a budget with a deadline is for the one that works.
        if !thread && task.policy != Policy::Deadline {
            let tasks = Process::new(tid).and_then(|p| p.tasks());
            for other in tasks.into_iter().flatten().flatten().filter(|t| t.tid != tid) {
                let _ = task.apply(other.tid);
            }
        }
        Ok(())
    }

    fn enter(&mut self, i: usize, tid: i32, thread: bool, policy: Policy) {
        let member = Member { id: i, tid, thread, policy };
        if !self.weights && !policy.is_real_time() {
            self.places[i] = Some(Place { tid, thread, kind: Kind::None });
            return;
        }
        let mut kind = self.main.kind();
        if let Err(e) = self.main.enter(&member) {
            if !lives(tid) {
                return;
            }
            self.said.push((Some(i), format!("{kind} does not take it: {e}")));
            kind = self.second_best(&member);
        }
        self.places[i] = Some(Place { tid, thread, kind });
    }

    fn second_best(&mut self, member: &Member) -> Kind {
        match self.second.enter(member) {
            Ok(()) => self.second.kind(),
            Err(e) => {
                self.said.push((Some(member.id), format!("{} does not take it either: {e}", self.second.kind())));
                Kind::None
            }
        }
    }

    /// An instance is gone.
    pub fn leave(&mut self, i: usize) {
        self.places[i] = None;
        self.main.leave(i);
        self.second.leave(i);
    }

    /// Whether CPU weights count for an instance.
    pub fn is_weighted(&self, i: usize) -> bool {
        self.places[i].is_some() && self.policies[i].is_fair()
    }

    /// Sets weights of instances that can meet. One that is gone meanwhile is no fault; for one whose group vanished,
    /// the group is made again, or nice values take over.
    pub fn weigh(&mut self, weights: &[(usize, f64)]) {
        let main = self.main.kind();
        let second = self.second.kind();
        let by = |kind: Kind| {
            let of = |(i, _): &&(usize, f64)| self.places[*i].as_ref().is_some_and(|p| p.kind == kind);
            weights.iter().filter(of).copied().collect::<Vec<_>>()
        };
        let (ours, others) = (by(main), if second == main { Vec::new() } else { by(second) });
        for ((i, weight), result) in ours.iter().zip(self.main.set(&ours)) {
            let (Err(e), Some(place)) = (result, self.places[*i].clone()) else { continue };
            if !lives(place.tid) {
                continue; // its end is on its way to us
            }
            self.said.push((Some(*i), format!("its weight could not be set: {e}")));
            let member = Member { id: *i, tid: place.tid, thread: place.thread, policy: self.policies[*i] };
            let again = self.main.enter(&member);
            if again.is_ok() && self.main.set(&[(*i, *weight)]).iter().all(Result::is_ok) {
                self.said.push((Some(*i), "its control group was made again".to_owned()));
                continue;
            }
            let kind = self.second_best(&member);
            self.said.push((Some(*i), format!("its weight goes by {kind} from now on")));
            self.places[*i] = Some(Place { kind, ..place });
        }
        if !others.is_empty() {
            let results = self.second.set(&others);
            for ((i, _), e) in others.iter().zip(results).filter_map(|(o, r)| r.err().map(|e| (o, e))) {
                if let Some(place) = self.places[*i].as_mut().filter(|p| lives(p.tid)) {
                    place.kind = Kind::None;
                    self.said.push((Some(*i), format!("its weight could not be set: {e}; it has none now")));
                }
            }
        }
    }
}
