//! What an instance does when there is nothing to do: give away what it has, look around, sleep.

use crate::host::Host;
use chainline_shm::clock::ticks;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The longest sleep. Work rings the bell; this is for NFs with state to age.
const LONGEST: Duration = Duration::from_secs(1);
/// Sleep while an NF holds packets: it may want to release them at a tick.
const HOLDING: Duration = Duration::from_millis(10);

impl Host {
    /// Sleeps until there may be work.
    pub(crate) fn idle(&mut self) {
        if self.spin_ticks > 0 {
            let until = ticks() + self.spin_ticks;
            while ticks() < until {
                if self.has_work() {
                    return;
                }
                std::hint::spin_loop();
            }
        }
        let mut calls = 0;
        for o in &self.outlets {
            calls += u64::from(o.hand_over());
        }
        for i in self.inlets.iter().filter(|i| i.blocked) {
            i.needs.iter().for_each(|&o| self.outlets[o].producer.set_wants_room(true));
        }
        let due = self.rest_files();
        self.own_bell.announce_sleep();
        // A producer that ran out of room between our last packet and now.
        for i in &self.inlets {
            calls += u64::from(i.offer_room());
        }
        if self.has_work() {
            self.own_bell.stay_awake();
        } else {
            let status = self.page.status();
            status.sleeps.store(status.sleeps.load(Relaxed) + 1, Relaxed);
            status.wakes.store(status.wakes.load(Relaxed) + calls, Relaxed);
            let holding = self.holds.held() + self.holds.released() > 0;
            let longest = if holding { HOLDING } else { LONGEST };
            self.own_bell.sleep(due.map_or(longest, |due| due.min(longest)));
        }
        for i in self.inlets.iter().filter(|i| i.blocked) {
            i.needs.iter().for_each(|&o| self.outlets[o].producer.set_wants_room(false));
        }
    }
}
