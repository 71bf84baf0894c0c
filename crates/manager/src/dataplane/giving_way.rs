//! NFs on this loop's own core: they get it for a turn as soon as they have packets for one, or when there is nothing else
//! to do. Without, the loop would poll on for as long as the kernel lets it, with packets on its own doorstep; and under
//! overload it would receive what it has to shed.

use super::Dataplane;
use crate::fabric::has_managers_core;
use chainline_chain::plan::Plan;
use std::time::Duration;

/// Packets that are worth a turn while others can still be received: two switches, some 4 µs, are little beside them.
const TURN: u32 = 256;
/// The longest turn. Who is done sooner rings.
pub(super) const LONGEST: Duration = Duration::from_micros(100);

/// The instances that have the manager's core and no other.
pub(super) fn neighbours(plan: &Plan) -> Vec<usize> {
    (0..plan.instances.len()).filter(|&i| has_managers_core(plan, &plan.instances[i])).collect()
}

impl Dataplane {
    /// Wakes first NFs that were not woken for less than a burst, now that their last waking is long enough ago.
    pub(super) fn wake_who_is_due(&mut self, now: u64) {
        self.entries.iter_mut().flat_map(|e| e.lanes()).for_each(|lane| lane.wake_if_due(now));
    }

    /// Whether a neighbour is awake and has packets for a turn; if nothing `moved` in this pass, any.
    pub(super) fn neighbours_wait(&self, moved: bool) -> bool {
        let rings = &self.fabric.rings;
        self.neighbours.iter().any(|&i| {
            let view = &self.instances[i];
            let has_turn = |&e: &usize| {
                let packets = rings[e].len();
                packets > 0 && (!moved || packets >= TURN.min(rings[e].capacity() / 2))
            };
            view.down.is_none() && !view.bell.is_asleep() && view.inputs.iter().any(has_turn)
        })
    }
}
