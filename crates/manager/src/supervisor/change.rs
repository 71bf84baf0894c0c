//! Changes of a run: the chain file that is wanted is planned, compared with the plan in force, and only what differs is
//! changed. Everything that can be refused is tried first; what was done before a refusal is undone.

use super::edit::edited;
use super::remote::Failure;
use super::{RunError, Supervisor};
use crate::Observer;
use crate::classifier::Classifier;
use crate::control::Change as Scheduling;
use crate::dataplane::Command;
use chainline_chain::model::{File, Match};
use chainline_chain::plan::{InstancePlan, Plan};
use chainline_ctl::{Call, Changed, Fault, Word};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;

fn wrong(what: impl Into<String>) -> Failure {
    Fault::new(Word::Wrong, what).into()
}

impl Supervisor<'_> {
    /// Does what a client asks for.
    pub(super) fn change(&mut self, call: Call, _observer: &mut dyn Observer) -> Result<Changed, Failure> {
        let file = self.wanted(call)?;
        let cores = self.desk.as_ref().map(|d| d.cores.clone()).unwrap_or_default();
        let plan = Plan::build(&file, &cores).map_err(|e| wrong(e.to_string()))?;
        let mut changed = Changed::default();
        self.change_to(&plan, &mut changed)?;
        let warnings = file.warnings.iter().map(|d| d.message.clone()).collect();
        if let Some(desk) = &mut self.desk {
            desk.file = file;
        }
        changed.warnings = if changed.changed.is_empty() { Vec::new() } else { warnings };
        Ok(changed)
    }

    /// The chain file that is asked for.
    fn wanted(&self, call: Call) -> Result<File, Failure> {
        let Some(desk) = &self.desk else {
            return Err(Fault::new(Word::Unsupported, "this run has no chain file").into());
        };
        let (bytes, name) = match call {
            Call::Apply { file: Value::String(text), name } => {
                (text.into_bytes(), name.map_or_else(|| PathBuf::from("applied.yaml"), PathBuf::from))
            }
            Call::Apply { file, name } => {
                (file.to_string().into_bytes(), name.map_or_else(|| PathBuf::from("applied.json"), PathBuf::from))
            }
            Call::Reload => {
                let path = &desk.path;
                let bytes = std::fs::read(path).map_err(|e| wrong(format!("cannot read {}: {e}", path.display())))?;
                (bytes, path.clone())
            }
            edit => {
                let file = serde_json::to_value(&desk.file).map_err(|e| wrong(e.to_string()))?;
                (edited(file, &edit, &self.plan)?.to_string().into_bytes(), desk.file.source.name().to_owned())
            }
        };
        (desk.load)(&bytes, Path::new(&name)).map_err(wrong)
    }

    /// Makes the run what `new` says.
    fn change_to(&mut self, new: &Plan, changed: &mut Changed) -> Result<(), Failure> {
        if let Some(what) = differs(&self.plan, new) {
            return Err(Fault::new(Word::Unsupported, format!("{what} cannot change while the chains run"))
                .hint("start the run anew with the other file")
                .into());
        }
        // Classifiers are built here, beside the ones in use.
        let rules: Vec<usize> =
            (0..new.chains.len()).filter(|&c| self.plan.chains[c].matches != new.chains[c].matches).collect();
        let ports: Vec<usize> = rules.iter().map(|&c| new.chains[c].ingress).collect();
        let mut classifiers = Vec::new();
        for port in (0..new.ports.len()).filter(|p| ports.contains(p)) {
            let classifier =
                classifier(new, port).map_err(|e| wrong(format!("the rules of port {}: {e}", new.ports[port].name)))?;
            classifiers.push((port, classifier));
        }
        self.reschedule(new, changed)?;
        if !classifiers.is_empty() {
            let (answer, answered) = channel();
            self.command(Command::Classify(classifiers, answer))?;
            // What was in use is dropped here, not on the data path.
            drop(answered.recv().map_err(|_| RunError::DataPath)?);
            changed.changed.extend(rules.iter().map(|&c| format!("{}: match", new.chains[c].name)));
        }
        self.plan = Arc::new(new.clone());
        Ok(())
    }

    /// Schedules instances as `new` says; all or none.
    fn reschedule(&mut self, new: &Plan, changed: &mut Changed) -> Result<(), Failure> {
        let Some(operator) = self.control.as_ref().map(|c| c.operator()) else { return Ok(()) };
        let mut undo: Vec<(&str, Scheduling)> = Vec::new();
        let old = self.plan.clone();
        for (then, now) in old.instances.iter().zip(&new.instances) {
            let Some(nf) = now.nfs.first().map(|n| new.nfs[*n].name.as_str()) else { continue };
            for (change, back) in steps(then, now) {
                if let Err(why) = operator.change(nf, change) {
                    for (nf, back) in undo.into_iter().rev() {
                        // What was in force a moment ago.
                        let _ = operator.change(nf, back);
                    }
                    changed.changed.clear();
                    return Err(Fault::new(Word::Refused, format!("{}: {why}", now.name))
                        .hint("nothing was changed")
                        .into());
                }
                undo.push((nf, back));
            }
            changed.changed.extend(words(then, now));
        }
        Ok(())
    }
}

/// The classifier of a port, over the chains that begin there, in their order.
fn classifier(plan: &Plan, port: usize) -> Result<Classifier, String> {
    let chains = plan.chains.iter().enumerate().filter(|(_, c)| c.ingress == port);
    let chains: Vec<(u16, &Match)> = chains.map(|(id, c)| (id as u16, &c.matches)).collect();
    Classifier::new(&chains).map_err(|e| e.to_string())
}

/// What is to be done to an instance, and what undoes it.
fn steps(then: &InstancePlan, now: &InstancePlan) -> Vec<(Scheduling, Scheduling)> {
    let mut steps = Vec::new();
    if then.cores != now.cores {
        steps.push((Scheduling::Cores(now.cores.clone()), Scheduling::Cores(then.cores.clone())));
    }
    if then.sched != now.sched {
        steps.push((Scheduling::Sched(now.sched), Scheduling::Sched(then.sched)));
    }
    steps
}

/// The same in words.
fn words(then: &InstancePlan, now: &InstancePlan) -> Vec<String> {
    let mut words = Vec::new();
    if then.cores != now.cores {
        words.push(format!("{}: cores {:?}", now.name, now.cores));
    }
    if then.sched != now.sched {
        let (a, b) = (serde_json::to_value(then.sched), serde_json::to_value(now.sched));
        let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
        let fields = ["policy", "nice", "priority", "weight", "slice_us", "runtime_us", "deadline_us", "period_us"];
        let shown = |v: &Value| match v {
            Value::Null => "default".to_owned(),
            Value::String(word) => word.clone(),
            other => other.to_string(),
        };
        let fields = fields.iter().filter(|f| a.get(**f) != b.get(**f));
        let fields: Vec<_> = fields.map(|f| format!("{f} {}", shown(&b[*f]))).collect();
        words.push(format!("{}: {}", now.name, fields.join(", ")));
    }
    words
}

/// What differs between two plans that cannot be changed in a run.
fn differs(old: &Plan, new: &Plan) -> Option<String> {
    let bare = |i: &InstancePlan| InstancePlan {
        cores: Vec::new(),
        shares_core: false,
        sched: Default::default(),
        ..i.clone()
    };
    let same_chains = old.chains.len() == new.chains.len()
        && old.chains.iter().zip(&new.chains).all(|(a, b)| {
            let b = chainline_chain::plan::ChainPlan { matches: a.matches.clone(), ..b.clone() };
            *a == b
        });
    let found = [
        ("the manager's core", old.manager_core == new.manager_core),
        ("which cores are reserved", old.reserved == new.reserved),
        ("the mechanisms", old.mechanisms == new.mechanisms),
        ("the largest frame", old.max_frame_bytes == new.max_frame_bytes),
        ("the number of buffers", old.buffers == new.buffers),
        ("ports", old.ports == new.ports),
        ("NFs", old.nfs == new.nfs),
        ("how NFs are hosted", old.instances.iter().map(bare).eq(new.instances.iter().map(bare))),
        ("the paths of chains", same_chains && old.edges == new.edges),
    ];
    found.into_iter().find(|(_, same)| !same).map(|(what, _)| what.to_owned())
}
