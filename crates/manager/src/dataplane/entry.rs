//! The entry of a chain: its first queue, or one for each replica of its first NF, and how many packets may come in.

use crate::control::Advice;
use chainline_packet::Layers;
use chainline_runtime::split::Dealer;
use chainline_shm::{Bell, Producer};
use std::sync::Arc;

/// A queue by which packets enter a chain.
pub(crate) struct Lane {
    /// Of the plan.
    pub edge: usize,
    pub producer: Producer,
    /// Of the first instance; none when the chain has no NF.
    pub bell: Option<Bell>,
    /// Packets that are worth waking it for, and whether each is.
    pub wake_at: u32,
    pub urgent: bool,
    /// For fewer it is woken after a pause of so many ticks since it last was.
    pub pause: u64,
    pub pause_until: u64,
    /// Packets were shown to it within the pause.
    pub left: bool,
    /// The replica that empties it has been down for long: packets for it are shed, the others' are not.
    pub down: bool,
}

impl Lane {
    /// Shows what was pushed, and wakes the instance if that is worth it.
    #[inline]
    pub fn publish(&mut self, now: u64) {
        let Some(bell) = &self.bell else {
            self.producer.publish();
            return;
        };
        let paused = now < self.pause_until;
        self.left |= paused;
        if self.producer.publish_to(bell, self.wake_at, self.urgent || !paused) {
            (self.pause_until, self.left) = (now + self.pause, false);
        }
    }

    /// Wakes the instance for what it was not woken for, if the pause is over.
    #[inline]
    pub fn wake_if_due(&mut self, now: u64) {
        if self.left && now >= self.pause_until {
            self.left = false;
            Bell::publish_fence();
            if self.bell.as_ref().is_some_and(|bell| self.producer.hand_over(bell)) {
                self.pause_until = now + self.pause;
            }
        }
    }

    /// Whether fewer packets wait in it. Looks at the consumer's index only if that may be.
    #[inline]
    fn is_shorter_than(&mut self, packets: u64) -> bool {
        if u64::from(self.producer.len_at_most()) >= packets {
            self.producer.room(u32::MAX);
        }
        u64::from(self.producer.len_at_most()) < packets
    }
}

/// The queues to the replicas of a chain's first NF, but for the first one's.
pub(crate) struct Replicas {
    pub dealer: Dealer,
    pub lanes: Vec<Lane>,
}

/// The entry of a chain.
pub(crate) struct Entry {
    pub lane: Lane,
    /// If its first NF has some.
    pub replicas: Option<Replicas>,
    pub tenant: usize,
    /// What the control loop advises.
    pub advice: Arc<Advice>,
    /// Most packets inside at once, as it advised when last asked: within a burst that is not to change.
    pub advised: u64,
    /// Most packets inside at once, as the file says.
    pub limit: u64,
    /// Packets inside now.
    pub inside: u64,
    /// Nothing is admitted: an audit runs, or an NF of the chain is down.
    pub paused: bool,
    /// An NF of the chain has been down for long.
    pub down: bool,
    pub gate: Gate,
}

/// Whether a chain is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It admits what there is room for.
    Open,
    /// It is about to go, or to come, or has gone: it admits nothing, and what cannot wait is dropped as reconfigured.
    Changing,
}

impl Entry {
    /// Asks what the control loop advises.
    #[inline]
    pub fn heed(&mut self) {
        self.advised = self.advice.limit();
    }

    /// Packets that could be admitted now, at most `want`, whichever replica they are for.
    #[inline]
    pub fn room(&mut self, want: u32) -> u32 {
        if self.replicas.is_none() {
            return self.room_of_one(want);
        }
        let (limit, paused) = (self.below_limit(), self.paused);
        // What is for one that is down is shed: nobody waits for that.
        let room = self.lanes().filter(|l| !l.down).map(|l| l.producer.room(want)).min().unwrap_or(0);
        if paused { 0 } else { room.min(limit).min(want) }
    }

    /// The same without replicas.
    #[inline]
    fn room_of_one(&mut self, want: u32) -> u32 {
        if self.paused {
            return 0;
        }
        let limit = self.below_limit();
        self.lane.producer.room(want).min(limit).min(want)
    }

    /// Packets that the chain may have inside besides those that are.
    #[inline]
    fn below_limit(&self) -> u32 {
        u32::try_from(self.limit.min(self.advised).saturating_sub(self.inside)).unwrap_or(u32::MAX)
    }

    /// The queue for a packet, if it can be admitted. `SPLIT`: there may be several.
    #[inline]
    pub fn lane_for<const SPLIT: bool>(&mut self, layers: Option<&Layers>) -> Option<&mut Lane> {
        if SPLIT && self.replicas.is_some() {
            return self.lane_among(layers?);
        }
        (self.room_of_one(1) > 0).then_some(&mut self.lane)
    }

    /// With replicas. One that has less waiting than its part of what is advised is not to lack packets because another
    /// has too many.
    #[inline]
    fn lane_among(&mut self, layers: &Layers) -> Option<&mut Lane> {
        let replicas = self.replicas.as_mut()?;
        let parts = replicas.lanes.len() as u64 + 1;
        let part = if self.inside < self.advised { u64::MAX } else { self.advised / parts };
        let lane = match replicas.dealer.pick_parsed(layers).checked_sub(1) {
            Some(k) => replicas.lanes.get_mut(k)?,
            None => &mut self.lane,
        };
        let admits = !self.paused && self.inside < self.limit && !lane.down;
        (admits && lane.is_shorter_than(part) && lane.producer.room(1) > 0).then_some(lane)
    }

    /// All its queues.
    #[inline]
    pub fn lanes(&mut self) -> impl Iterator<Item = &mut Lane> {
        std::iter::once(&mut self.lane).chain(self.replicas.iter_mut().flat_map(|r| &mut r.lanes))
    }

    /// Shows what was pushed, and wakes the first instances if that is worth it.
    #[inline]
    pub fn publish(&mut self, now: u64) {
        self.lanes().for_each(|lane| lane.publish(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ChainGauge;
    use crate::dataplane::growth;
    use crate::fabric::Fabric;
    use chainline_chain::load;
    use chainline_chain::plan::Plan;
    use chainline_packet::FiveTuple;
    use chainline_shm::{Clock, Consumer, Desc};
    use std::path::Path;
    use std::time::Duration;

    /// The entry to two replicas with queues of 64, the far ends of these, and a packet for each.
    fn entry() -> (Entry, Vec<Consumer>, [Layers; 2]) {
        let text = "
apiVersion: chainline/v1alpha1
kind: ServiceChain
metadata: {name: t}
spec:
  defaults: {queue: 64}
  ports: {in: {generator: {}}, out: {sink: {}}}
  nfs: {a: {kind: forward, replicas: 2}}
  chains: [{name: x, path: [in, a, out]}]
";
        let plan = Plan::build(&load(text, Path::new("t.yaml")).unwrap(), &[0, 1]).unwrap();
        let fabric = Fabric::create(&plan, 1514, Clock::measure(Duration::ZERO)).unwrap();
        let mut entry = growth::entry(&plan, &fabric, &ChainGauge::all(1, &[]), 0);
        let far = plan.chains[0].entry.edges().iter().map(|e| Consumer::attach(fabric.rings[*e].clone()));
        let packet = |src: u32| {
            let tuple = FiveTuple::v4(src.into(), 1.into(), 1, 2, 17);
            Layers { tuple, ..Layers::default() }
        };
        let dealer = &mut entry.replicas.as_mut().unwrap().dealer;
        let of = |replica| (0..).map(packet).find(|p| dealer.clone().pick_parsed(p) == replica).unwrap();
        let packets = [of(0), of(1)];
        (entry, far.collect(), packets)
    }

    /// Admits up to `n` packets; how many came in.
    fn admit(entry: &mut Entry, packet: &Layers, n: usize) -> usize {
        let push = |entry: &mut Entry| {
            let lane = entry.lane_for::<true>(Some(packet))?;
            lane.producer.push(Desc::default());
            entry.inside += 1;
            Some(())
        };
        let came = (0..n).map_while(|_| push(entry)).count();
        entry.publish(0);
        came
    }

    #[test]
    fn a_full_replica_holds_no_other_up() {
        let (mut entry, mut far, [zero, one]) = entry();
        assert_eq!(admit(&mut entry, &zero, 100), 64);
        assert_eq!((entry.room(1), admit(&mut entry, &one, 10)), (0, 10), "who waits, waits for both");
        assert_eq!((far[0].available(100), far[1].available(100)), (64, 10));
        far[0].release(20);
        assert_eq!(admit(&mut entry, &zero, 100), 20);
    }

    #[test]
    fn each_has_its_part_of_the_limit_whatever_the_other_has() {
        let (mut entry, mut far, [zero, one]) = entry();
        entry.advised = 20;
        assert_eq!((admit(&mut entry, &zero, 100), admit(&mut entry, &zero, 1)), (20, 0));
        assert_eq!(admit(&mut entry, &one, 100), 10);
        far[1].available(100);
        far[1].release(3);
        assert_eq!(admit(&mut entry, &one, 100), 3);
        // The limit of the file is one for all.
        (entry.limit, entry.advised) = (entry.inside + 2, u64::MAX);
        assert_eq!((admit(&mut entry, &one, 100), admit(&mut entry, &zero, 1)), (2, 0));
        // Told to admit nothing, it does not.
        (entry.limit, entry.advised, entry.inside) = (u64::MAX, 0, 0);
        far.iter_mut().for_each(|f| {
            let n = f.available(100);
            f.release(n);
        });
        assert_eq!((admit(&mut entry, &one, 1), admit(&mut entry, &zero, 1)), (0, 0));
    }

    /// Bursts of 32 always wake; less does once a pause, and what came within it when the pause is over.
    #[test]
    fn wakes_for_less_than_a_burst_are_a_pause_apart() {
        let (mut entry, mut far, _) = entry();
        let (lane, far) = (&mut entry.lane, &mut far[0]);
        let bell = lane.bell.clone().unwrap();
        lane.pause = 100;
        let mut shown = |lane: &mut Lane, packets: u32, now: u64| {
            bell.announce_sleep();
            assert!(lane.producer.room(packets) >= packets);
            (0..packets).for_each(|_| lane.producer.push(Desc::default()));
            lane.publish(now);
            lane.wake_if_due(now);
            let wakes = !bell.is_asleep();
            let n = far.available(100);
            if wakes {
                far.release(n);
            }
            wakes
        };
        assert!(shown(lane, 1, 100), "the first packet for long");
        assert!(!shown(lane, 1, 101));
        assert!(!shown(lane, 1, 199));
        assert!(shown(lane, 0, 200), "the pause is over, and two wait");
        assert!(!shown(lane, 0, 500), "nothing waits");
        assert!(shown(lane, 5, 501));
        assert!(shown(lane, 32, 502), "a burst");
        assert!(!shown(lane, 31, 503));
        assert!(shown(lane, 1, 504), "now it is one");
        assert!(!shown(lane, 2, 505));
        // Awake, it finds them itself.
        bell.stay_awake();
        lane.wake_if_due(604);
        assert!(!lane.left);
    }

    #[test]
    fn one_that_is_down_for_long_is_nobodys_wait() {
        let (mut entry, _far, [zero, one]) = entry();
        admit(&mut entry, &zero, 64);
        entry.lane.down = true;
        assert_eq!((entry.room(5), admit(&mut entry, &one, 7), admit(&mut entry, &zero, 1)), (5, 7, 0));
        entry.paused = true;
        assert_eq!((entry.room(5), admit(&mut entry, &one, 1)), (0, 0));
    }
}
