//! Reads the stamps that generators wrote, wherever the frames have been meanwhile.

use crate::dataplane::{Gap, Jitter, latencies};
use chainline_chain::model;
use chainline_shm::{Clock, clock::ticks};
use chainline_workload::{Arrival, Sequences, Stamp};
use hdrhistogram::Histogram;

/// What a checking sink found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Frames that arrived; those that came several times count once.
    pub received: u64,
    /// Frames that had arrived before.
    pub duplicated: u64,
    /// Frames that came after a later one of their flow (RFC 4737).
    pub reordered: u64,
    /// Frames without a stamp of ours: none at all, a damaged one, or one of a flow that does not exist.
    pub foreign: u64,
    /// Nanoseconds from when a frame should have been sent to when it came to the sink.
    pub latency: Option<Histogram<u64>>,
    /// Of these latencies, in order of arrival.
    pub jitter: Jitter,
    /// Between arrivals.
    pub gap: Gap,
}

impl Checked {
    fn new() -> Self {
        let (jitter, gap) = (Jitter::default(), Gap::default());
        Self { received: 0, duplicated: 0, reordered: 0, foreign: 0, latency: latencies(), jitter, gap }
    }

    /// Takes what another sink found together with this.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.foreign += other.foreign;
        self.jitter.add(&other.jitter);
        self.gap.add(&other.gap);
        if let (Some(sum), Some(h)) = (&mut self.latency, &other.latency) {
            // Both have the same bounds, so this cannot fail.
            let _ = sum.add(h);
        }
    }
}

/// The stamps of all generators of a chain file, as they come to one sink.
pub struct Check {
    clock: Clock,
    /// The trial whose frames are counted, modulo 128. Late ones of others are not.
    trial: u8,
    /// By stream.
    streams: Vec<Option<Sequences>>,
    found: Checked,
}

impl Check {
    /// For the generators among the ports of a plan, in its order.
    pub fn new<'a>(ports: impl Iterator<Item = &'a model::Port>, clock: &Clock) -> Self {
        let stream = |p: &model::Port| match p {
            model::Port::Generator(g) if g.stamp => Some(Sequences::new(g.flows)),
            _ => None,
        };
        // Streams are numbered as ports are, in eight bits.
        Self { clock: *clock, trial: 0, streams: ports.take(256).map(stream).collect(), found: Checked::new() }
    }

    /// From now on the frames of this trial are counted, from 0.
    pub fn begin(&mut self, trial: u8) {
        self.trial = trial;
        self.streams.iter_mut().flatten().for_each(Sequences::reset);
        self.found = Checked::new();
    }

    /// What was found since then.
    pub fn found(&self) -> &Checked {
        &self.found
    }

    /// Frames (without FCS) arrive, all of them now.
    #[inline]
    pub fn burst<'f>(&mut self, frames: impl Iterator<Item = &'f [u8]>) {
        let came = ticks();
        let now = self.clock.at_ns(came);
        let before = self.found.received;
        for frame in frames {
            let Some(stamp) = Stamp::of(frame) else {
                self.found.foreign += 1;
                continue;
            };
            let Some(Some(stream)) = self.streams.get_mut(usize::from(stamp.stream)) else {
                self.found.foreign += 1;
                continue;
            };
            if stamp.trial != self.trial {
                continue;
            }
            let Some(arrival) = stream.record(stamp.flow, stamp.sequence) else {
                self.found.foreign += 1;
                continue;
            };
            if !stamp.in_window {
                continue;
            }
            match arrival {
                Arrival::Duplicate => {
                    self.found.duplicated += 1;
                    continue;
                }
                Arrival::Reordered => self.found.reordered += 1,
                Arrival::InOrder => {}
            }
            self.found.received += 1;
            let ns = stamp.age_ns(now);
            if let Some(h) = &mut self.found.latency {
                h.saturating_record(ns.max(1));
            }
            self.found.jitter.record(ns, 1);
        }
        // All of a burst come at one time.
        if self.found.received > before {
            self.found.gap.record(came);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chainline_workload::{STAMP_BYTES, stamp_at};
    use std::time::Duration;

    fn check(flows: u32) -> Check {
        let generator =
            |stamp| model::Port::Generator(model::Generator { stamp, flows, ..model::Generator::default() });
        let ports = [generator(false), generator(true)];
        let mut check = Check::new(ports.iter(), &Clock::measure(Duration::from_millis(1)));
        check.begin(5);
        check
    }

    fn frame(trial: u8, in_window: bool, stream: u8, flow: u32, sequence: u32) -> Vec<u8> {
        let mut frame = vec![0xaa; 60];
        let stamp = Stamp { trial, in_window, stream, flow, sequence, time_ns: 0 };
        frame[stamp_at(60)..][..STAMP_BYTES].copy_from_slice(&stamp.bytes());
        frame
    }

    /// What comes in, and what is to be found: received, duplicated, reordered, foreign.
    fn assert_found(flows: u32, frames: &[Vec<u8>], expected: [u64; 4]) {
        let mut c = check(flows);
        c.burst(frames.iter().map(Vec::as_slice));
        let f = c.found();
        assert_eq!([f.received, f.duplicated, f.reordered, f.foreign], expected);
        assert_eq!(f.latency.as_ref().unwrap().len(), f.received);
        assert_eq!(f.jitter.count, f.received.saturating_sub(1));
    }

    #[test]
    fn golden_losses_duplicates_and_reordering() {
        // Every tenth frame of a hundred is gone.
        let lossy: Vec<_> = (0..100).filter(|s| s % 10 != 9).map(|s| frame(5, true, 1, 0, s)).collect();
        assert_found(1, &lossy, [90, 0, 0, 0]);
        // Every fourth comes twice, the second time at once or at the end.
        let twice: Vec<_> = (0..100).flat_map(|s| vec![frame(5, true, 1, 0, s); 1 + usize::from(s % 4 == 0)]).collect();
        assert_found(1, &twice, [100, 25, 0, 0]);
        let late: Vec<_> = (0..100).chain((0..100).step_by(4)).map(|s| frame(5, true, 1, 0, s)).collect();
        assert_found(1, &late, [100, 25, 0, 0]);
        // Neighbours change places: one of each pair is late.
        let swapped: Vec<_> = (0..100).map(|s| frame(5, true, 1, 0, s ^ 1)).collect();
        assert_found(1, &swapped, [100, 0, 50, 0]);
        // Flows overtake each other freely.
        let flows: Vec<_> = (0..100).rev().map(|f| frame(5, true, 1, f, 0)).collect();
        assert_found(100, &flows, [100, 0, 0, 0]);
    }

    #[test]
    fn other_trials_and_the_warm_up_are_not_counted_but_remembered() {
        let frames = [
            frame(4, true, 1, 0, 0),
            frame(5, false, 1, 0, 0),
            frame(5, true, 1, 0, 2),
            frame(5, true, 1, 0, 1),
            frame(5, false, 1, 0, 3),
        ];
        assert_found(1, &frames, [2, 0, 1, 0]);
    }

    #[test]
    fn what_is_not_ours_is_foreign() {
        let mut damaged = frame(5, true, 1, 0, 0);
        damaged[50] ^= 0x10;
        let frames = [
            damaged,
            vec![],
            vec![0; 60],
            vec![0xff; 1514],
            frame(5, true, 1, 7, 0),
            frame(5, true, 0, 0, 0),
            frame(5, true, 255, 0, 0),
        ];
        assert_found(7, &frames, [0, 0, 0, 7]);
    }
}
