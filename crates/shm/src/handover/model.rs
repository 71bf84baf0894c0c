//! No wake-up is lost, whatever the order in which two sides see each other's stores: checked by loom, in which a thread
//! that sleeps for ever is a deadlock. With a fence left out the same models fail.

use super::{Queues, rest};
use crate::desc::BufId;
use crate::sync::{Side, omit};
use crate::{Bell, Consumer, Desc, Producer, Ring};
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(1);

/// Models take turns: what is left out is left out for all.
static TURN: Mutex<()> = Mutex::new(());

/// A model, and how many switches between threads it is given beyond those that waiting brings about. Stores that become
/// visible late need none; a model with more steps is given fewer, so that all of them take seconds.
type Model = (fn(), usize);

const PACKETS: Model = (packets, 3);
const FEW_PACKETS: Model = (few_packets, 3);
const ROOM: Model = (room, 2);
const THREE: Model = (three, 1);
const STOP: Model = (stop, 3);

fn explore((model, preemptions): Model) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn holds(model: Model) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    omit(None);
    explore(model);
}

fn fails_without(side: Side, model: Model) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    omit(Some(side));
    let outcome = catch_unwind(AssertUnwindSafe(|| explore(model)));
    omit(None);
    assert!(outcome.is_err(), "the model does not notice that the fence of the {side:?} is missing");
}

fn desc(i: u32) -> Desc {
    Desc { buf: BufId::new(i, 0), ..Desc::default() }
}

/// A loop between an input queue and an output queue, either of which may be missing.
struct Loop {
    bell: Bell,
    input: Option<(Consumer, Option<Bell>)>,
    output: Option<(Producer, Bell)>,
    wake_at: u32,
    blocked: bool,
    stop: Option<Arc<AtomicU32>>,
}

impl Loop {
    fn stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|s| s.load(Relaxed) != 0)
    }

    /// Packets are made here when there is no input queue.
    fn waiting(&mut self) -> u32 {
        self.input.as_mut().map_or(1, |(c, _)| c.available(1))
    }

    fn has_room(&mut self) -> bool {
        match &mut self.output {
            Some((p, _)) if self.blocked => p.has_half_free(),
            Some((p, _)) => p.room(1) > 0,
            None => true,
        }
    }

    /// Moves one packet. As the loop of an instance: looks for packets, then for room, gives the place back, works, shows.
    fn step(&mut self, number: u32) -> bool {
        if self.waiting() == 0 {
            return false;
        }
        if !self.has_room() {
            self.blocked = true;
            return false;
        }
        self.blocked = false;
        if let Some((c, bell)) = &mut self.input {
            assert_eq!(c.peek(0), desc(number));
            c.release(1);
            bell.as_ref().map(|b| c.offer_room(b));
        }
        if let Some((p, bell)) = &mut self.output {
            p.push(desc(number));
            p.publish_to(bell, self.wake_at, false);
        }
        true
    }

    /// Moves `count` packets, then rests as an instance does that ends.
    fn run(mut self, count: u32) {
        let mut done = 0;
        while done < count && !self.stopped() {
            if self.step(done) {
                done += 1;
            } else {
                let bell = self.bell.clone();
                rest(&bell, LONG, &mut self);
            }
        }
        super::give_away(&mut self);
    }
}

impl Queues for Loop {
    fn hand_over(&mut self) -> u64 {
        self.output.as_ref().map_or(0, |(p, bell)| u64::from(p.hand_over(bell)))
    }
    fn offer_room(&mut self) -> u64 {
        let Some((c, Some(bell))) = &self.input else { return 0 };
        u64::from(c.offer_room(bell))
    }
    fn show_blocked(&mut self, blocked: bool) {
        if self.blocked {
            self.input.as_ref().map(|(c, _)| c.set_stalled(blocked));
            self.output.as_ref().map(|(p, _)| p.set_wants_room(blocked));
        }
    }
    fn has_work(&mut self) -> bool {
        // As an instance: whether there is room it finds out when it goes on, and then says so before it rests.
        self.stopped() || self.waiting() > 0 && (!self.blocked || self.has_room())
    }
    fn falls_asleep(&mut self, _: u64) {}
}

/// One who makes `count` packets and one who takes them, with a queue of `capacity` between them.
fn two(capacity: u32, count: u32, wake_at: u32) {
    let ring = Ring::create(capacity).unwrap();
    let (first, second) = (Bell::create().unwrap(), Bell::create().unwrap());
    let maker = Loop {
        bell: first.clone(),
        input: None,
        output: Some((Producer::attach(ring.clone()), second.clone())),
        wake_at,
        blocked: false,
        stop: None,
    };
    let taker = Loop {
        bell: second,
        input: Some((Consumer::attach(ring), Some(first))),
        output: None,
        wake_at,
        blocked: false,
        stop: None,
    };
    let maker = thread::spawn(move || maker.run(count));
    taker.run(count);
    maker.join().unwrap();
}

/// The consumer sleeps, the producer publishes.
fn packets() {
    two(2, 2, 1);
}

/// The same below the number that is worth a wake-up: the producer hands over before it rests.
fn few_packets() {
    two(2, 1, 2);
}

/// The producer sleeps until there is room, the consumer makes some.
fn room() {
    two(2, 3, 1);
}

/// The last one makes room and sleeps; the one in the middle is stalled and must not be forgotten.
fn three() {
    let rings = [Ring::create(2).unwrap(), Ring::create(2).unwrap()];
    let bells = [Bell::create().unwrap(), Bell::create().unwrap(), Bell::create().unwrap()];
    let producer = |i: usize| Some((Producer::attach(rings[i].clone()), bells[i + 1].clone()));
    let consumer = |i: usize| Some((Consumer::attach(rings[i].clone()), Some(bells[i].clone())));
    let part = |i: usize| Loop {
        bell: bells[i].clone(),
        input: (i > 0).then(|| consumer(i - 1)).flatten(),
        output: (i < 2).then(|| producer(i)).flatten(),
        wake_at: 1,
        blocked: false,
        stop: None,
    };
    let (first, second, third) = (part(0), part(1), part(2));
    let first = thread::spawn(move || first.run(3));
    let second = thread::spawn(move || second.run(3));
    third.run(3);
    first.join().unwrap();
    second.join().unwrap();
}

/// Told to stop while it falls asleep.
fn stop() {
    let (bell, stop) = (Bell::create().unwrap(), Arc::new(AtomicU32::new(0)));
    let ring = Ring::create(2).unwrap();
    let taker = Loop {
        bell: bell.clone(),
        input: Some((Consumer::attach(ring), None)),
        output: None,
        wake_at: 1,
        blocked: false,
        stop: Some(stop.clone()),
    };
    let taker = thread::spawn(move || taker.run(1));
    stop.store(1, Relaxed);
    bell.wake();
    taker.join().unwrap();
}

#[test]
fn a_sleeping_consumer_is_woken() {
    holds(PACKETS);
}

#[test]
fn a_sleeping_consumer_is_handed_what_is_not_worth_a_wake_up() {
    holds(FEW_PACKETS);
}

#[test]
fn a_producer_that_waits_for_room_is_woken() {
    holds(ROOM);
}

#[test]
fn nobody_of_three_is_forgotten() {
    holds(THREE);
}

#[test]
fn a_sleeper_is_stopped() {
    holds(STOP);
}

#[test]
fn each_fence_is_needed() {
    for model in [PACKETS, FEW_PACKETS, ROOM, STOP] {
        fails_without(Side::Sleeper, model);
        fails_without(Side::Waker, model);
    }
}
