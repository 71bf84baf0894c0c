//! Changes of a run: the chain file that is wanted is planned, compared with the plan in force, and only what differs is
//! changed. Everything that can be refused is tried first; what was done before a refusal is undone.

use super::Supervisor;
use super::edit::edited;
use super::remote::Failure;
use crate::Observer;
use crate::control::{Change as Scheduling, Order};
use crate::dataplane;
use chainline_chain::model::File;
use chainline_chain::overlay::Overlay;
use chainline_chain::plan::{InstancePlan, Plan};
use chainline_ctl::{Call, Changed, Fault, Word};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn wrong(what: impl Into<String>) -> Failure {
    Fault::new(Word::Wrong, what).into()
}

impl Supervisor<'_> {
    /// Does what a client asks for.
    pub(super) fn change(&mut self, call: Call, observer: &mut dyn Observer) -> Result<Changed, Failure> {
        let other = matches!(call, Call::Apply { .. } | Call::Reload);
        let mechanisms = matches!(call, Call::SetMechanisms { .. });
        let mut file = self.wanted(call)?;
        if let Some(always) = self.desk.as_ref().and_then(|d| d.mechanisms).filter(|_| other) {
            file.spec.defaults.mechanisms = always;
        }
        let cores = self.desk.as_ref().map(|d| d.cores.clone()).unwrap_or_default();
        let plan = Plan::build(&file, &cores).map_err(|e| wrong(e.to_string()))?;
        let mut changed = Changed::default();
        self.change_to(&plan, &mut changed, observer)?;
        let warnings = file.warnings.iter().map(|d| d.message.clone()).collect();
        if let Some(desk) = &mut self.desk {
            // What is asked for later counts more than what the command line said.
            desk.mechanisms = desk.mechanisms.filter(|_| !mechanisms);
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
                let name = format!("{} as changed", desk.path.display());
                (edited(file, &edit, &self.plan)?.to_string().into_bytes(), PathBuf::from(name))
            }
        };
        (desk.load)(&bytes, Path::new(&name)).map_err(wrong)
    }

    /// Makes the run what `new` says.
    fn change_to(&mut self, new: &Plan, changed: &mut Changed, observer: &mut dyn Observer) -> Result<(), Failure> {
        let mut laid = self.plan.overlay(new);
        self.can_be_laid(&laid, new)?;
        let old = self.plan.clone();
        let rules = |c: &usize| old.chains.get(*c).is_some_and(|o| o.matches != laid.plan.chains[*c].matches);
        let order = laid.plan.chains_in_force();
        let rules: Vec<usize> = order.iter().copied().filter(rules).collect();
        let structure = !(laid.opened.is_empty() && laid.closed.is_empty());
        // Rules that no classifier takes are refused before anything is changed.
        let ingress = dataplane::ingress(&laid.plan, &self.fabric);
        let ingress = if structure { Vec::new() } else { ingress.map_err(wrong)? };
        let undo = self.reschedule(&mut laid, new, changed)?;
        let (mechanisms, watermarks) = (old.mechanisms != new.mechanisms, old.backpressure != new.backpressure);
        if mechanisms {
            changed.changed.push(format!("mechanisms: {}", new.mechanisms.word()));
        }
        if watermarks {
            changed.changed.push("backpressure".to_owned());
        }
        if (mechanisms || watermarks) && !structure {
            self.order(Order::Grow(Arc::new(laid.plan.clone()), self.fabric.clone(), None));
        }
        if structure {
            if let Err(failure) = self.restructure(&laid, changed, observer) {
                self.unschedule(undo);
                changed.changed.clear();
                return Err(failure);
            }
        } else if !rules.is_empty() || order != old.chains_in_force() {
            self.change_over(ingress, &[])?;
        }
        if order != old.chains_in_force() && !structure {
            changed.changed.push("the order of chains".to_owned());
        }
        changed.changed.extend(rules.iter().map(|&c| format!("chain {}: match", laid.plan.chains[c].name)));
        if !structure {
            self.plan = Arc::new(laid.plan);
        }
        Ok(())
    }

    /// Schedules instances that stay as `new` says; all or none. Returns what undoes it.
    fn reschedule(&mut self, laid: &mut Overlay, new: &Plan, changed: &mut Changed) -> Result<Undo, Failure> {
        let mut undo: Undo = Vec::new();
        let Some(operator) = self.control.as_ref().map(|c| c.operator()) else { return Ok(undo) };
        for &(id, k) in &laid.kept {
            let (then, now) = (&mut laid.plan.instances[id], &new.instances[k]);
            let Some(nf) = now.nfs.first().map(|n| new.nfs[*n].name.clone()) else { continue };
            for (change, back) in steps(then, now) {
                if let Err(why) = operator.change(&nf, change) {
                    self.unschedule(undo);
                    changed.changed.clear();
                    let fault = Fault::new(Word::Refused, format!("{}: {why}", now.name)).hint("nothing was changed");
                    return Err(fault.into());
                }
                undo.push((nf.clone(), back));
            }
            changed.changed.extend(words(then, now));
            (then.sched, then.cores) = (now.sched, now.cores.clone());
        }
        Ok(undo)
    }

    fn unschedule(&self, undo: Undo) {
        let Some(operator) = self.control.as_ref().map(|c| c.operator()) else { return };
        for (nf, back) in undo.into_iter().rev() {
            // What was in force a moment ago.
            let _ = operator.change(&nf, back);
        }
    }
}

/// What puts NFs back as they were, in the order in which they were changed.
type Undo = Vec<(String, Scheduling)>;

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
