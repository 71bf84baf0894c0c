use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn marks() -> Marks {
    Marks::of(1000, 0.8, 0.6, 2e6)
}

/// Looks once a millisecond at these lengths, with so many departures between two.
fn states(lens: &[u32], departures: u32) -> Vec<State> {
    let (mut q, mut departed) = (Queue::default(), u32::MAX - 3);
    let step = |(i, len): (usize, &u32)| {
        departed = departed.wrapping_add(departures);
        q.step(&marks(), i as u64 * MS, *len, departed)
    };
    lens.iter().enumerate().map(step).collect()
}

#[test]
fn watch_throttle_clear() {
    use State::{Clear, Throttle, Watch};
    let lens = [0, 799, 800, 900, 700, 601, 600, 700, 900];
    // 100 a millisecond: 800 packets wait 8 ms.
    let slow = [Clear, Clear, Throttle, Throttle, Throttle, Throttle, Clear, Clear, Throttle];
    assert_eq!(states(&lens, 100), slow);
    // 1000 a millisecond: long, but nobody waits longer than 2 ms.
    assert_eq!(states(&lens, 1000), [Clear, Clear, Watch, Watch, Watch, Watch, Clear, Clear, Watch]);
    // Nothing leaves: packets wait for ever.
    assert_eq!(states(&[0, 800], 0), [Clear, Throttle]);
}

#[test]
fn marks_make_sense_in_any_queue() {
    assert_eq!((marks().high, marks().low), (800, 600));
    for capacity in [0, 1, 2, 16, 1 << 20] {
        for (high, low) in [(0.0, 0.0), (1.0, 0.99), (0.5, 0.4), (0.01, 0.001)] {
            let m = Marks::of(capacity, high, low, 0.0);
            assert!(m.low < m.high && m.high <= capacity.max(1), "{capacity} {high} {low}: {m:?}");
        }
    }
}

proptest! {
    /// Whatever happens: a queue at or below the low mark is clear, one is throttled from the high mark on only, and
    /// stays so down to the low mark.
    #[test]
    fn no_queue_is_stuck(
        steps in proptest::collection::vec((0u64..20 * MS, 0u32..1200, any::<u32>()), 1..200),
        threshold_ns in 0.0..1e9,
    ) {
        let marks = Marks { threshold_ns, ..marks() };
        let (mut q, mut now, mut before) = (Queue::default(), 0, State::Clear);
        for (passed, len, departed) in steps {
            now += passed;
            let state = q.step(&marks, now, len, departed);
            prop_assert!(len > marks.low || state == State::Clear);
            if state == State::Throttle && before != State::Throttle {
                prop_assert!(len >= marks.high);
            }
            if before == State::Throttle && state != State::Throttle {
                prop_assert!(len <= marks.low);
            }
            before = state;
        }
    }

    /// Whatever memory says, a limit lies within its bounds or is none.
    #[test]
    fn a_limit_keeps_its_bounds(
        steps in proptest::collection::vec((0u64..100 * MS, any::<u64>(), any::<u64>()), 1..200),
        target_us in 1u32..10_000_000, least in 0u64..10_000, more in 0u64..100_000, stretch in 1.0..1024.0,
    ) {
        let bounds = Bounds { target_ns: f64::from(target_us) * 1e3, least, most: least + more };
        let (mut limit, mut now) = (Limit::default(), 0);
        for (passed, left, inside) in steps {
            now += passed;
            let packets = limit.step(&bounds, stretch, Progress { at_ns: now, left, inside });
            prop_assert!(packets == u64::MAX || (least..bounds.most).contains(&packets), "{packets}");
        }
    }
}

/// Chains of the same cores under overload: each takes in what it may.
struct Chains {
    bounds: Bounds,
    stretch: Stretch,
    /// The part of their cores that each uses.
    used: f64,
    all: Vec<(Limit, Progress, f64)>,
}

impl Chains {
    fn new(n: usize, target_us: f64, least: u64, most: u64) -> Self {
        let bounds = Bounds { target_ns: target_us * 1e3, least, most };
        Self { bounds, stretch: Stretch::new(n), used: 0.0, all: vec![(Limit::default(), Progress::default(), 0.0); n] }
    }

    fn inside(&self) -> Vec<f64> {
        self.all.iter().map(|(l, ..)| l.now().min(self.bounds.most) as f64).collect()
    }

    /// So many milliseconds in which `rate` says how many packets of a chain leave in one, by how many are inside of it
    /// and of all. Returns the packets a millisecond of all.
    fn run(&mut self, ms: u64, rate: impl Fn(f64, f64) -> f64) -> f64 {
        let left = |all: &[(Limit, Progress, f64)]| all.iter().map(|(_, p, _)| p.left).sum::<u64>();
        let before = left(&self.all);
        for _ in 0..ms {
            let inside = self.inside();
            let sum = inside.iter().sum();
            for ((_, progress, part), own) in self.all.iter_mut().zip(inside) {
                let leave = rate(own, sum) + *part;
                *part = leave.fract();
                *progress =
                    Progress { at_ns: progress.at_ns + MS, left: progress.left + leave as u64, inside: own as u64 };
            }
            let limits: Vec<Limit> = self.all.iter().map(|(l, ..)| *l).collect();
            let now_ns = self.all[0].1.at_ns;
            let used_ns = (now_ns as f64 * self.used) as u64;
            let stretch = self.stretch.step(now_ns, |i| limits[i].shows(), |_| Some(used_ns));
            self.all.iter_mut().for_each(|(l, p, _)| _ = l.step(&self.bounds, stretch, *p));
        }
        (left(&self.all) - before) as f64 / ms as f64
    }

    fn limit(&self) -> u64 {
        self.all[0].0.now()
    }

    fn sojourn_us(&self, per_ms: f64) -> f64 {
        self.inside()[0] / per_ms * 1e3
    }
}

/// A round of `overhead_us` and some time for each packet: what comes of NFs that take turns on a core.
fn turns(overhead_us: f64, packet_us: f64) -> impl Fn(f64, f64) -> f64 {
    move |own, all| 1e3 * own / (overhead_us + all * packet_us)
}

#[test]
fn the_time_inside_comes_to_the_target() {
    for packet_us in [0.2, 0.4, 1.0] {
        let mut chain = Chains::new(1, 500.0, 192, 6144);
        chain.run(500, turns(9.0, packet_us));
        let rate = chain.run(100, turns(9.0, packet_us));
        let (time, expected) = (chain.sojourn_us(rate), 500.0 + 192.0 * packet_us);
        assert!((time - expected).abs() < 0.1 * expected, "{packet_us} us a packet: {time} us inside");
        assert!(rate > 0.97 * 1e3 / packet_us, "{packet_us} us a packet: {rate} in a millisecond");
    }
}

#[test]
fn after_a_step_of_the_cost_it_is_right_within_200_ms() {
    let mut chain = Chains::new(1, 500.0, 192, 60_000);
    // Between two trials.
    chain.run(1500, turns(9.0, 0.1));
    for packet_us in [1.0, 0.1, 0.3] {
        chain.run(200, turns(9.0, packet_us));
        let (time, expected) = (chain.sojourn_us(1e3 / packet_us), 500.0 + 192.0 * packet_us);
        assert!((time - expected).abs() < 0.2 * expected, "{packet_us} us a packet: {time} us inside");
    }
}

#[test]
fn what_stood_still_goes_on() {
    let mut chain = Chains::new(1, 500.0, 192, 6144);
    chain.run(500, turns(9.0, 0.4));
    assert_eq!(chain.run(2000, |_, _| 0.0), 0.0);
    // An instance that is down: packets wait, and the fewest do.
    assert!(chain.limit() <= 2 * 192, "{}", chain.limit());
    chain.run(200, turns(9.0, 0.4));
    assert!(chain.run(100, turns(9.0, 0.4)) > 0.97 * 2500.0);
}

#[test]
fn a_chain_with_little_to_do_has_no_limit() {
    let mut chain = Chains::new(1, 500.0, 192, 6144);
    chain.run(500, turns(9.0, 0.4));
    assert!(chain.limit() < 6144);
    let (limit, progress, _) = &mut chain.all[0];
    for _ in 0..500 {
        *progress = Progress { at_ns: progress.at_ns + MS, left: progress.left + 10, inside: 5 };
        limit.step(&chain.bounds, 1.0, *progress);
    }
    assert_eq!(chain.limit(), u64::MAX, "the next burst may fill the queues");
}

/// Others have the core for 5 ms between two turns: with 500 us worth of packets most of the core would be idle.
#[test]
fn rounds_longer_than_the_target_stretch_it() {
    let mut chain = Chains::new(1, 500.0, 192, 100_000);
    chain.run(3000, turns(5000.0, 0.4));
    let half = turns(5000.0, 0.4)(12_500.0, 12_500.0);
    let rate = chain.run(1000, turns(5000.0, 0.4));
    assert!(rate > 0.8 * half, "{rate} in a millisecond, {half} with half of the core");
}

/// Two chains in the same round share it evenly, however they began.
#[test]
fn chains_of_one_core_come_to_the_same() {
    let mut chains = Chains::new(2, 500.0, 96, 60_000);
    chains.run(500, turns(9.0, 0.4));
    // One begins anew, and so without a limit.
    chains.all[0].0 = Limit::default();
    chains.run(1500, turns(9.0, 0.4));
    let inside = chains.inside();
    assert!((inside[0] - inside[1]).abs() < 0.1 * inside[0], "{inside:?}");
    let rate = chains.run(100, turns(9.0, 0.4));
    assert!(rate > 0.95 * 2500.0, "{rate} in a millisecond");
    assert!(inside[0] < 1500.0, "neither drives the other up: {inside:?}");
}

/// Trying more costs next to nothing.
#[test]
fn trials_are_rare() {
    let mut chain = Chains::new(1, 500.0, 192, 6144);
    chain.run(20_000, turns(9.0, 10.0));
    let (mut sum, limit) = (0, 192 + 50);
    for _ in 0..20_000 {
        chain.run(1, turns(9.0, 10.0));
        sum += chain.limit();
    }
    assert!(sum / 20_000 <= limit * 102 / 100, "{} on average", sum / 20_000);
}

/// Who has its cores for itself is not tried, and not held to wait for twice as long by it; when somebody comes who needs them it is.
#[test]
fn nobody_is_tried_who_could_gain_nothing() {
    let highest = |chain: &mut Chains| {
        let limits = (0..5000).map(|_| {
            chain.run(1, turns(9.0, 0.4));
            chain.limit()
        });
        limits.max()
    };
    let mut chain = Chains { used: 0.97, ..Chains::new(1, 500.0, 192, 6144) };
    chain.run(500, turns(9.0, 0.4));
    let expected = 192 + 1250;
    assert!(highest(&mut chain) < Some(expected * 11 / 10));
    chain.used = 0.8;
    assert!(highest(&mut chain) > Some(expected * 19 / 10), "one that might gain by it is");
}

#[test]
fn the_average_follows_slowly() {
    let mut average = Average::default();
    (1..=1000).for_each(|i| _ = average.add(i * MS, 100));
    assert!((99.0..=100.0).contains(&average.add(1001 * MS, 100)));
    let after_a_burst = average.add(1002 * MS, 1000);
    assert!(after_a_burst < 200.0, "{after_a_burst}");
    (1003..1100).for_each(|i| _ = average.add(i * MS, 0));
    assert!(average.add(1100 * MS, 0) < 1.0);
}
