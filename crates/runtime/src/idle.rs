//! What an instance does when there is nothing to do: give away what it has, look around for as long as its mode says,
//! sleep.

use crate::host::Host;
use crate::setup::Activation;
use chainline_shm::clock::ticks;
use chainline_shm::{Bell, Clock, handover};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The longest sleep. Work rings the bell; this is for NFs with state to age.
const LONGEST: Duration = Duration::from_secs(1);
/// Sleep while an NF holds packets: it may want to release them at a tick.
const HOLDING: Duration = Duration::from_millis(10);
/// Passes without work after which a polling NF gives up a core that it shares (docs/adr/0013): the others cannot give
/// it work before they run.
const EMPTY_PASSES: u32 = 64;

/// How an instance waits, and since when it does.
pub(crate) struct Waits {
    mode: Activation,
    spin_ticks: u64,
    /// Passes since there was work.
    passes: u32,
    /// Of the first of them: ticks.
    since: u64,
}

impl Waits {
    pub fn new(mode: Activation, clock: &Clock) -> Self {
        let spin_ns = if let Activation::Hybrid { spin_ns } = mode { spin_ns } else { 0 };
        // Far beyond any run, and it can still be added to a time.
        let spin_ticks = clock.ticks_in(spin_ns).min(u64::MAX / 2);
        Self { mode, spin_ticks, passes: 0, since: 0 }
    }

    /// Whether it sleeps as soon as there is nothing to do.
    pub fn sleeps(&self) -> bool {
        self.mode == Activation::Wake
    }

    /// There was work.
    #[inline]
    pub fn worked(&mut self) {
        self.passes = 0;
    }

    /// Whether to look once more before sleeping.
    fn looks(&self) -> bool {
        match self.mode {
            Activation::Wake => false,
            Activation::Poll { alone } => alone || self.passes < EMPTY_PASSES,
            Activation::Hybrid { .. } => ticks() < self.since + self.spin_ticks,
        }
    }
}

impl Host {
    /// A pass found nothing to do: waits a moment, or sleeps until there may be something. `gives_way`: until there may be
    /// a burst; a smaller number the manager finds when it is overdue.
    pub(crate) fn idle(&mut self, gives_way: bool) {
        self.gives_way = gives_way;
        if self.waits.passes == 0 && self.waits.mode != Activation::Wake {
            self.waits.since = ticks();
            let calls = handover::give_away(self);
            let wakes = &self.page.status().wakes;
            wakes.store(wakes.load(Relaxed) + calls, Relaxed);
        }
        self.waits.passes = self.waits.passes.saturating_add(1);
        if self.waits.looks() {
            std::hint::spin_loop();
            return;
        }
        let holding = self.holds.held() + self.holds.released() > 0;
        let longest = if holding { HOLDING } else { LONGEST };
        let due = self.rest_files();
        let bell: Bell = self.own_bell.clone();
        handover::rest(&bell, due.map_or(longest, |due| due.min(longest)), self);
        self.waits.passes = 0;
    }
}

impl handover::Queues for Host {
    fn hand_over(&mut self) -> u64 {
        self.outlets.iter().map(|o| u64::from(o.producer.hand_over(&o.bell))).sum()
    }

    fn offer_room(&mut self) -> u64 {
        self.inlets.iter().map(|i| u64::from(i.offer_room())).sum()
    }

    fn show_blocked(&mut self, blocked: bool) {
        for i in self.inlets.iter().filter(|i| i.blocked) {
            i.consumer.set_stalled(blocked);
            i.needs.iter().for_each(|&o| self.outlets[o].producer.set_wants_room(blocked));
        }
    }

    fn has_work(&mut self) -> bool {
        self.may_go_on(self.gives_way)
    }

    fn falls_asleep(&mut self, calls: u64) {
        let status = self.page.status();
        status.sleeps.store(status.sleeps.load(Relaxed) + 1, Relaxed);
        status.wakes.store(status.wakes.load(Relaxed) + calls, Relaxed);
    }
}
