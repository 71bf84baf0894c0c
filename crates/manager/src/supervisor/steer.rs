//! A steered run: the chains are started once, and trials made as they are ordered.

use super::{LOOK, RunError, Supervisor};
use crate::control::Control;
use crate::dataplane::{Command, Prepared, TrialOrder};
use crate::environment::Environment;
use crate::ports::{Drive, Times};
use crate::supervisor::outcome::{self, Reading};
use crate::{Observer, Report};
use chainline_chain::model::Port;
use chainline_chain::plan::{Host, Plan};
use chainline_shm::clock::ticks;
use chainline_trial::{Latency, Load, Order, Ready, Reply};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Between two looks for an order while none is there.
const LISTEN: Duration = Duration::from_millis(2);
/// From the order to the trial's first frame: time for it to reach the data path.
const LEAD_NS: u64 = 2_000_000;
/// The data path answers this long after the end of a trial at the latest.
const ANSWER: Duration = Duration::from_secs(10);
/// The most frames a second that can be ordered: above what any link of today carries.
const MAX_PPS: f64 = 1e10;
/// The longest warm-up, window and drain in milliseconds.
const LONGEST_MS: [u64; 3] = [600_000, 86_400_000, 60_000];
/// The most nanoseconds of a window besides its milliseconds.
const LONGEST_NS: u64 = 1_000_000_000;
/// The most slices of a window.
const MOST_SLICES: u64 = 10_000;

/// Where the orders of a steered run come from, and where what became of them goes.
pub trait Orders {
    /// The channel of orders; an `Err` is one that could not be read, and says why. The run ends when nobody can send
    /// any more.
    fn orders(&self) -> &Receiver<Result<Order, String>>;

    /// Says something. Returns whether somebody still listens; the run ends if not.
    fn reply(&mut self, reply: &Reply) -> bool;
}

impl Supervisor<'_> {
    /// Whether trials can be made with a plan.
    pub fn steerable(plan: &Plan) -> Result<(), RunError> {
        let refuse = |what: String| Err(RunError::Unsupported(format!("this run cannot be steered: {what}")));
        let source = |p: &Port| matches!(p, Port::Pcap(c) if c.read.is_some());
        if let Some(p) = plan.ports.iter().find(|p| source(&p.spec)) {
            return refuse(format!(
                "port {} reads a capture, whose rate a trial cannot set; expected generators and devices",
                p.name
            ));
        }
        if !plan.ports.iter().any(|p| matches!(p.spec, Port::Generator(_))) {
            return refuse("no port is a generator; expected at least one, such as `in: {generator: {}}`".into());
        }
        Ok(())
    }

    /// Makes trials until no more are ordered.
    pub fn steer(mut self, orders: &mut dyn Orders, observer: &mut dyn Observer) -> Result<Report, RunError> {
        self.steered = true;
        self.start(observer)?;
        self.began = Instant::now();
        let (answer, answered) = channel();
        self.command(Command::Prepare(answer))?;
        let prepared = answered.recv().map_err(|_| RunError::DataPath)?;
        self.open(observer)?;
        // What was said until now is no happening of a trial.
        self.look(Duration::ZERO, observer)?;
        let mut listened = orders.reply(&Reply::Ready(self.ready(&prepared)));
        while listened && (self.options.stop)() == 0 {
            let reply = match orders.orders().try_recv() {
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    self.look(LISTEN, observer)?;
                    self.serve(observer)?;
                    continue;
                }
                Ok(Err(why)) => Reply::Refused { why },
                Ok(Ok(order)) => match check(&order).and_then(|()| self.target(&order).map(drop)) {
                    Err(why) => Reply::Refused { why },
                    Ok(()) => match self.trial(&order, &prepared, observer)? {
                        Some(reply) => reply,
                        None => break,
                    },
                },
            };
            listened = orders.reply(&reply);
        }
        self.end(observer)
    }

    fn ready(&self, prepared: &Prepared) -> Ready {
        Ready {
            environment: serde_json::to_value(Environment::of(&self.fabric)).unwrap_or_default(),
            generator_max_pps: prepared.max_pps,
            floor_ns: prepared.floor.as_ref().and_then(Latency::of).unwrap_or_default(),
            mean_frame_bytes: prepared.shares.iter().map(|(_, share, bytes)| share * bytes).sum(),
        }
    }

    /// The instance that an order resets, if it does.
    fn target(&self, order: &Order) -> Result<Option<usize>, String> {
        let Some(name) = &order.reset else { return Ok(None) };
        let Some(nf) = self.plan.nfs.iter().find(|nf| nf.name == *name) else {
            let all: Vec<&str> = self.plan.nfs.iter().map(|nf| nf.name.as_str()).collect();
            return Err(format!("reset: found {name:?}, expected an NF of the chain file: {}", all.join(", ")));
        };
        match self.plan.instances[nf.instance].host {
            Host::Process => Ok(Some(nf.instance)),
            Host::Thread => {
                Err(format!("reset: {name} is hosted by a thread, expected a process, which can be killed"))
            }
        }
    }

    /// What everybody had counted by now. `at_end` of a window the control loop is asked, too: its answer takes up to a
    /// millisecond of the main thread's time.
    fn reading(&mut self, at_end: bool) -> Reading {
        let tally = self.control.as_ref().filter(|_| at_end).map(Control::tally);
        Reading { at: ticks(), totals: self.totals(), usage: self.usages(), tally }
    }

    /// One trial; `None` if the operator ended the run meanwhile.
    fn trial(
        &mut self,
        order: &Order,
        prepared: &Prepared,
        observer: &mut dyn Observer,
    ) -> Result<Option<Reply>, RunError> {
        let clock = self.fabric.clock;
        let after = |at: u64, ms: u64| at + clock.ticks_in(ms * 1_000_000);
        let begin = ticks() + clock.ticks_in(LEAD_NS);
        let from = after(begin, order.warmup_ms);
        let until = after(from, order.duration_ms) + clock.ticks_in(order.duration_ns);
        let end = after(until, order.drain_ms);
        let drive = |share: f64| match order.load {
            Load::Pps(pps) => Drive::Paced(pps * share),
            Load::Max => Drive::Max,
            Load::Lossless => Drive::Lossless,
        };
        let drives = prepared.shares.iter().map(|(port, share, _)| (*port, drive(*share))).collect();
        let mut reset = self.target(order).ok().flatten().map(|i| (from + (until - from) / 4, i));
        let happened = self.happenings.len();
        let (answer, answered) = channel();
        self.command(Command::Trial(TrialOrder { times: Times { begin, from, until }, end, drives }, answer))?;
        // What NFs and instances counted is read as the window begins, at the ends of its slices, and as it ends.
        let reading_at = looks(order, from, until, |ms| clock.ticks_in(ms * 1_000_000));
        let mut readings: Vec<Reading> = Vec::with_capacity(reading_at.len());
        let late = Instant::now() + Duration::from_nanos(clock.ns(end.saturating_sub(ticks()))) + ANSWER;
        let ended = loop {
            let now = ticks();
            if let Some((_, i)) = reset.take_if(|(at, _)| now >= *at) {
                self.instances[i].reset();
            }
            let next = reading_at.get(readings.len()).copied();
            if next.is_some_and(|at| now >= at) {
                let at_end = readings.is_empty() || readings.len() + 1 == reading_at.len();
                let reading = self.reading(at_end);
                readings.push(reading);
                continue;
            }
            match answered.try_recv() {
                Ok(ended) if readings.len() == reading_at.len() => break ended,
                // It came before the last reading: the window is over.
                Ok(ended) => {
                    let missing = readings.len().max(1) + 1;
                    readings.resize_with(missing, || self.reading(true));
                    break ended;
                }
                Err(TryRecvError::Disconnected) => return Err(RunError::DataPath),
                Err(TryRecvError::Empty) if Instant::now() > late => return Err(RunError::DataPath),
                Err(TryRecvError::Empty) => {}
            }
            if (self.options.stop)() > 0 {
                return Ok(None);
            }
            let next = next.into_iter().chain(reset.map(|(at, _)| at)).min();
            let until_next = |at: u64| Duration::from_nanos(clock.ns(at.saturating_sub(now)));
            let wait = next.map_or(LISTEN, |at| until_next(at).min(LOOK));
            self.look(wait, observer)?;
        };
        let declared: Vec<_> = self.instances.iter().map(|i| i.declared.as_slice()).collect();
        let happenings = self.happenings[happened..].iter();
        let outcome = outcome::of(outcome::Trial {
            plan: &self.plan,
            clock: &clock,
            paced: matches!(order.load, Load::Pps(_)),
            seconds: (until - from) as f64 / clock.hz() as f64,
            ended: &ended,
            readings: &readings,
            declared: &declared,
            happenings: happenings
                .map(|h| h.instance.iter().chain([&h.what]).cloned().collect::<Vec<_>>().join(": "))
                .collect(),
        });
        Ok(Some(Reply::Outcome(Box::new(outcome))))
    }
}

/// When to read: as the window begins, at the end of each whole slice within it, as it ends.
fn looks(order: &Order, from: u64, until: u64, in_ticks: impl Fn(u64) -> u64) -> Vec<u64> {
    let slices = order.duration_ms.checked_div(order.slice_ms).unwrap_or(0);
    let ends = (1..=slices).map(|i| from + in_ticks(i * order.slice_ms)).filter(|at| *at < until);
    std::iter::once(from).chain(ends).chain([until]).collect()
}

/// Whether an order can be followed.
fn check(order: &Order) -> Result<(), String> {
    if let Load::Pps(pps) = order.load
        && !(pps > 0.0 && pps <= MAX_PPS)
    {
        return Err(format!("load.pps: found {pps}, expected a number above 0 and at most {MAX_PPS:e}"));
    }
    if order.duration_ms == 0 && order.duration_ns == 0 {
        return Err("duration_ms: found 0, expected at least 1, or duration_ns".into());
    }
    if order.duration_ns > LONGEST_NS {
        return Err(format!("duration_ns: found {}, expected at most {LONGEST_NS}", order.duration_ns));
    }
    let slices = order.duration_ms.checked_div(order.slice_ms).unwrap_or(0);
    if slices > MOST_SLICES {
        return Err(format!("slice_ms: the window would have {slices} slices, expected at most {MOST_SLICES}"));
    }
    let times = [("warmup_ms", order.warmup_ms), ("duration_ms", order.duration_ms), ("drain_ms", order.drain_ms)];
    for ((name, ms), most) in times.into_iter().zip(LONGEST_MS) {
        if ms > most {
            return Err(format!("{name}: found {ms}, expected at most {most}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_orders_are_refused() {
        let order = |load, duration_ms| Order { load, duration_ms, drain_ms: 0, ..Order::default() };
        assert_eq!(check(&order(Load::Pps(1e6), 1)), Ok(()));
        assert_eq!(check(&order(Load::Max, 86_400_000)), Ok(()));
        for pps in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(check(&order(Load::Pps(pps), 1)).is_err(), "{pps}");
        }
        for ms in [0, 86_400_001, u64::MAX] {
            assert!(check(&order(Load::Lossless, ms)).is_err(), "{ms}");
        }
        assert!(check(&Order { warmup_ms: u64::MAX, ..order(Load::Max, 1) }).is_err());
        assert!(check(&Order { drain_ms: u64::MAX, ..order(Load::Max, 1) }).is_err());
        assert!(check(&Order { duration_ns: u64::MAX, ..order(Load::Max, 0) }).is_err());
        assert_eq!(check(&Order { duration_ns: 1, ..order(Load::Max, 0) }), Ok(()));
        assert!(check(&Order { slice_ms: 1, ..order(Load::Max, 10_000) }).is_ok());
        assert!(check(&Order { slice_ms: 1, ..order(Load::Max, 10_001) }).is_err());
    }

    #[test]
    fn the_window_is_read_at_its_ends_and_between_slices() {
        let at = |slice_ms, duration_ms| {
            let order = Order { duration_ms, slice_ms, ..Order::default() };
            looks(&order, 1000, 1000 + 10 * duration_ms, |ms| 10 * ms)
        };
        assert_eq!(at(0, 30), [1000, 1300]);
        assert_eq!(at(10, 30), [1000, 1100, 1200, 1300]);
        assert_eq!(at(20, 30), [1000, 1200, 1300]);
        assert_eq!(at(50, 30), [1000, 1300]);
    }
}
