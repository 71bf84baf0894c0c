//! Everything that need not be done for each packet, every 50 µs: commands, forgotten sleepers, liars, the dead.

use super::entry::Gate;
use super::{Command, Dataplane, Event};
use chainline_chain::plan::InstancePlan;
use chainline_shm::handover::{Waiting, worth_waking};
use chainline_shm::{Consumer, Ring};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::TryRecvError;

/// Packets wait this long in the queues of a dead instance; then they are dropped, and its chains shed until it
/// is back. A restart takes a few ten milliseconds.
const DOWN_PATIENCE_NS: u64 = 1_000_000_000;
/// A sleeper that was first seen with packets so long ago is woken: at the next sweep, that is.
const OVERDUE_NS: u64 = 40_000;
/// An instance that made no pass for so many sweeps while packets wait is woken whatever its bell says.
const STILL_SWEEPS: u32 = 100;

/// Time between two showings of the gauges: somewhat less than the control loop's millisecond.
const GAUGES_NS: u64 = 900_000;

impl Dataplane {
    /// One sweep. Returns whether the loop goes on.
    pub(super) fn sweep(&mut self, now: u64) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Finish(answer)) => {
                    self.finish();
                    let _ = answer.send(self.snapshot(true));
                    return false;
                }
                Ok(command) => self.obey(command, now),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        self.ports.iter_mut().for_each(|p| p.flush());
        self.show_gauges(now);
        self.wake_the_forgotten(now);
        self.look_for_liars();
        self.empty_queues_of_the_dead(now);
        self.step_audit(now);
        self.step_trial(now);
        self.say_done(now);
        true
    }

    fn obey(&mut self, command: Command, now: u64) {
        match command {
            Command::Run => self.receiving = true,
            Command::StopReceiving => self.receiving = false,
            Command::Prepare(answer) => {
                let _ = answer.send(Box::new(self.prepare()));
            }
            Command::Grow(growth, answer) => {
                self.grow(*growth, now);
                let _ = answer.send(());
            }
            Command::Close(chains) => self.close(&chains),
            Command::Open(ingress, chains, answer) => {
                let _ = answer.send(self.open(ingress, &chains));
            }
            Command::Thin(thinning, answer) => {
                self.thin(*thinning);
                let _ = answer.send(());
            }
            Command::Trial(order, answer) => self.begin_trial(order, answer),
            Command::Snapshot(answer) => {
                let _ = answer.send(self.snapshot(false));
            }
            Command::Up(i, page) => {
                let view = &mut self.instances[i];
                view.bad_seen = 0;
                view.page = Some(page);
                (view.long_down, view.reviving) = (false, false);
                if view.down.take().is_some() {
                    self.begin_audit(i, now);
                }
                self.unpause();
            }
            Command::Down(i) => {
                let view = &mut self.instances[i];
                view.page = None;
                view.reviving = false;
                // One that dies again before it ran has been down all the time.
                view.down.get_or_insert(now);
            }
            Command::Reviving(i, answer) => {
                let view = &mut self.instances[i];
                view.reviving = true;
                view.inputs.iter().for_each(|&e| self.drains[e] = None);
                let _ = answer.send(());
            }
            Command::Finish(_) => {}
        }
    }

    /// Shows the control loop what chains received and shed, and takes its advice: as often as it looks.
    pub(super) fn show_gauges(&mut self, now: u64) {
        if now < self.gauges_at {
            return;
        }
        self.gauges_at = now + self.clock.ticks_in(GAUGES_NS);
        let now_ns = self.clock.at_ns(now);
        for (chain, gauge) in self.gauges.iter().enumerate() {
            let (received, refused) = self.ledger.at_entry(chain);
            gauge.show(received, refused, self.entries[chain].inside, now_ns);
            self.entries[chain].heed();
        }
        self.marking = self.gauges.iter().any(|g| g.advice.marks());
    }

    /// A sleeper with packets in a queue that nobody found worth waking it for, and no more came. [`OVERDUE_NS`] and two
    /// sweeps bound the age of a packet in a queue. A neighbour may have written over the bell, so that the sleeper looks
    /// awake: it is woken when it has not moved for longer. Sleepers that wait for room have a full queue behind them and
    /// are woken by its consumer.
    fn wake_the_forgotten(&mut self, now: u64) {
        if self.entries.iter().all(|e| e.inside == 0) {
            return;
        }
        let overdue = self.clock.ticks_in(OVERDUE_NS);
        // A stock platform's NFs wait for no room.
        let waits_for_room = self.plan.mechanisms.backpressure();
        for view in self.instances.iter_mut().filter(|v| v.down.is_none()) {
            let rings = &self.fabric.rings;
            // Queues that it is to leave alone do not count, until it is told otherwise.
            let yields = |q| view.page.as_ref().is_some_and(|p| p.queue_control(q).yields.load(Relaxed) != 0);
            let inputs = view.inputs.iter().enumerate().filter(|(q, _)| !yields(*q));
            let packets = inputs.fold(0u32, |sum, (_, &e)| sum.saturating_add(rings[e].len()));
            let asleep = packets > 0 && view.bell.is_asleep();
            view.asleep_at = if asleep { view.asleep_at.or(Some(now)) } else { None };
            let waiting = Waiting {
                packets,
                // Who fills the queues decides by numbers; here it is time.
                wake_at: u32::MAX,
                urgent: false,
                overdue: view.asleep_at.is_some_and(|at| now.saturating_sub(at) >= overdue),
                stalled: waits_for_room && view.outputs.iter().any(|&e| rings[e].len() > rings[e].capacity() / 2),
            };
            let passes = view.page.as_ref().map_or(0, |p| p.status().passes.load(Relaxed));
            view.still = if packets > 0 && passes == view.passes { view.still + 1 } else { 0 };
            view.passes = passes;
            if worth_waking(waiting) || view.still >= STILL_SWEEPS {
                view.bell.wake();
                (view.still, view.asleep_at) = (0, None);
            }
        }
    }

    /// Instances count descriptors that they refused; who sent them lies, and the packets are lost until an audit.
    fn look_for_liars(&mut self) {
        for i in 0..self.instances.len() {
            let Some(page) = &self.instances[i].page else { continue };
            let bad = page.status().bad_descriptors.load(Relaxed);
            if bad == self.instances[i].bad_seen {
                continue;
            }
            let queues = &self.plan.instances[i].queues;
            let from = (0..queues.len()).find(|&q| page.queue(q).bad.load(Relaxed) > 0);
            let edge = from.map(|q| &self.plan.edges[queues[q].edge]);
            let count = bad.wrapping_sub(self.instances[i].bad_seen);
            self.instances[i].bad_seen = bad;
            // Its own word: more than its queues can hold is an invention, and no ground to kill a neighbour.
            if count > u64::from(Ring::MAX_CAPACITY) * queues.len() as u64 {
                let found = format!("word of {count} refused descriptors, more than can have come");
                let _ = self.events.send(Event::Lied { instance: i, found });
                continue;
            }
            if let Some(chainline_chain::plan::End::Instance(liar)) = edge.map(|e| e.from) {
                let name = &self.plan.instances[i].name;
                let found = format!("{count} descriptors that {name} refused");
                let _ = self.events.send(Event::Lied { instance: liar, found });
            }
        }
    }

    fn empty_queues_of_the_dead(&mut self, now: u64) {
        for i in 0..self.instances.len() {
            let Some(since) = self.instances[i].down else { continue };
            // A queue has one consumer: who is being started may have taken over already.
            if self.clock.ns(now - since.min(now)) < DOWN_PATIENCE_NS || self.instances[i].reviving {
                continue;
            }
            self.instances[i].long_down = true;
            for q in 0..self.plan.instances[i].queues.len() {
                let queue = &self.plan.instances[i].queues[q];
                let entry = &mut self.entries[queue.chain];
                // Other replicas of a chain's first NF go on.
                let first = entry.lanes().find(|l| l.edge == queue.edge).map(|lane| lane.down = true).is_some();
                if !first || entry.lanes().all(|l| l.down) {
                    (entry.paused, entry.down) = (true, true);
                }
                let ring = &self.fabric.rings[queue.edge];
                let drain = self.drains[queue.edge].get_or_insert_with(|| Consumer::attach(ring.clone()));
                let tenant = self.entries[queue.chain].tenant;
                let drained = drain.available(1) > 0;
                while drain.available(1) > 0 {
                    let desc = drain.peek(0);
                    drain.release(1);
                    let origins = &self.edge_origins[queue.edge];
                    if let Ok((chain, at)) = self.tenants[tenant].claim_from(desc, |c| origins.have(c)) {
                        self.tenants[tenant].release(&[desc.buf.index()]);
                        self.entries[usize::from(chain)].inside -= 1;
                        self.ledger.account(usize::from(chain), at).nf_down += 1;
                    }
                }
                // Whoever filled it sleeps for room.
                if drained && let chainline_chain::plan::End::Instance(p) = self.plan.edges[queue.edge].from {
                    self.instances[p].bell.ring();
                }
            }
        }
    }

    /// Chains admit again unless an audit runs or one of their instances is down for long.
    pub(super) fn unpause(&mut self) {
        let audited = |c: usize| self.audit.as_ref().is_some_and(|a| a.covers(c));
        for (c, e) in self.entries.iter_mut().enumerate() {
            let lanes = self.plan.chains[c].entry.edges();
            // By another queue than one of the entry, where the chain would go on by the others.
            let serves = |plan: &InstancePlan| plan.queues.iter().any(|q| q.chain == c && !lanes.contains(&q.edge));
            let all = || self.plan.instances.iter().zip(&self.instances);
            let inner = all().any(|(plan, v)| v.long_down && serves(plan));
            let mut shut = 0;
            for lane in e.lanes() {
                lane.down = all().any(|(_, v)| v.long_down && v.inputs.contains(&lane.edge));
                shut += usize::from(lane.down);
            }
            let down = inner || shut == lanes.len();
            (e.paused, e.down) = (down || audited(c) || e.gate == Gate::Changing, down);
        }
    }

    /// Says once that all sources are exhausted and everything has come out.
    fn say_done(&mut self, now: u64) {
        let ends = self.receiving
            && !self.done_said
            && self.ingress.iter().all(|i| self.ports[i.port].exhausted())
            && self.egress.iter().all(|e| e.pending.is_empty());
        if ends && self.entries.iter().all(|e| e.inside == 0) {
            self.done_said = true;
            let _ = self.events.send(Event::Done);
        } else if ends {
            self.audit_the_rest(now);
        }
    }

    /// The last steps: everything still in a queue is taken out, what instances made away with is found, what a
    /// port never took is dropped.
    fn finish(&mut self) {
        self.receiving = false;
        loop {
            let mut moved = 0;
            for e in 0..self.egress.len() {
                moved += self.transmit(e);
            }
            for i in 0..self.returns.len() {
                moved += self.take_back(i);
            }
            if moved == 0 {
                break;
            }
        }
        self.audit_at_the_end();
        for e in &mut self.egress {
            for (f, chain) in e.pending.drain(..) {
                self.tenants[e.home].release(&[f.index]);
                self.ledger.account(usize::from(chain), f.at).port_full += 1;
            }
        }
        self.close_errors.extend(self.ports.iter_mut().filter_map(|p| p.close().err()));
    }
}
