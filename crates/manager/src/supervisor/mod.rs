//! The manager's second thread: starts instances, notices when they die or hang, starts them again, draws the
//! numbers once an interval, and ends it all in order.

mod change;
mod counters;
mod edit;
mod instance;
mod news;
mod numbers;
mod outcome;
mod remote;
mod restructure;
mod steer;
mod tables;
mod usage;

pub use remote::{Load, Remote};
pub use steer::Orders;
pub use tables::sharing;
pub use usage::{NfTotals, Usage};

use crate::buffers::Buffers;
use crate::control::{ChainGauge, Control, Order};
use crate::dataplane::{Command, Dataplane, Event};
use crate::fabric::{Fabric, HOLDS};
use crate::ports::PortError;
use crate::report::{Happening, Report};
use crate::{Observer, Options, open_ports};
use chainline_chain::plan::{Activation, Plan};
use chainline_sched::{Policy, Task};
use chainline_shm::mapping::MapError;
use chainline_shm::{Bell, Clock};
use instance::{Change, Instance, State};
use numbers::Taken;
use remote::Desk;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tables::Tables;

/// The longest time between two looks at everything.
const LOOK: Duration = Duration::from_millis(20);
/// An NF that works on one burst for so long, and had a core for half of this time, hangs.
const HANG: Duration = Duration::from_secs(1);
/// Time for instances to end after they were told to.
const LAST_ORDERS: Duration = Duration::from_secs(2);
/// Time for an instance to be built; a full routing table takes seconds.
const BUILD: Duration = Duration::from_secs(120);

/// A run could not begin, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Shared memory.
    #[error("{0}")]
    Memory(#[from] MapError),
    /// A port.
    #[error("port {name}: {error}")]
    Port {
        /// Its name in the chain file.
        name: String,
        /// Why.
        error: PortError,
    },
    /// An instance could not be started.
    #[error("cannot start {instance}: {what}")]
    Spawn {
        /// Its name.
        instance: String,
        /// Why.
        what: String,
    },
    /// An NF could not be built.
    #[error("{what}")]
    Build {
        /// Its instance.
        instance: String,
        /// Why, beginning with the NF's name.
        what: String,
    },
    /// Something the chain file asks for is not there yet.
    #[error("{0}")]
    Unsupported(String),
    /// The control socket.
    #[error("control socket: {0}")]
    Control(String),
    /// The data path's thread ended early.
    #[error("the data path ended early")]
    DataPath,
}

/// A run.
pub(crate) struct Supervisor<'a> {
    plan: Arc<Plan>,
    fabric: Arc<Fabric>,
    options: &'a Options,
    instances: Vec<Instance>,
    tables: Tables,
    commands: Sender<Command>,
    events: Receiver<Event>,
    control: Option<Control>,
    thread: Option<JoinHandle<()>>,
    gauges: Arc<[ChainGauge]>,
    happenings: Vec<Happening>,
    watch: Vec<Watch>,
    began: Instant,
    done: bool,
    /// The numbers at the end of the last two intervals.
    taken: VecDeque<Taken>,
    desk: Option<Desk>,
    /// Longest frame that buffers hold, in bytes without FCS.
    max_frame: u16,
    /// When the run ends at the latest.
    ends: Option<Instant>,
    /// Trials are made: the chains stay as they are.
    steered: bool,
}

/// When an instance was last seen to get on.
#[derive(Clone, Copy)]
struct Watch {
    passes: u64,
    since: Instant,
    run_ns: u64,
    /// It was found to hang.
    hangs: bool,
}

impl Watch {
    fn new(passes: u64, run_ns: u64) -> Self {
        Self { passes, since: Instant::now(), run_ns, hangs: false }
    }
}

impl<'a> Supervisor<'a> {
    /// Creates memory, ports and the data path; nothing runs yet.
    pub fn new(plan: Plan, options: &'a Options) -> Result<Self, RunError> {
        let (desk, missing) = match &options.remote {
            Some(remote) => Desk::new(remote, &plan.name).map(|(desk, missing)| (Some(desk), missing))?,
            None => (None, None),
        };
        let clock = Clock::measure(Duration::from_millis(20));
        let max_frame = crate::max_frame(&plan, options)?;
        let plan = Arc::new(plan);
        let fabric = Arc::new(Fabric::create(&plan, max_frame, clock)?);
        let (commands, inbox) = channel();
        let (outbox, events) = channel();
        let (ready, is_ready) = channel();
        let gauges = ChainGauge::all(plan.chains.len(), &[]);
        let control = Control::start(&plan, &fabric, gauges.clone(), outbox.clone())
            .map_err(|e| RunError::Spawn { instance: "the control loop".into(), what: e.to_string() })?;
        let (p, f, o, g) = (plan.clone(), fabric.clone(), options.clone(), gauges.clone());
        let thread = std::thread::Builder::new().name("dataplane".into()).spawn(move || {
            // DPDK devices and the free lists belong to the thread that polls them: they are made in it.
            let made = Self::make_dataplane((&p, &f, &o), max_frame, (inbox, outbox), g);
            match made {
                Ok(mut dataplane) => {
                    let _ = ready.send(Ok(()));
                    dataplane.run();
                }
                Err(e) => _ = ready.send(Err(e)),
            }
        });
        let thread = thread.map_err(|_| RunError::DataPath)?;
        let instances = (0..plan.instances.len()).map(|i| Instance::new(i, &plan)).collect();
        let now = Instant::now();
        let watch = vec![Watch::new(0, 0); plan.instances.len()];
        let mut me = Self {
            plan,
            fabric,
            options,
            instances,
            tables: Tables::default(),
            commands,
            events,
            control: Some(control),
            thread: Some(thread),
            gauges,
            happenings: Vec::new(),
            watch,
            began: now,
            done: false,
            taken: VecDeque::new(),
            desk,
            max_frame,
            ends: None,
            steered: false,
        };
        if let Some(what) = missing {
            me.happenings.push(Happening { at_s: 0.0, instance: None, what });
        }
        // Instances build their tables while the ports open.
        me.spawn_all()?;
        is_ready.recv().map_err(|_| RunError::DataPath)??;
        Ok(me)
    }

    fn make_dataplane(
        (plan, fabric, options): (&Arc<Plan>, &Arc<Fabric>, &Options),
        max_frame: u16,
        (inbox, outbox): (Receiver<Command>, Sender<Event>),
        gauges: Arc<[ChainGauge]>,
    ) -> Result<Dataplane, RunError> {
        // The policy is the usual one, whatever this process was started under.
        let task = Task { cores: vec![plan.manager_core], policy: Policy::Other, ..Task::default() };
        task.apply(0).map_err(|e| RunError::Spawn { instance: "the data path".into(), what: e.to_string() })?;
        let tenants: Vec<Buffers> = fabric.regions.iter().map(|r| Buffers::new(r.clone())).collect();
        let ports = open_ports(plan, fabric, &tenants, options, max_frame)?;
        for remark in ports.iter().flat_map(|p| p.remarks()) {
            let _ = outbox.send(Event::Remark(remark));
        }
        Dataplane::new(plan.clone(), fabric.clone(), tenants, ports, inbox, outbox, gauges)
            .map_err(|error| RunError::Port { name: "(classifier)".into(), error })
    }

    fn spawn_all(&mut self) -> Result<(), RunError> {
        for i in 0..self.instances.len() {
            self.spawn(i)?;
        }
        Ok(())
    }

    fn spawn(&mut self, i: usize) -> Result<(), RunError> {
        let Options { dir, program, builder, .. } = self.options;
        self.instances[i].spawn(&self.plan, &self.fabric, dir, program, builder)
    }

    /// Runs to the end.
    pub fn run(mut self, observer: &mut dyn Observer) -> Result<Report, RunError> {
        self.start(observer)?;
        self.began = Instant::now();
        self.open(observer)?;
        let mut next = self.began + self.options.interval;
        let end = self.options.duration.map(|d| self.began + d);
        self.ends = end;
        loop {
            let now = Instant::now();
            let deadline = end.map_or(next, |e| e.min(next));
            self.look(deadline.saturating_duration_since(now).min(LOOK), observer)?;
            self.serve(observer)?;
            let now = Instant::now();
            if self.done || (self.options.stop)() > 0 || end.is_some_and(|e| now >= e) {
                break;
            }
            if now >= next {
                next = now + self.options.interval;
                let taken = self.take_numbers()?;
                if let Some(last) = self.taken.back() {
                    observer.interval(&self.interval(last, &taken));
                }
                self.taken.push_back(taken);
                while self.taken.len() > 2 {
                    self.taken.pop_front();
                }
            }
        }
        self.end(observer)
    }

    /// Says who takes time from others on its core whether it has packets or not.
    fn remark_pollers(&mut self, observer: &mut dyn Observer) {
        let plan = self.plan.clone();
        for (i, p) in plan.instances.iter().enumerate() {
            if p.activation == Activation::Poll && p.shares_core {
                let what = format!("polls on cores that it shares ({:?}): it gives way when it finds nothing", p.cores);
                self.happened(Some(i), what, observer);
            }
        }
    }

    /// Packets flow from now on.
    fn open(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        self.command(Command::Run)?;
        let (reserved, is_reserved) = channel();
        self.order(Order::Begin(reserved));
        // A loop that ended has nothing to say.
        let _ = is_reserved.recv();
        let taken = self.take_numbers()?;
        self.taken.push_back(taken);
        if let Some(desk) = &mut self.desk {
            desk.open()?;
        }
        if let Some(control) = &self.control {
            observer.operator(&control.operator());
        }
        observer.running(&self.plan);
        Ok(())
    }

    /// Waits until every instance runs.
    fn start(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        let until = Instant::now() + BUILD;
        while !self.instances.iter().all(|i| matches!(i.state, State::Running)) {
            self.look(LOOK, observer)?;
            let late = self.instances.iter().find(|i| !matches!(i.state, State::Running));
            if let Some(i) = late.filter(|_| Instant::now() > until) {
                let what = format!("not ready after {} s", BUILD.as_secs());
                return Err(RunError::Spawn { instance: i.name.clone(), what });
            }
            if (self.options.stop)() > 0 {
                return Err(RunError::Unsupported("interrupted before the chain was running".into()));
            }
            if let Some(i) = self.instances.iter().find(|i| matches!(i.state, State::Down(_)) && i.restarts == 0) {
                let mut of_it = self.happenings.iter().rev().filter(|h| h.instance.as_ref() == Some(&i.name));
                let what = of_it.next().map_or_else(String::new, |h| h.what.clone());
                return Err(RunError::Spawn { instance: i.name.clone(), what });
            }
        }
        self.remark_pollers(observer);
        Ok(())
    }

    /// Waits up to `timeout` for something to happen, and deals with it.
    fn look(&mut self, timeout: Duration, observer: &mut dyn Observer) -> Result<(), RunError> {
        let listening: Vec<usize> = (0..self.instances.len()).filter(|&i| self.instances[i].socket.is_some()).collect();
        let sockets = listening.iter().filter_map(|&i| self.instances[i].socket.as_ref());
        let mut fds: Vec<PollFd<'_>> = sockets.map(|s| PollFd::new(s, PollFlags::IN)).collect();
        // What clients ask is dealt with by the caller.
        let asked = self.desk.as_ref().and_then(Desk::server).map(|s| s.fd());
        fds.extend(asked.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let wait = rustix::event::Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
        // An interrupted wait is a signal: the caller looks at that.
        let _ = poll(&mut fds, Some(&wait));
        let readable: Vec<usize> =
            listening.iter().zip(&fds).filter(|(_, f)| !f.revents().is_empty()).map(|(i, _)| *i).collect();
        for i in readable {
            self.hear(i, observer)?;
        }
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Done => self.done = true,
                Event::Lied { instance, found } => {
                    self.instances[instance].kill(&format!("sent {found}"));
                }
                Event::Remark(words) => self.happened(None, words, observer),
                Event::Sched(instance, words) => self.happened(instance, words, observer),
                Event::Reclaimed { packets } => {
                    self.happened(None, format!("{packets} packets came back from an instance that died"), observer);
                }
            }
        }
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(RunError::DataPath);
        }
        self.revive(observer)?;
        self.instances.iter_mut().for_each(|i| i.kill_if_late(BUILD));
        self.look_for_hangs(observer);
        Ok(())
    }

    fn hear(&mut self, i: usize, observer: &mut dyn Observer) -> Result<(), RunError> {
        match self.instances[i].listen(&mut self.tables) {
            Change::None | Change::Ended => {}
            Change::Running(page) => {
                if let Some(tid) = self.instances[i].tid {
                    self.instances[i].usage.begin_running(tid);
                    self.order(Order::Up(i, page.clone(), tid));
                }
                self.watch[i] = Watch::new(0, self.instances[i].usage.run_ns);
                self.command(Command::Up(i, page))?;
                if self.instances[i].restarts > 0 {
                    self.happened(Some(i), "runs again".into(), observer);
                }
            }
            Change::Said(nf, words) => self.said(i, nf, words, observer),
            Change::Failed(what) if self.instances[i].late => {
                self.instances[i].failed = Some(what);
                self.instances[i].kill("could not be built");
            }
            Change::Failed(what) => {
                return Err(RunError::Build { instance: self.instances[i].name.clone(), what });
            }
            Change::Died(_) if self.instances[i].gone => self.command(Command::Down(i))?,
            Change::Died(why) => {
                if self.instances[i].late && self.instances[i].start_ns.is_none() {
                    let what = format!("{}: {why}", self.instances[i].name);
                    self.instances[i].failed.get_or_insert(what);
                }
                self.command(Command::Down(i))?;
                self.order(Order::Down(i));
                self.happened(Some(i), why, observer);
            }
        }
        Ok(())
    }

    /// Starts again whoever is dead and has waited long enough.
    fn revive(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        for i in 0..self.instances.len() {
            let State::Down(at) = self.instances[i].state else { continue };
            if Instant::now() < at || self.instances[i].start_ns.is_none() || self.instances[i].gone {
                continue;
            }
            let (answer, answered) = channel();
            self.command(Command::Reviving(i, answer))?;
            answered.recv().map_err(|_| RunError::DataPath)?;
            // No process to be had, say: the other chains go on, and it is tried again.
            match self.spawn(i) {
                Ok(()) => self.instances[i].restarts += 1,
                Err(e) => {
                    self.instances[i].discard();
                    self.instances[i].postpone();
                    self.command(Command::Down(i))?;
                    self.happened(Some(i), e.to_string(), observer);
                }
            }
        }
        Ok(())
    }

    /// Kills processes that are stuck in one burst. Who merely waits for the core is not stuck, so what counts is the
    /// time on a core since the burst began; among busy neighbours that takes longer to come together.
    fn look_for_hangs(&mut self, observer: &mut dyn Observer) {
        let mut hang = Vec::new();
        for (instance, watch) in self.instances.iter_mut().zip(&mut self.watch) {
            let (Some(page), Some(tid)) = (&instance.page, instance.tid) else { continue };
            let passes = page.status().passes.load(Relaxed);
            let stuck = page.status().busy.load(Relaxed) != 0 && passes == watch.passes;
            if !stuck {
                *watch = Watch::new(passes, 0);
                continue;
            }
            if watch.run_ns == 0 {
                instance.usage.sample(tid);
                *watch = Watch::new(passes, instance.usage.run_ns.max(1));
            } else if watch.since.elapsed() > HANG {
                instance.usage.sample(tid);
                if !watch.hangs && instance.usage.run_ns - watch.run_ns > HANG.as_nanos() as u64 / 2 {
                    watch.hangs = true;
                    hang.push((instance.index, watch.since.elapsed().as_secs()));
                }
            }
        }
        for (i, seconds) in hang {
            // Before it dies: the next incarnation is not to begin where this one ended.
            self.order(Order::Hangs(i));
            if !self.instances[i].kill(&format!("worked on one burst for {seconds} s")) {
                let what = format!(
                    "works on one burst for {seconds} s; a thread cannot be killed, so its chains stand still until it goes on"
                );
                self.happened(Some(i), what, observer);
            }
        }
    }

    fn happened(&mut self, instance: Option<usize>, what: String, observer: &mut dyn Observer) {
        let instance = instance.map(|i| self.instances[i].name.clone());
        let happening = Happening { at_s: self.began.elapsed().as_secs_f64(), instance, what };
        observer.happened(&happening);
        self.happenings.push(happening);
    }

    /// An NF of an instance said something. An instance of several is not named as its NFs are.
    fn said(&mut self, i: usize, nf: usize, words: String, observer: &mut dyn Observer) {
        let nfs = self.plan.instances.get(i).map_or(&[][..], |p| &p.nfs);
        let named = nfs.get(nf).and_then(|n| self.plan.nfs.get(*n)).filter(|_| nfs.len() > 1);
        let words = named.map_or(words.clone(), |n| format!("{}: {words}", n.name));
        self.happened(Some(i), words, observer);
    }

    fn command(&self, command: Command) -> Result<(), RunError> {
        self.commands.send(command).map_err(|_| RunError::DataPath)?;
        Bell::publish_fence();
        self.fabric.own_bell.ring();
        Ok(())
    }

    fn order(&self, order: Order) {
        if let Some(control) = &self.control {
            control.order(order);
        }
    }

    /// What the NFs of each instance declared.
    fn declared(&self) -> Vec<&[chainline_nf::Declared]> {
        self.instances.iter().map(|i| i.declared.as_slice()).collect()
    }

    /// Receives no more, lets the chains run empty, ends the instances, and settles the accounts.
    fn end(mut self, observer: &mut dyn Observer) -> Result<Report, RunError> {
        let duration = self.began.elapsed();
        // Both requests may have come between two looks.
        let hurry = || (self.options.stop)() > 1;
        // Nobody changes anything now; whoever asks is told that the run is over.
        self.desk = None;
        self.command(Command::StopReceiving)?;
        observer.draining();
        let until = Instant::now() + self.options.drain;
        while Instant::now() < until && !hurry() {
            let inside: u64 = self.snapshot()?.chains.iter().map(|c| c.held).sum();
            // What an instance says that it holds is its own word: a sum that wraps would hold the end up.
            // What is held until something is on disk goes on by itself.
            let io = |i: &Instance| i.page.as_ref().is_some_and(|p| p.status().io.load(Relaxed) != 0);
            if !self.instances.iter().any(io)
                && inside <= self.held().iter().fold(0, |sum, n| sum.saturating_add((*n).min(HOLDS as u64)))
            {
                break;
            }
            self.look(Duration::from_millis(2), observer)?;
        }
        let usage = self.usages();
        let totals = self.totals();
        let control = self.control.take().map(Control::end).unwrap_or_default();
        self.listen_to_all(Duration::ZERO, observer);
        for i in &mut self.instances {
            i.stop();
            self.fabric.bells[i.index].wake();
        }
        let until = Instant::now() + LAST_ORDERS;
        while !hurry() && Instant::now() < until && self.instances.iter().any(|i| i.socket.is_some()) {
            // Nobody is started again now, and who is being started has nothing yet.
            let running = |i: &Instance| matches!(i.state, State::Running | State::Ended);
            self.instances.iter_mut().filter(|i| !running(i)).for_each(Instance::discard);
            self.listen_to_all(Duration::from_millis(5), observer);
        }
        self.instances.iter_mut().for_each(Instance::discard);
        let (answer, answered) = channel();
        self.command(Command::Finish(answer))?;
        let last = answered.recv().map_err(|_| RunError::DataPath)?;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let restarts: Vec<u64> = self.instances.iter().map(|i| i.restarts).collect();
        let start_ns: Vec<Option<u64>> = self.instances.iter().map(|i| i.start_ns).collect();
        let declared = self.instances.iter().map(|i| i.declared.clone()).collect();
        let reports = self.instances.iter().map(|i| i.reports.clone()).collect();
        let storage = self.instances.iter().map(|i| i.storage.clone()).collect();
        // What NFs counted as they ended is among it.
        let counters = self.instances.iter().map(|i| (0..i.declared.len()).map(|k| i.counters(k)).collect()).collect();
        Ok(Report::new(crate::report::Ended {
            plan: &self.plan,
            fabric: &self.fabric,
            duration,
            last,
            totals,
            usage,
            restarts,
            start_ns,
            declared,
            counters,
            reports,
            storage,
            control,
            happenings: self.happenings.drain(..).collect(),
        }))
    }

    /// Hears last words; deaths are only noted.
    fn listen_to_all(&mut self, timeout: Duration, observer: &mut dyn Observer) {
        while let Ok(event) = self.events.try_recv() {
            if let Event::Sched(instance, words) = event {
                self.happened(instance, words, observer);
            }
        }
        let listening: Vec<usize> = (0..self.instances.len()).filter(|&i| self.instances[i].socket.is_some()).collect();
        let sockets = listening.iter().filter_map(|&i| self.instances[i].socket.as_ref());
        let mut fds: Vec<PollFd<'_>> = sockets.map(|s| PollFd::new(s, PollFlags::IN)).collect();
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
        let _ = poll(&mut fds, Some(&wait));
        let readable: Vec<usize> =
            listening.iter().zip(&fds).filter(|(_, f)| !f.revents().is_empty()).map(|(i, _)| *i).collect();
        for i in readable {
            match self.instances[i].listen(&mut self.tables) {
                Change::Died(why) => self.happened(Some(i), why, observer),
                Change::Said(nf, words) => self.said(i, nf, words, observer),
                _ => {}
            }
        }
    }
}

impl Drop for Supervisor<'_> {
    fn drop(&mut self) {
        self.control = None;
        self.instances.iter_mut().for_each(Instance::discard);
        // The data path ends when nobody can give it commands; it must be gone before its memory is.
        let (nobody, _) = channel();
        self.commands = nobody;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
