//! Trials of a steered run: the generators make a load for a while, and the packets that were due in the measured
//! window are counted apart from all others, from the first to the last ([`Span`]), whenever they leave.

use super::Dataplane;
use super::ledger::{ChainLedger, Span, latencies};
use crate::ports::{Checked, Drive, Frames, Made, PORT_BURST, Port, PortLoss, Sink, Times};
use chainline_shm::clock::ticks;
use hdrhistogram::Histogram;
use std::sync::mpsc::Sender;

/// Frames that were due in the window are made for so long after it, if the generator is late. What is later than
/// that was not sent, and the generator was saturated.
const GRACE_NS: u64 = 1_000_000;
/// How long each half of the generators' own measurement takes.
const REHEARSAL_NS: u64 = 50_000_000;
/// Frames a second while the floor of the latency is measured, or a tenth of what the generators make at most.
const FLOOR_PPS: f64 = 100_000.0;

/// A trial to make.
pub struct TrialOrder {
    /// When frames are due.
    pub times: Times,
    /// When the trial is over at the latest: ticks.
    pub end: u64,
    /// What each generator does, by port.
    pub drives: Vec<(usize, Drive)>,
}

/// What became of a trial's window.
pub struct TrialEnd {
    /// By chain.
    pub chains: Vec<ChainLedger>,
    /// What no chain matched, by port.
    pub no_match: Vec<u64>,
    /// By generator: its port, and what it made.
    pub made: Vec<(usize, Made)>,
    /// What sinks that read stamps found; none if there is no such sink.
    pub checked: Option<Checked>,
    /// What ports that are not generators lost from the trial's begin to its end, by port.
    pub losses: Vec<(usize, PortLoss)>,
    /// Packets still inside, counted buffer by buffer.
    pub held_counted: u64,
    /// Share of the window in which the loop moved packets.
    pub busy: f64,
}

/// What is known before the first trial.
pub struct Prepared {
    /// Frames a second that all generators together make at most, into nothing.
    pub max_pps: f64,
    /// Nanoseconds from due to sunk, with nothing between.
    pub floor: Option<Histogram<u64>>,
    /// By generator: its port, its share of the load, the mean length of its frames in bytes, with FCS.
    pub shares: Vec<(usize, f64, f64)>,
}

/// A trial that is being made.
pub(crate) struct Trial {
    order: TrialOrder,
    answer: Sender<Box<TrialEnd>>,
    /// Busy ticks of the loop when the window began and ended.
    busy: [Option<u64>; 2],
    made: Option<Vec<(usize, Made)>>,
    /// Whether stamps are read: then nothing is known of frames that are outside.
    pub checked: bool,
    losses: Vec<(usize, PortLoss)>,
}

impl Dataplane {
    /// Halts the generators, and measures what they can do on copies of them.
    pub(super) fn prepare(&mut self) -> Prepared {
        let mut copies: Vec<(usize, _)> = Vec::new();
        for (port, p) in self.ports.iter_mut().enumerate() {
            if let Some(generator) = p.generator() {
                copies.push((port, generator.clone()));
                generator.halt();
            }
        }
        // In proportion of the file's rates; where one has none, all get the same.
        let rates: Option<Vec<f64>> = copies.iter().map(|(_, g)| g.pps()).collect();
        let rates = rates.unwrap_or_else(|| vec![1.0; copies.len()]);
        let sum: f64 = rates.iter().sum();
        let shares = copies.iter().zip(&rates).map(|((port, g), r)| (*port, r / sum, g.mean_frame_bytes())).collect();
        let mut rehearse = |drive: &dyn Fn(f64) -> Drive| {
            let begin = ticks();
            let until = begin + self.clock.ticks_in(REHEARSAL_NS);
            for ((_, g), rate) in copies.iter_mut().zip(&rates) {
                g.drive(drive(rate / sum), Times { begin, from: begin, until }, 0);
            }
            let (mut count, mut latency) = (0_u64, latencies());
            loop {
                let now = ticks();
                for (port, g) in &mut copies {
                    count += self.sink_a_burst(*port, g, now, latency.as_mut());
                }
                // What the loop does besides in each pass.
                (0..self.egress.len()).for_each(|e| _ = self.transmit(e));
                (0..self.returns.len()).for_each(|i| _ = self.take_back(i));
                if now >= until {
                    return (count as f64 / (self.clock.ns(now - begin) as f64 / 1e9), latency);
                }
            }
        };
        let (max_pps, _) = rehearse(&|_| Drive::Max);
        let slow = FLOOR_PPS.min(max_pps / 10.0).max(1.0);
        let (_, floor) = rehearse(&|share| Drive::Paced(slow * share));
        Prepared { max_pps, floor, shares }
    }

    /// One burst from a generator to a sink of the same tenant.
    fn sink_a_burst(
        &mut self,
        port: usize,
        source: &mut dyn Port,
        now: u64,
        latency: Option<&mut Histogram<u64>>,
    ) -> u64 {
        let buffers = &mut self.tenants[crate::home_of(&self.plan, &self.fabric, port)];
        let mut frames = Frames::new();
        source.receive(PORT_BURST, now, buffers, &mut frames);
        Sink::default().send(&frames, buffers);
        if let Some(h) = latency {
            let now = ticks();
            frames.iter().for_each(|f| h.saturating_record(self.clock.ns(now.saturating_sub(f.at)).max(1)));
        }
        frames.len() as u64
    }

    pub(super) fn begin_trial(&mut self, order: TrialOrder, answer: Sender<Box<TrialEnd>>) {
        self.ledger.open_window(Span::new(order.times.from, order.times.until));
        // Stamps have room for seven bits; before the first trial it is 0.
        self.trials += 1;
        let number = (self.trials % 128) as u8;
        for &(port, drive) in &order.drives {
            if let Some(generator) = self.ports[port].generator() {
                generator.drive(drive, order.times, number);
            }
        }
        let mut checked = false;
        for check in self.ports.iter_mut().filter_map(|p| p.check()) {
            check.begin(number);
            checked = true;
        }
        let losses = self.losses();
        self.trial = Some(Trial { order, answer, busy: [None; 2], made: None, checked, losses });
    }

    /// What ports that are not generators lost so far.
    fn losses(&mut self) -> Vec<(usize, PortLoss)> {
        let others = self.ports.iter_mut().enumerate().filter_map(|(i, p)| match p.generator() {
            Some(_) => None,
            None => Some((i, p.loss())),
        });
        others.collect()
    }

    /// One step of the trial, if one is made.
    pub(super) fn step_trial(&mut self, now: u64) {
        let Some(trial) = &mut self.trial else { return };
        let times = trial.order.times;
        for (busy, at) in trial.busy.iter_mut().zip([times.from, times.until]) {
            if now >= at {
                busy.get_or_insert(self.busy);
            }
        }
        if now < times.until {
            return;
        }
        if trial.made.is_none() {
            let mut generators: Vec<_> =
                self.ports.iter_mut().enumerate().filter_map(|(i, p)| p.generator().map(|g| (i, g))).collect();
            let late = now < times.until + self.clock.ticks_in(GRACE_NS);
            if late && !generators.iter().all(|(_, g)| g.caught_up(now)) {
                return;
            }
            trial.made = Some(generators.iter_mut().map(|(i, g)| (*i, g.finish(times))).collect());
        }
        let empty = self.entries.iter().all(|e| e.inside == 0) && self.egress.iter().all(|e| e.pending.is_empty());
        if empty && !trial.checked || now >= trial.order.end {
            self.end_trial();
        }
    }

    fn end_trial(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        let times = trial.order.times;
        let span = Span::new(times.from, times.until);
        let pending = self.egress.iter().flat_map(|e| &e.pending).filter(|(f, _)| span.has(f.at)).count() as u64;
        let inside: u64 = self.tenants.iter().map(|t| t.count_inside_if(|at| span.has(at))).sum();
        let mut losses = self.losses();
        for ((_, now), (_, then)) in losses.iter_mut().zip(&trial.losses) {
            *now = now.since(then);
        }
        let mut checked: Option<Checked> = None;
        for check in self.ports.iter_mut().filter_map(|p| p.check()) {
            match &mut checked {
                Some(all) => all.add(check.found()),
                none => *none = Some(check.found().clone()),
            }
        }
        let busy = trial.busy[1].unwrap_or_default().saturating_sub(trial.busy[0].unwrap_or_default());
        // Whoever asked may be gone; the window is over all the same.
        let _ = trial.answer.send(Box::new(TrialEnd {
            chains: self.ledger.close_window(),
            no_match: self.ledger.ports.iter().map(|p| p.no_match_in_window).collect(),
            made: trial.made.unwrap_or_default(),
            checked,
            losses,
            held_counted: inside + pending,
            busy: (busy as f64 / (times.until - times.from).max(1) as f64).min(1.0),
        }));
    }
}
