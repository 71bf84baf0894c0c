//! What the loop does when nothing moves: spin for a while, then sleep, but never past the next packet that is due.

use super::Dataplane;
use chainline_shm::clock::ticks;
use std::time::Duration;

/// Without a packet for so long, the loop begins to sleep. Long against the pauses of a loaded chain, so that NFs
/// never pay for waking the manager under load.
const SPIN_NS: u64 = 2_000_000;
/// Sleep while packets are inside: they may need a sweep.
const INSIDE: Duration = Duration::from_micros(100);
/// Sleep while nothing is inside: a device may have received something.
const EMPTY: Duration = Duration::from_micros(500);
/// Wake up so long before a packet is due: what a wake-up costs.
const EARLY_NS: u64 = 60_000;

impl Dataplane {
    /// Sleeps a little if nothing has moved for long.
    pub(super) fn idle(&mut self, now: u64) {
        if self.clock.ns(now - self.last_work.min(now)) < SPIN_NS {
            std::hint::spin_loop();
            return;
        }
        let inside = self.entries.iter().any(|e| e.inside > 0);
        let mut nap = if inside { INSIDE } else { EMPTY };
        if self.receiving {
            let due = self.ingress.iter().filter(|i| !self.ports[i.port].exhausted());
            if let Some(due) = due.filter_map(|i| self.ports[i.port].due()).min() {
                let until = self.clock.ns(due.saturating_sub(now)).saturating_sub(EARLY_NS);
                nap = nap.min(Duration::from_nanos(until));
            }
        }
        if nap.is_zero() {
            return;
        }
        let bell = &self.fabric.own_bell;
        bell.announce_sleep();
        let work = self.egress.iter_mut().any(|e| e.consumer.available(1) > 0)
            || self.returns.iter_mut().any(|r| r.available(1) > 0);
        if work {
            bell.stay_awake();
        } else {
            bell.sleep(nap);
        }
        // What was slept is no reason to skip the sweep.
        self.sweep_at = self.sweep_at.min(ticks());
    }
}
