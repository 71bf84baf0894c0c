//! The manager's poll loop: packets in from ports, packets out to ports, dropped packets back, and every 50 µs a
//! sweep over everything that need not be done for each packet.
//!
//! One thread, on the manager's core. It alone touches buffers, ports and the ledger; others talk to it over a
//! channel ([`Command`]). It never waits for an NF.

mod audit;
mod egress;
mod entry;
mod giving_way;
mod growth;
mod idle;
mod ingress;
mod ledger;
mod origins;
mod sweep;
mod trial;

pub use growth::{Growth, Thinning, ingress};
pub use ingress::Ingress;
pub use ledger::{ChainLedger, Gap, Jitter, Ledger, Snapshot, Span, latencies};
pub use trial::{Prepared, TrialEnd, TrialOrder};

use crate::buffers::Buffers;
use crate::control::ChainGauge;
use crate::fabric::Fabric;
use crate::ports::{Port, PortError};
use audit::Audit;
use chainline_chain::plan::Plan;
use chainline_shm::{Bell, Clock, Consumer, Page, clock::ticks};
use egress::Egress;
use entry::Entry;
pub(crate) use origins::Origins;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// Time between two sweeps.
const SWEEP_NS: u64 = 50_000;

/// Packets that are worth waking a chain's first NF for.
const ENTRY_BURST: u16 = 32;

/// And for fewer it is woken if it was not within this time, as network cards space their interrupts: the first packet after a pause
/// does not wait, and what wakes cost is bounded.
const WAKE_PAUSE_NS: u64 = 50_000;

/// What others ask of the loop.
pub enum Command {
    /// Begin to receive.
    Run,
    /// An instance runs; its page.
    Up(usize, Arc<Page>),
    /// An instance is dead: its process is gone for certain.
    Down(usize),
    /// An instance is about to be started again: let go of its queues, then answer.
    Reviving(usize, Sender<()>),
    /// The numbers now.
    Snapshot(Sender<Box<Snapshot>>),
    /// Halt the generators, and say what they and the measurement can do: before [`Command::Run`] in a steered run.
    Prepare(Sender<Box<Prepared>>),
    /// Make a trial; the answer comes when it is over.
    Trial(TrialOrder, Sender<Box<TrialEnd>>),
    /// Take over what is new, closed; then answer.
    Grow(Box<Growth>, Sender<()>),
    /// Admit nothing to these chains any more.
    Close(Vec<usize>),
    /// Classify like this from the next burst on, and admit to these chains; the answer is what was in use.
    Open(Vec<Ingress>, Vec<usize>, Sender<Vec<Ingress>>),
    /// Let go of what is gone; then answer.
    Thin(Box<Thinning>, Sender<()>),
    /// Receive no more.
    StopReceiving,
    /// All instances have ended: settle the accounts, close the ports, answer, and end.
    Finish(Sender<Box<Snapshot>>),
}

/// What the loop has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All sources are exhausted and nothing is inside any more.
    Done,
    /// An instance sent descriptors that cannot be.
    Lied {
        /// The instance.
        instance: usize,
        /// What was found.
        found: String,
    },
    /// Something about a port that an operator should know.
    Remark(String),
    /// Something about how an instance, or all, are scheduled: from the control loop.
    Sched(Option<usize>, String),
    /// An audit brought packets back.
    Reclaimed {
        /// How many.
        packets: u64,
    },
}

/// An instance as the loop sees it.
pub(crate) struct InstanceView {
    pub bell: Bell,
    pub page: Option<Arc<Page>>,
    /// When it died, until it runs again: ticks.
    pub down: Option<u64>,
    /// It has been down for long: its chains shed.
    pub long_down: bool,
    /// It is being started: from now on it may take from its queues, though it has no page here yet.
    pub reviving: bool,
    /// Input edges.
    pub inputs: Vec<usize>,
    /// Output edges, the return queue not included.
    pub outputs: Vec<usize>,
    /// Refused descriptors in its page when last looked at.
    pub bad_seen: u64,
    /// First sweep of those in a row that saw it asleep with packets waiting: ticks.
    pub asleep_at: Option<u64>,
    /// Sweeps since it last made a pass, while packets wait.
    pub still: u32,
    /// Its passes when last looked at.
    pub passes: u64,
}

/// The loop and all it owns.
pub struct Dataplane {
    pub(crate) plan: Arc<Plan>,
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) clock: Clock,
    pub(crate) tenants: Vec<Buffers>,
    pub(crate) ports: Vec<Box<dyn Port>>,
    pub(crate) ingress: Vec<Ingress>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) egress: Vec<Egress>,
    pub(crate) returns: Vec<Consumer>,
    /// Whose packets can be in the queue of each edge, and come back from each instance.
    pub(crate) edge_origins: Vec<Origins>,
    pub(crate) return_origins: Vec<Origins>,
    pub(crate) instances: Vec<InstanceView>,
    /// Those that have this loop's core and no other.
    pub(crate) neighbours: Vec<usize>,
    /// Queues of dead instances that are being emptied, by edge.
    pub(crate) drains: Vec<Option<Consumer>>,
    pub(crate) audit: Option<Audit>,
    /// No audit for want of anything else to do before this time: ticks.
    pub(crate) audit_again: u64,
    pub(crate) ledger: Ledger,
    pub(crate) commands: Receiver<Command>,
    pub(crate) events: Sender<Event>,
    pub(crate) receiving: bool,
    pub(crate) done_said: bool,
    pub(crate) last_work: u64,
    pub(crate) sweep_at: u64,
    /// Time in passes that moved packets: ticks.
    pub(crate) busy: u64,
    /// Times that it rested for neighbours.
    pub(crate) rests: u64,
    pub(crate) trial: Option<trial::Trial>,
    /// Trials so far.
    pub(crate) trials: u64,
    pub(crate) close_errors: Vec<PortError>,
    /// Where the control loop sees the chains' counts.
    pub(crate) gauges: Arc<[ChainGauge]>,
    pub(crate) gauges_at: u64,
    /// Whether packets of any chain are to be marked.
    pub(crate) marking: bool,
}

impl Dataplane {
    /// Puts it together; nothing moves yet.
    ///
    /// # Errors
    /// When a classifier cannot be built.
    pub fn new(
        plan: Arc<Plan>,
        fabric: Arc<Fabric>,
        tenants: Vec<Buffers>,
        ports: Vec<Box<dyn Port>>,
        commands: Receiver<Command>,
        events: Sender<Event>,
        gauges: Arc<[ChainGauge]>,
    ) -> Result<Self, PortError> {
        let ingress = growth::ingress(&plan, &fabric).map_err(PortError::Device)?;
        let entries = (0..plan.chains.len()).map(|c| growth::entry(&plan, &fabric, &gauges, c));
        let (edge_origins, return_origins) = Origins::of(&plan);
        let egress = (0..plan.edges.len()).filter_map(|e| growth::egress(&plan, &fabric, e, &edge_origins)).collect();
        let instances = (0..plan.instances.len()).map(|i| growth::view(&plan, &fabric, i));
        Ok(Self {
            neighbours: giving_way::neighbours(&plan),
            clock: fabric.clock,
            entries: entries.collect(),
            egress,
            returns: fabric.returns.iter().map(|r| Consumer::attach(r.clone())).collect(),
            edge_origins,
            return_origins,
            instances: instances.collect(),
            drains: plan.edges.iter().map(|_| None).collect(),
            audit: None,
            audit_again: 0,
            ledger: Ledger::new(&plan),
            tenants,
            ports,
            ingress,
            plan,
            fabric,
            commands,
            events,
            receiving: false,
            done_said: false,
            last_work: 0,
            sweep_at: 0,
            busy: 0,
            rests: 0,
            trial: None,
            trials: 0,
            close_errors: Vec::new(),
            gauges,
            gauges_at: 0,
            marking: false,
        })
    }

    /// Polls until [`Command::Finish`], or until nobody can give commands any more.
    pub fn run(&mut self) {
        let (mut before, mut moved) = (ticks(), false);
        loop {
            let now = ticks();
            if moved {
                self.busy += now - before.min(now);
            }
            before = now;
            let mut work = 0;
            if self.receiving {
                for i in 0..self.ingress.len() {
                    work += self.receive(i, now);
                }
            }
            for e in 0..self.egress.len() {
                work += self.transmit(e);
            }
            for i in 0..self.returns.len() {
                work += self.take_back(i);
            }
            if now >= self.sweep_at {
                self.sweep_at = now + self.clock.ticks_in(SWEEP_NS);
                if !self.sweep(now) {
                    return;
                }
            }
            moved = work > 0;
            if moved {
                self.last_work = now;
            } else {
                self.wake_who_is_due(now);
            }
            if !self.neighbours.is_empty() && self.neighbours_wait(moved) {
                self.busy += if moved { ticks() - now } else { 0 };
                self.rests += 1;
                self.rest(giving_way::LONGEST);
                moved = false;
            } else if !moved {
                self.idle(now);
            }
        }
    }
}
