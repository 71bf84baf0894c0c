//! What the loop does when nothing moves: spin for a while, then sleep, but never past the next packet that is due.

use super::Dataplane;
use chainline_shm::clock::ticks;
use std::time::Duration;

/// Without a packet for so long, the loop begins to sleep. Long against the pauses of a loaded chain, so that NFs
/// never pay for waking the manager under load.
const SPIN_NS: u64 = 2_000_000;
/// Sleep while packets wait in queues: they may need a sweep.
const WAITING: Duration = Duration::from_micros(100);
/// Sleep while nothing is inside: a device may have received something.
const DEVICES: Duration = Duration::from_micros(500);
/// From so long without a packet on, devices are looked at less often. Being woken by a timer costs 20 µs of a core in
/// a virtual machine, so that [`DEVICES`] would take 4 % of it for ever; the first packet after a pause waits instead.
const QUIET_NS: u64 = 100_000_000;
/// Sleep once it is quiet.
const QUIET_DEVICES: Duration = Duration::from_millis(2);
/// Sleep when nothing can come unforeseen: NFs and commands ring.
const NOTHING: Duration = Duration::from_millis(20);
/// Wake up so long before a packet is due: what a wake-up costs.
const EARLY_NS: u64 = 60_000;

impl Dataplane {
    /// Sleeps a little if nothing has moved for long.
    pub(super) fn idle(&mut self, now: u64) {
        let quiet = self.clock.ns(now - self.last_work.min(now));
        // Whoever measures another dataplane is not to add its own waking up.
        if quiet < SPIN_NS || self.trial.as_ref().is_some_and(|t| t.checked) {
            std::hint::spin_loop();
            return;
        }
        // Packets that an NF holds need no sweep: it rings when it lets them go.
        let inside = self.entries.iter().any(|e| e.inside > 0);
        let waiting = self.egress.iter().any(|e| !e.pending.is_empty())
            || self.audit.is_some()
            || self.instances.iter().any(|i| i.down.is_some())
            || (inside && self.fabric.rings.iter().any(|r| !r.is_empty()));
        let live = |i: &&super::ingress::Ingress| !self.ports[i.port].exhausted();
        let unforeseen = self.ingress.iter().filter(live).any(|i| self.ports[i.port].due().is_none());
        let mut nap = if waiting {
            WAITING
        } else if !inside && (!self.receiving || !unforeseen) {
            NOTHING
        } else if quiet < QUIET_NS {
            DEVICES
        } else {
            QUIET_DEVICES
        };
        if self.receiving {
            let due = self.ingress.iter().filter(live).filter_map(|i| self.ports[i.port].due()).min();
            if let Some(due) = due {
                let until = self.clock.ns(due.saturating_sub(now)).saturating_sub(EARLY_NS);
                nap = nap.min(Duration::from_nanos(until));
            }
        }
        if nap.is_zero() {
            return;
        }
        self.rest(nap);
        // What was slept is no reason to skip the sweep.
        self.sweep_at = self.sweep_at.min(ticks());
    }

    /// Sleeps until an NF rings, for `nap` at most.
    pub(super) fn rest(&mut self, nap: Duration) {
        let bell = &self.fabric.own_bell;
        bell.announce_sleep();
        let work = self.egress.iter_mut().any(|e| e.consumer.available(1) > 0)
            || self.returns.iter_mut().any(|r| r.available(1) > 0);
        if work {
            bell.stay_awake();
        } else {
            bell.sleep(nap);
        }
    }
}
