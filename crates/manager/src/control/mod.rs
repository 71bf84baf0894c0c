//! The control loop: a thread that wakes once a millisecond, reads what the data path and the instances show, and
//! advises the kernel.
//!
//! It never touches the data path: it reads queues, pages and gauges with relaxed loads, and is spoken to through a
//! channel ([`Order`]). Each millisecond it makes one [`Readings`], which whatever decides something is handed: the CPU
//! shares every 10 ms, and backpressure (`Loop::millisecond`).

mod gauges;
mod kernel;
mod pressure;
mod readings;
mod run_times;
mod shares;

pub use gauges::{Advice, ChainGauge};
pub use pressure::PressureReport;
use readings::Readings;

use crate::dataplane::Event;
use crate::fabric::Fabric;
use chainline_chain::model::{Mechanisms, Policy as FilePolicy, Sched};
use chainline_chain::plan::{Host, Plan};
use chainline_sched::reserve::{Journal, Reserved, others, put_back};
use chainline_sched::rr::{self, RrSlice};
use chainline_sched::weights::Kind;
use chainline_sched::{Policy, Task};
use chainline_shm::Page;
use kernel::Kernel;
use pressure::Pressure;
use readings::Sources;
use run_times::RunTimes;
use rustix::thread::ClockId;
use rustix::time::clock_gettime;
use serde::Serialize;
use shares::Shares;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two readings.
const PERIOD: Duration = Duration::from_millis(1);
/// The same while no packet comes: a thread that wakes a thousand times a second costs an idle host more than its NFs.
const IDLE_PERIOD: Duration = Duration::from_millis(10);
/// The loop's own slice in microseconds, the least that the kernel gives.
const SLICE_US: u32 = 100;
/// Times that the same refusal is said of an instance.
const MOST_SAID: usize = 8;

/// What others ask of the loop.
pub enum Order {
    /// An instance runs: its page and the thread that works.
    Up(usize, Arc<Page>, i32),
    /// It is gone.
    Down(usize),
    /// All run; cores are reserved now, and then it answers.
    Begin(Sender<()>),
    /// Schedule an NF's instance otherwise; the answer is the kernel's refusal, if it refused.
    Schedule(String, Change, Sender<Result<(), String>>),
    /// There is more from now on; what there was is where it was.
    Grow(Arc<Plan>, Arc<Fabric>, Option<Arc<[ChainGauge]>>),
    /// These instances are gone for good.
    Forget(Arc<Plan>, Arc<Fabric>, Vec<usize>),
    /// This instance works on one burst for ever: others get its cores, too.
    Hangs(usize),
    /// Say how far it is.
    Tally(Sender<Tally>),
    /// Undo everything and answer.
    End(Sender<Ended>),
}

/// What the loop used and did so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Nanoseconds on a core.
    pub used_ns: u64,
    /// Readings taken.
    pub readings: u64,
    /// By instance: the sum of the parts of its cores that it was to have, and of how many.
    pub meant: Vec<(f64, u64)>,
}

/// What may be changed of an NF while it runs.
#[derive(Clone, Debug)]
pub enum Change {
    /// The factor of its share, 1 to 99, or the static priority of `fifo` and `rr`.
    Priority(u8),
    /// Policy, weight and all that goes with them, as a chain file says them.
    Sched(Sched),
    /// The cores that it may run on.
    Cores(Vec<usize>),
}

/// How an instance stood at the end.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Standing {
    /// The policy in force.
    pub policy: String,
    /// By what its weight went: `cgroup v1 cpu.shares`, `nice`, `none`; `null` for real-time policies.
    pub weight_by: Option<String>,
    /// The factor of its share, or its static priority.
    pub priority: u8,
    /// Part of its cores that it was meant to have, while these were loaded; `null` if they never were, or it had no
    /// company.
    pub intended_share: Option<f64>,
    /// The part that it had then.
    pub achieved_share: Option<f64>,
}

/// What the loop has to say at its end.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct ControlReport {
    /// Which mechanisms against wasted work were in force.
    pub mechanisms: Mechanisms,
    /// By what CPU weights were set on this host.
    pub weights: String,
    /// Why not by something better, and what was cleaned up after managers that were killed.
    pub remarks: Vec<String>,
    /// Readings taken, one a millisecond.
    pub readings: u64,
    /// Milliseconds without one, as the loop did not get a core in time.
    pub missed: u64,
    /// Share of one core that the loop used.
    pub cpu_share: f64,
    /// The system's slice of `rr` while the chains ran, in milliseconds; `null`: left as it was.
    pub rr_slice_ms: Option<u32>,
    /// Threads of other processes that were moved off reserved cores.
    pub moved_threads: usize,
}

/// Everything at the end: of the loop, by instance, and the loads of the NFs.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    pub report: ControlReport,
    pub instances: Vec<Option<Standing>>,
    /// Arrival rate, service time and load of each NF, as last read.
    pub loads: Vec<(f64, Option<f64>, f64)>,
    /// What backpressure did, by chain; empty without it.
    pub pressure: Vec<PressureReport>,
}

/// Speaks for an operator while a run lasts.
#[derive(Clone)]
pub struct Operator {
    orders: Sender<Order>,
}

impl Operator {
    /// Changes how an NF is scheduled, and with it those that are fused with it.
    ///
    /// # Errors
    /// When there is no such NF, the change makes no sense, the kernel refused it, or the run is over.
    pub fn change(&self, nf: &str, change: Change) -> Result<(), String> {
        let over = |_| "the run is over".to_owned();
        let (answer, answered) = channel();
        self.orders.send(Order::Schedule(nf.to_owned(), change, answer)).map_err(|_| over(()))?;
        answered.recv().map_err(|_| over(()))?
    }
}

/// The thread.
pub struct Control {
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Starts it.
    ///
    /// # Errors
    /// When no thread is to be had.
    pub fn start(
        plan: &Arc<Plan>,
        fabric: &Arc<Fabric>,
        gauges: Arc<[ChainGauge]>,
        events: Sender<Event>,
    ) -> std::io::Result<Self> {
        let (orders, inbox) = channel();
        let sources = Sources::new(plan.clone(), fabric.clone(), gauges);
        let thread = std::thread::Builder::new().name("control".into()).spawn(move || {
            Loop::new(sources, inbox, events).run();
        })?;
        Ok(Self { orders, thread: Some(thread) })
    }

    /// Asks something of it. A loop that ended has nothing left to do.
    pub fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// What it used and did so far: its answer comes with its next reading.
    pub fn tally(&self) -> Tally {
        let (answer, answered) = channel();
        self.order(Order::Tally(answer));
        // A loop that ended used no more.
        answered.recv().unwrap_or_default()
    }

    /// For operators.
    pub fn operator(&self) -> Operator {
        Operator { orders: self.orders.clone() }
    }

    /// Ends it; everything is undone when this returns.
    pub fn end(mut self) -> Ended {
        self.finish()
    }

    fn finish(&mut self) -> Ended {
        let (answer, answered) = channel();
        self.order(Order::End(answer));
        let ended = answered.recv().unwrap_or_default();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        ended
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.finish();
        }
    }
}

struct Loop {
    from: Sources,
    readings: Readings,
    pages: Vec<Option<Arc<Page>>>,
    kernel: Kernel,
    shares: Shares,
    /// None if the mechanisms have none.
    pressure: Option<Pressure>,
    cores: Vec<Vec<usize>>,
    rr: Option<RrSlice>,
    reserved: Option<Reserved>,
    orders: Receiver<Order>,
    events: Sender<Event>,
    /// How often something was said of whom.
    said: BTreeMap<Option<usize>, usize>,
    missed: u64,
    run_times: RunTimes,
}

impl Loop {
    fn new(from: Sources, orders: Receiver<Order>, events: Sender<Event>) -> Self {
        let plan = from.plan.clone();
        let cores: Vec<Vec<usize>> = plan.instances.iter().map(|i| i.cores.clone()).collect();
        let real_time = plan.instances.iter().any(|i| matches!(i.sched.policy, FilePolicy::Fifo | FilePolicy::Rr));
        let mut this = Self {
            readings: Readings::new(&plan),
            pages: vec![None; plan.instances.len()],
            kernel: Kernel::new(plan.instances.len(), plan.mechanisms.weights(), real_time),
            shares: Shares::new(plan.instances.iter().map(|i| i.sched).collect(), cores.clone()),
            pressure: Pressure::new(&plan),
            cores,
            rr: None,
            reserved: None,
            from,
            orders,
            events,
            said: BTreeMap::new(),
            missed: 0,
            run_times: RunTimes::default(),
        };
        this.round_robin();
        this
    }

    fn run(&mut self) {
        // Who is to look each millisecond and works for some microseconds is let in before those who work for long, if their
        // slices are longer (Linux 6.12). An older kernel has no slices of threads' own, and nobody needs to hear of that.
        let cores = self.own_cores();
        let _ = Task { cores, policy: Policy::Other, slice_us: Some(SLICE_US), ..Task::default() }.apply(0);
        let began = clock_gettime(ClockId::Monotonic);
        let mut next = Duration::new(began.tv_sec as u64, began.tv_nsec as u32);
        loop {
            loop {
                match self.orders.try_recv() {
                    Ok(Order::End(answer)) => {
                        let ended = self.ended(began);
                        self.say();
                        self.undo();
                        let _ = answer.send(ended);
                        return;
                    }
                    Ok(order) => self.obey(order),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return self.undo(),
                }
            }
            self.millisecond();
            self.say();
            next += if self.readings.idle { IDLE_PERIOD } else { PERIOD };
            let now = clock_gettime(ClockId::Monotonic);
            let late = Duration::new(now.tv_sec as u64, now.tv_nsec as u32).saturating_sub(next);
            if late > PERIOD {
                let missed = late.as_nanos() / PERIOD.as_nanos();
                self.missed += missed as u64;
                next += PERIOD * missed as u32;
            }
            let until = rustix::time::Timespec { tv_sec: next.as_secs() as _, tv_nsec: next.subsec_nanos().into() };
            // An interrupted sleep makes one reading come early.
            let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until);
        }
    }

    /// Where the loop runs: on no core of the NFs if there is another. There it would stand alone against the group of all NFs,
    /// which has the weight of all of them together.
    fn own_cores(&self) -> Vec<usize> {
        let nfs: Vec<usize> = self.cores.iter().flatten().copied().collect();
        let all = chainline_sched::task::cores(0).unwrap_or_default();
        let free: Vec<usize> = all.into_iter().filter(|c| !nfs.contains(c)).collect();
        if free.is_empty() { vec![self.from.plan.manager_core] } else { free }
    }

    /// One reading, and everybody who decides something by it.
    fn millisecond(&mut self) {
        self.readings.read(&self.from, &self.pages, self.from.fabric.clock.now_ns());
        if let Some(pressure) = &mut self.pressure {
            let (kernel, run_times) = (&self.kernel, &mut self.run_times);
            let run_ns = |i: usize| run_times.ns(kernel.tid(i)?);
            pressure.step(&self.readings, &self.from, &self.pages, run_ns);
        }
        let every = shares::APPLY_EVERY * readings::spread(self.cores.len());
        if self.from.plan.mechanisms.weights() && self.readings.tick.is_multiple_of(every) {
            self.shares.apply(&self.readings, &mut self.kernel);
        }
        if self.readings.tick.is_multiple_of(shares::ACCOUNT_EVERY) {
            let Self { shares, run_times, kernel, readings, .. } = self;
            shares.account(readings.now_ns, kernel, |tid| run_times.ns(tid));
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Up(i, page, tid) => {
                self.readings.restarted(&self.from.plan, i);
                if let Some(pressure) = &self.pressure {
                    pressure.restarted(i, &page);
                }
                self.pages[i] = Some(page);
                // What the kernel refuses is said by it.
                let _ = self.kernel.schedule(i, tid, self.is_thread(i), &self.task(i));
            }
            Order::Down(i) => {
                self.run_times.forget(self.kernel.tid(i));
                self.pages[i] = None;
                self.kernel.leave(i);
            }
            Order::Grow(plan, fabric, gauges) => self.grow(plan, fabric, gauges),
            Order::Forget(plan, fabric, instances) => {
                for i in instances {
                    self.run_times.forget(self.kernel.tid(i));
                    self.pages[i] = None;
                    self.kernel.leave(i);
                    // It meets nobody any more.
                    self.cores[i].clear();
                }
                let gauges = self.from.gauges.clone();
                self.look_at(Sources::new(plan, fabric, gauges));
            }
            Order::Begin(answer) => {
                self.reserve();
                let _ = answer.send(());
            }
            Order::Schedule(nf, change, answer) => _ = answer.send(self.change(&nf, change)),
            Order::Hangs(i) => self.demote(i),
            Order::Tally(answer) => {
                let used = clock_gettime(ClockId::ThreadCPUTime);
                let meant = self.shares.accounts.iter().map(|a| a.meant_so_far()).collect();
                let used_ns = used.tv_sec.unsigned_abs() * 1_000_000_000 + used.tv_nsec.unsigned_abs();
                let _ = answer.send(Tally { used_ns, readings: self.readings.tick, meant });
            }
            Order::End(_) => {}
        }
    }

    fn grow(&mut self, plan: Arc<Plan>, fabric: Arc<Fabric>, gauges: Option<Arc<[ChainGauge]>>) {
        for i in &plan.instances[self.cores.len()..] {
            self.cores.push(i.cores.clone());
            self.shares.sched.push(i.sched);
        }
        self.pages.resize(plan.instances.len(), None);
        self.kernel.grow(plan.instances.len());
        self.readings.grow(&plan);
        let gauges = gauges.unwrap_or_else(|| self.from.gauges.clone());
        self.look_at(Sources::new(plan, fabric, gauges));
    }

    /// Another plan is in force from now on. Nobody yields until its queues say so; limits of chains that stay go on.
    fn look_at(&mut self, from: Sources) {
        let before = self.pressure.take();
        if let Some(before) = &before {
            before.undo(&self.from, &self.pages);
        }
        let weights = self.from.plan.mechanisms.weights();
        self.from = from;
        self.rearm(weights);
        self.regroup();
        self.pressure = Pressure::new(&self.from.plan).map(|new| match &before {
            Some(before) => new.follows(before, self.readings.now_ns),
            None => new,
        });
    }

    /// If weights come or go: by another back end, into which everybody is put.
    fn rearm(&mut self, weights: bool) {
        let plan = self.from.plan.clone();
        if plan.mechanisms.weights() == weights {
            return;
        }
        let n = self.cores.len();
        let tids: Vec<Option<i32>> = (0..n).map(|i| self.kernel.tid(i)).collect();
        (0..n).for_each(|i| self.kernel.leave(i));
        let real_time = |s: &Sched| matches!(s.policy, FilePolicy::Fifo | FilePolicy::Rr);
        let real_time = self.shares.sched.iter().any(real_time);
        // The old one is gone, with its groups, before the new one looks around.
        self.kernel = Kernel::new(0, false, false);
        self.kernel = Kernel::new(n, plan.mechanisms.weights(), real_time);
        for (i, tid) in tids.into_iter().enumerate() {
            if let Some(tid) = tid {
                // What the kernel refuses is said by it.
                let _ = self.kernel.schedule(i, tid, self.is_thread(i), &self.task(i));
            }
        }
    }

    /// Who can meet whom on a core has changed.
    fn regroup(&mut self) {
        let mut accounts = std::mem::take(&mut self.shares.accounts);
        accounts.resize(self.cores.len(), Default::default());
        self.shares = Shares::new(std::mem::take(&mut self.shares.sched), self.cores.clone());
        self.shares.accounts = accounts;
    }

    fn is_thread(&self, i: usize) -> bool {
        self.from.plan.instances[i].host == Host::Thread
    }

    fn task(&self, i: usize) -> Task {
        kernel::task(&self.shares.sched[i], &self.cores[i])
    }

    fn change(&mut self, nf: &str, change: Change) -> Result<(), String> {
        let plan = self.from.plan.clone();
        let found = (0..plan.nfs.len()).find(|n| plan.nfs[*n].name == nf && plan.has_nf(*n));
        let Some(nf) = found.map(|n| &plan.nfs[n]) else {
            return Err(format!("found the NF `{nf}`, expected one of this run"));
        };
        let i = nf.instance;
        let (mut sched, mut cores) = (self.shares.sched[i], self.cores[i].clone());
        match change {
            Change::Priority(p) if (1..=99).contains(&p) => sched.priority = Some(p),
            Change::Priority(p) => return Err(format!("found the priority {p}, expected one from 1 to 99")),
            Change::Sched(new) => sched = new,
            Change::Cores(new) if new.is_empty() => return Err("found no cores, expected at least one".to_owned()),
            Change::Cores(new) => cores = new,
        }
        if let Some(tid) = self.kernel.tid(i) {
            self.kernel.schedule(i, tid, self.is_thread(i), &kernel::task(&sched, &cores))?;
        }
        // Only what the kernel took is remembered: an instance that is started again gets the same.
        self.shares.sched[i] = sched;
        if cores != self.cores[i] {
            self.cores[i] = cores;
            self.regroup();
        }
        self.round_robin();
        Ok(())
    }

    /// A real-time instance that never yields leaves others what the kernel's throttling does: a twentieth. It goes on, or is
    /// started again, under the usual policy, until an operator says otherwise.
    fn demote(&mut self, i: usize) {
        let policy = self.shares.sched[i].policy;
        if !matches!(policy, FilePolicy::Fifo | FilePolicy::Rr | FilePolicy::Deadline) {
            return;
        }
        self.shares.sched[i] = Sched::default();
        let word = self.shares.sched[i].policy.word();
        if let Some(tid) = self.kernel.tid(i) {
            // What the kernel refuses is said by it.
            let _ = self.kernel.schedule(i, tid, self.is_thread(i), &self.task(i));
        }
        let what =
            format!("hangs under {}: it goes by `{word}` from now on, so that others get its cores", policy.word());
        let _ = self.events.send(Event::Sched(Some(i), what));
        self.round_robin();
    }

    /// The slice of `rr` is one for the whole system: the longest that is asked for.
    fn round_robin(&mut self) {
        let of = |s: &Sched| s.slice_us.filter(|_| s.policy.word() == Policy::Rr.word());
        let asked = self.shares.sched.iter().filter_map(of).max().map(|us| us.div_ceil(1000));
        match (asked, &self.rr) {
            (None, None) => {}
            (Some(ms), Some(now)) if now.ms() == ms => {}
            (None, Some(_)) => self.rr = None,
            (Some(ms), _) => {
                self.rr = None;
                match RrSlice::set(Path::new(rr::FILE), ms) {
                    Ok(slice) => {
                        let what = format!(
                            "the slice of `rr` is {} ms instead of {} for every process of this host until the end",
                            slice.ms(),
                            slice.before()
                        );
                        let _ = self.events.send(Event::Sched(None, what));
                        self.rr = Some(slice);
                    }
                    Err(e) => {
                        let what = format!("slice_us of `rr`: {}: {e}; the system's stays", rr::FILE);
                        let _ = self.events.send(Event::Sched(None, what));
                    }
                }
            }
        }
    }

    fn reserve(&mut self) {
        let say = |what| _ = self.events.send(Event::Sched(None, what));
        for dead in chainline_ctl::run_dirs().iter().flat_map(|dir| put_back(dir)) {
            say(dead.to_string());
        }
        let cores = &self.from.plan.reserved;
        if cores.is_empty() {
            return;
        }
        let journal = chainline_ctl::run_dir().and_then(|dir| Journal::create(&dir));
        if let Err(e) = &journal {
            say(format!(
                "what is moved off reserved cores cannot be written down ({e}): if this process is killed, it stays there"
            ));
        }
        let own: Vec<i32> = (0..self.cores.len())
            .filter(|&i| !self.is_thread(i))
            .filter_map(|i| self.kernel.tid(i))
            .chain(i32::try_from(std::process::id()))
            .collect();
        let reserved = Reserved::new(cores, &others(&own), journal.ok());
        let what = format!(
            "cores {cores:?} are reserved: {} threads of other processes were moved off, {} had to stay",
            reserved.moved(),
            reserved.stayed()
        );
        say(what);
        self.reserved = Some(reserved);
    }

    /// Passes on what the kernel had to say; not for ever the same.
    fn say(&mut self) {
        for (i, what) in self.kernel.take_said() {
            let count = self.said.entry(i).or_default();
            *count += 1;
            if *count <= MOST_SAID {
                let _ = self.events.send(Event::Sched(i, what));
            }
        }
    }

    fn ended(&mut self, began: rustix::time::Timespec) -> Ended {
        let seconds = |t: rustix::time::Timespec| t.tv_sec as f64 + t.tv_nsec as f64 / 1e9;
        let passed = seconds(clock_gettime(ClockId::Monotonic)) - seconds(began);
        let used = seconds(clock_gettime(ClockId::ThreadCPUTime));
        let report = ControlReport {
            mechanisms: self.from.plan.mechanisms,
            weights: self.kernel.kind().to_string(),
            remarks: self.kernel.remarks.clone(),
            readings: self.readings.tick,
            missed: self.missed,
            cpu_share: if passed > 0.0 { used / passed } else { 0.0 },
            rr_slice_ms: self.rr.as_ref().map(RrSlice::ms),
            moved_threads: self.reserved.as_ref().map_or(0, Reserved::moved),
        };
        let standing = |i: usize| {
            let (kind, policy) = self.kernel.standing(i);
            let shares = self.shares.accounts[i].shares();
            let fair = policy.is_fair();
            Some(Standing {
                policy: policy.to_string(),
                weight_by: kind.filter(|_| fair).map(|k: Kind| k.to_string()),
                priority: self.shares.sched[i].priority.unwrap_or(1),
                intended_share: shares.map(|s| s.0),
                achieved_share: shares.map(|s| s.1),
            })
        };
        Ended {
            report,
            instances: (0..self.cores.len()).map(standing).collect(),
            pressure: self.pressure.as_ref().map(|p| p.report(self.readings.now_ns)).unwrap_or_default(),
            loads: self.readings.nfs.iter().map(|n| (n.arrival_pps, n.service_ns, n.load)).collect(),
        }
    }

    /// Leaves the host as it was.
    fn undo(&mut self) {
        if let Some(pressure) = &self.pressure {
            pressure.undo(&self.from, &self.pages);
        }
        self.reserved = None;
        self.rr = None;
        (0..self.cores.len()).for_each(|i| self.kernel.leave(i));
    }
}
