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

/// Whether so many packets in a queue are worth resting for, after a pass that `moved` packets or found none.
#[inline]
const fn worth_a_turn(packets: u32, capacity: u32, moved: bool) -> bool {
    let enough = if capacity / 2 < TURN { capacity / 2 } else { TURN };
    packets > 0 && (!moved || packets >= enough)
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
            let has_turn = |&e: &usize| worth_a_turn(rings[e].len(), rings[e].capacity(), moved);
            view.down.is_none() && !view.bell.is_asleep() && view.inputs.iter().any(has_turn)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chainline_chain::load;
    use std::path::Path;

    fn plan(mechanisms: &str) -> Plan {
        let text = format!(
            "
apiVersion: chainline/v1alpha1
kind: ServiceChain
metadata: {{name: t}}
spec:
  defaults: {{manager_core: 0, mechanisms: {mechanisms}}}
  ports: {{in: {{generator: {{}}}}, out: {{sink: {{}}}}}}
  nfs: {{near: {{kind: forward, cores: [0]}}, far: {{kind: forward, cores: [1]}}, both: {{kind: forward, cores: [0, 1]}}}}
  chains: [{{name: x, path: [in, near, far, both, out]}}]
"
        );
        Plan::build(&load(&text, Path::new("t.yaml")).unwrap(), &[0, 1]).unwrap()
    }

    /// One with another core to go to is no reason to rest, and a stock platform knows no such thing.
    #[test]
    fn neighbours_have_the_managers_core_and_no_other() {
        let names = |plan: &Plan| -> Vec<String> {
            neighbours(plan).into_iter().map(|i| plan.instances[i].name.clone()).collect()
        };
        assert_eq!(names(&plan("all")), ["near"]);
        assert_eq!(names(&plan("backpressure")), ["near"]);
        assert!(names(&plan("default")).is_empty() && names(&plan("weights")).is_empty());
    }

    #[test]
    fn a_turn_is_any_packet_or_enough_of_them() {
        assert!(!worth_a_turn(0, 2048, false) && !worth_a_turn(0, 2048, true));
        assert!(worth_a_turn(1, 2048, false) && !worth_a_turn(TURN - 1, 2048, true));
        assert!(worth_a_turn(TURN, 2048, true));
        // A short queue is full before that.
        assert!(worth_a_turn(32, 64, true) && !worth_a_turn(31, 64, true));
    }
}
