//! Changes of structure: chains, paths and NFs come and go while packets flow.
//!
//! What is new comes up first, beside what is there. Only when all of it runs, the entries of chains that are to go are
//! closed and these run empty; then the classifiers are changed over and the new entries open. What is gone is ended, and
//! what it still had is counted. Until the change-over everything can be taken back.

use super::instance::{Instance, State};
use super::remote::Failure;
use super::{BUILD, LAST_ORDERS, LOOK, RunError, Supervisor, Watch};
use crate::Observer;
use crate::control::{ChainGauge, Order};
use crate::dataplane::{self, Command, Growth, Ingress, Thinning};
use crate::ports::{Capture, Generator, MAX_FRAME, Port, Sink};
use chainline_chain::model::Port as Spec;
use chainline_chain::overlay::Overlay;
use chainline_chain::plan::Plan;
use chainline_ctl::{Changed, Fault, Word};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Most ids of chains: a descriptor names its chain in sixteen bits, and the last one means none.
const MOST_CHAINS: usize = u16::MAX as usize - 1;

fn refused(what: impl Into<String>) -> Failure {
    Fault::new(Word::Refused, what).hint("nothing was changed").into()
}

impl Supervisor<'_> {
    /// Whether a plan can be laid over the one in force; else why not.
    pub(super) fn can_be_laid(&self, laid: &Overlay, new: &Plan) -> Result<(), Failure> {
        let unsupported = |what: String| -> Result<(), Failure> {
            Err(Fault::new(Word::Unsupported, format!("{what} cannot change while the chains run"))
                .hint("start the run anew with the other file")
                .into())
        };
        let old = &self.plan;
        let fixed = [
            ("the manager's core", old.manager_core == new.manager_core),
            ("which cores are reserved", old.reserved == new.reserved),
            ("the largest frame", old.max_frame_bytes == new.max_frame_bytes),
        ];
        if let Some((what, _)) = fixed.into_iter().find(|(_, same)| !same) {
            return unsupported(what.into());
        }
        for p in &new.ports {
            if old.ports.iter().any(|o| o.name == p.name && o.spec != p.spec) {
                return unsupported(format!("the port {}", p.name));
            }
        }
        for &p in &laid.ports {
            let port = &laid.plan.ports[p];
            let simple = match &port.spec {
                Spec::Generator(g) => !g.stamp,
                Spec::Sink(s) => !s.check,
                Spec::Pcap(_) => true,
                _ => false,
            };
            if !simple {
                return unsupported(format!("devices, and ports that stamp or check: the port {}", port.name));
            }
        }
        if let Some(c) = new.chains.iter().find(|c| !self.fabric.tenants.contains(&c.tenant)) {
            return unsupported(format!("the set of tenants: {}", c.tenant));
        }
        let structure = !(laid.opened.is_empty() && laid.closed.is_empty());
        if structure && self.steered {
            return unsupported("chains of a steered run".into());
        }
        if laid.plan.chains.len() > MOST_CHAINS {
            return unsupported("chains, after so many changes,".into());
        }
        Ok(())
    }

    /// Opens the ports that are new. They take none but buffers that are there.
    fn new_ports(&self, laid: &Overlay) -> Result<Vec<Box<dyn Port + Send>>, Failure> {
        let (dir, clock) = (&self.options.dir, &self.fabric.clock);
        let mut ports: Vec<Box<dyn Port + Send>> = Vec::new();
        for &p in &laid.ports {
            let port = &laid.plan.ports[p];
            let failed = |e: crate::PortError| refused(format!("port {}: {e}", port.name));
            let too_long = |longest: u16| {
                refused(format!(
                    "port {}: found frames of {longest} bytes, expected at most {}, which buffers of this run hold",
                    port.name, self.max_frame
                ))
            };
            match &port.spec {
                Spec::Generator(g) => {
                    let longest = crate::traffic::load(g, dir).map_err(failed)?.spec.mix.largest_frame_bytes();
                    if longest > self.max_frame {
                        return Err(too_long(longest));
                    }
                    ports.push(Box::new(Generator::open(dir, g, p, clock).map_err(failed)?));
                }
                Spec::Pcap(c) => {
                    let most = self.max_frame.min(MAX_FRAME);
                    ports.push(Box::new(Capture::open(dir, c, clock, most).map_err(failed)?));
                }
                _ => ports.push(Box::new(Sink::default())),
            }
        }
        Ok(ports)
    }

    /// Lays the plan over the one in force, and changes over to it.
    pub(super) fn restructure(
        &mut self,
        laid: &Overlay,
        changed: &mut Changed,
        observer: &mut dyn Observer,
    ) -> Result<(), Failure> {
        let ports = self.new_ports(laid)?;
        let before = (self.plan.clone(), self.reconfigured()?);
        let plan = Arc::new(laid.plan.clone());
        let memory = |e: chainline_shm::mapping::MapError| refused(e.to_string());
        let fabric = Arc::new(self.fabric.grown(&plan).map_err(memory)?);
        let ingress = dataplane::ingress(&plan, &fabric).map_err(refused)?;
        let gauges = ChainGauge::all(plan.chains.len(), &self.gauges);
        let growth = Growth::new(&self.plan, &plan, &fabric, gauges.clone(), ports);
        let (done, is_done) = channel();
        self.command(Command::Grow(Box::new(growth), done))?;
        is_done.recv().map_err(|_| RunError::DataPath)?;
        (self.plan, self.fabric, self.gauges) = (plan.clone(), fabric, gauges.clone());
        self.order(Order::Grow(plan.clone(), self.fabric.clone(), Some(gauges)));
        for &i in &laid.started {
            self.instances.push(Instance::late(i, &plan));
            self.watch.push(Watch::new(0, 0));
        }
        if let Err(failure) = self.bring_up(&laid.started, observer) {
            // As it was, but for ids that nobody uses.
            let mut back = laid.plan.clone();
            back.instances[..before.0.instances.len()].clone_from_slice(&before.0.instances);
            back.chains[..before.0.chains.len()].clone_from_slice(&before.0.chains);
            back.mechanisms = before.0.mechanisms;
            back.gaps = before.0.gaps.clone();
            back.gaps.order = before.0.chains_in_force();
            back.gaps.instances.extend(&laid.started);
            back.gaps.chains.extend(&laid.opened);
            self.take_down(back, &laid.opened, &laid.started, observer)?;
            return Err(failure);
        }
        self.command(Command::Close(laid.closed.clone()))?;
        self.run_empty(laid, observer)?;
        self.change_over(ingress, &laid.opened)?;
        self.take_down(laid.plan.clone(), &laid.closed, &laid.ended, observer)?;
        changed.changed.extend(words(&before.0, laid));
        let names = |ids: &[usize]| ids.iter().map(|i| plan.instances[*i].name.clone()).collect();
        (changed.started, changed.ended) = (names(&laid.started), names(&laid.ended));
        changed.reconfigured = self.reconfigured()?.saturating_sub(before.1);
        Ok(())
    }

    /// Packets that were dropped for changes so far.
    fn reconfigured(&self) -> Result<u64, RunError> {
        Ok(self.snapshot()?.chains.iter().map(|c| c.reconfigured).sum())
    }

    /// Packets are classified otherwise from the next burst on, and these chains admit.
    pub(super) fn change_over(&self, ingress: Vec<Ingress>, open: &[usize]) -> Result<(), RunError> {
        let (answer, answered) = channel();
        self.command(Command::Open(ingress, open.to_vec(), answer))?;
        // What was in use is dropped here, not on the data path.
        drop(answered.recv().map_err(|_| RunError::DataPath)?);
        Ok(())
    }

    /// Whether the run is to end: then nothing new is begun.
    fn is_over(&self) -> bool {
        self.done || (self.options.stop)() > 0 || self.ends.is_some_and(|end| Instant::now() >= end)
    }

    /// Starts instances and waits until all of them run.
    fn bring_up(&mut self, started: &[usize], observer: &mut dyn Observer) -> Result<(), Failure> {
        for &i in started {
            self.spawn(i).map_err(|e| refused(e.to_string()))?;
        }
        let until = Instant::now() + BUILD;
        while !started.iter().all(|&i| matches!(self.instances[i].state, State::Running)) {
            self.look(LOOK, observer)?;
            if let Some(i) = started.iter().find(|&&i| self.instances[i].failed.is_some()) {
                let why = self.instances[*i].failed.clone().unwrap_or_default();
                return Err(refused(why));
            }
            if self.is_over() {
                return Err(refused("the run ends"));
            }
            if Instant::now() > until {
                return Err(refused(format!("not ready after {} s", BUILD.as_secs())));
            }
        }
        Ok(())
    }

    /// Waits until the chains that are to go are empty, but for what their NFs hold on purpose; not for ever.
    fn run_empty(&mut self, laid: &Overlay, observer: &mut dyn Observer) -> Result<(), RunError> {
        let until = Instant::now() + self.options.drain;
        loop {
            let snapshot = self.snapshot()?;
            let inside: u64 = laid.closed.iter().map(|&c| snapshot.chains[c].held).sum();
            let held = self.held();
            // What an instance says that it holds is its own word.
            let held =
                laid.ended.iter().fold(0_u64, |sum, &i| sum.saturating_add(held[i].min(crate::fabric::HOLDS as u64)));
            if inside <= held || Instant::now() >= until || (self.options.stop)() > 1 {
                return Ok(());
            }
            self.look(Duration::from_millis(2), observer)?;
        }
    }

    /// Ends instances, settles the accounts of chains, and lets go of their queues.
    fn take_down(
        &mut self,
        plan: Plan,
        chains: &[usize],
        instances: &[usize],
        observer: &mut dyn Observer,
    ) -> Result<(), Failure> {
        // What they used of their cores so far stays on their account.
        self.usages();
        for &i in instances {
            self.instances[i].gone = true;
            self.instances[i].stop();
            self.fabric.bells[i].wake();
        }
        let until = Instant::now() + LAST_ORDERS;
        while Instant::now() < until && instances.iter().any(|&i| self.instances[i].socket.is_some()) {
            // Who never ran, or is down, has nothing to end.
            for &i in instances {
                if !matches!(self.instances[i].state, State::Running | State::Ended) {
                    self.instances[i].discard();
                }
            }
            self.look(Duration::from_millis(5), observer)?;
        }
        for &i in instances {
            self.instances[i].discard();
            self.instances[i].retire();
        }
        let plan = Arc::new(plan);
        let void = self.fabric.thinned(&plan).map_err(|e| Failure::Run(e.into()))?;
        (self.plan, self.fabric) = (plan.clone(), Arc::new(void));
        self.tables.thin(&plan);
        let (done, is_done) = channel();
        let thinning = Thinning {
            plan: plan.clone(),
            fabric: self.fabric.clone(),
            chains: chains.to_vec(),
            instances: instances.to_vec(),
        };
        self.command(Command::Thin(Box::new(thinning), done))?;
        is_done.recv().map_err(|_| RunError::DataPath)?;
        self.order(Order::Forget(plan, self.fabric.clone(), instances.to_vec()));
        Ok(())
    }
}

/// What became of chains, by name.
fn words(old: &Plan, laid: &Overlay) -> Vec<String> {
    let plan = &laid.plan;
    let name = |c: &usize| plan.chains[*c].name.as_str();
    let (closed, opened): (BTreeSet<&str>, BTreeSet<&str>) =
        (laid.closed.iter().map(name).collect(), laid.opened.iter().map(name).collect());
    let hops = |plan: &Plan, c: usize| {
        let chain = &plan.chains[c];
        let nfs = chain.hops.iter().map(|n| plan.nfs[*n].base.clone());
        std::iter::once(plan.ports[chain.ingress].name.clone())
            .chain(nfs)
            .chain([plan.ports[chain.egress].name.clone()])
            .collect::<Vec<_>>()
    };
    let path = |name: &str, plan: &Plan, ids: &[usize]| {
        ids.iter().find(|c| plan.chains[**c].name == name).map(|c| hops(plan, *c)).unwrap_or_default()
    };
    let mut words: Vec<String> = opened.difference(&closed).map(|n| format!("chain {n}: added")).collect();
    words.extend(closed.difference(&opened).map(|n| format!("chain {n}: removed")));
    words.extend(closed.intersection(&opened).map(|n| {
        let (then, now) = (path(n, old, &laid.closed), path(n, plan, &laid.opened));
        if then == now { format!("chain {n}: its NFs begin anew") } else { format!("chain {n}: {}", now.join(" → ")) }
    }));
    words
}
