//! How much of a core an NF needs: arrival rate × service time (NFVnice, sections 3.2 and 3.5).
//!
//! Pure: who calls gives the time. Nothing here allocates after it was made.

/// The moving window, in nanoseconds: 100 ms.
pub const WINDOW_NS: u64 = 100_000_000;
/// Samples at the start of an NF that count for nothing: caches are cold, and pages are touched for the first time.
pub const WARM_UP: u64 = 10;
/// Samples kept: one a millisecond fill the window, with room for the clock's unevenness.
const KEPT: usize = 128;
/// Points kept of a counter: one each 10 ms covers the window.
const POINTS: usize = 12;
/// Least time between two points that are kept.
const STEP_NS: u64 = WINDOW_NS / 10;

/// Nanoseconds a packet: the median of the samples of the last 100 ms. An NF that had nothing to do keeps its last
/// estimate, since its next packet will cost about the same.
#[derive(Clone, Debug)]
pub struct ServiceTime {
    /// When and how much, a ring.
    samples: [(u64, f32); KEPT],
    next: usize,
    len: usize,
    seen: u64,
    estimate: Option<f64>,
}

impl Default for ServiceTime {
    fn default() -> Self {
        Self { samples: [(0, 0.0); KEPT], next: 0, len: 0, seen: 0, estimate: None }
    }
}

impl ServiceTime {
    /// Adds a sample in nanoseconds a packet, taken at `now_ns`. The first [`WARM_UP`] are dropped, and what is no
    /// positive number: samples come from memory that an NF writes.
    pub fn add(&mut self, now_ns: u64, ns: f64) {
        self.seen = self.seen.saturating_add(1);
        if self.seen <= WARM_UP || !(ns.is_finite() && ns >= 0.0) {
            return;
        }
        self.samples[self.next] = (now_ns, ns as f32);
        self.next = (self.next + 1) % KEPT;
        self.len = (self.len + 1).min(KEPT);
    }

    /// The median of the window that ends at `now_ns`; none before the first sample that counts.
    pub fn median(&mut self, now_ns: u64) -> Option<f64> {
        let mut window = [0f32; KEPT];
        let mut n = 0;
        for &(at, ns) in &self.samples[..self.len] {
            if now_ns.saturating_sub(at) <= WINDOW_NS {
                window[n] = ns;
                n += 1;
            }
        }
        if n > 0 {
            let (_, median, _) = window[..n].select_nth_unstable_by((n - 1) / 2, f32::total_cmp);
            self.estimate = Some(f64::from(*median));
        }
        self.estimate
    }

    /// Starts anew, as the NF does: its warm-up as well.
    pub fn restart(&mut self) {
        let estimate = self.estimate;
        *self = Self { estimate, ..Self::default() };
    }
}

/// Events a second of a counter over the last 100 ms.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    points: [(u64, u64); POINTS],
    next: usize,
    len: usize,
    per_second: f64,
}

impl Rate {
    /// The counter stood at `count` at `now_ns`; returns events a second. A counter that runs backwards (an NF that was
    /// started again, or lies) starts anew and keeps the last rate until there are two points.
    pub fn add(&mut self, now_ns: u64, count: u64) -> f64 {
        let newest = self.newest();
        if newest.is_some_and(|(at, before)| count < before || now_ns < at) {
            (self.len, self.next) = (0, 0);
        }
        let oldest = self.oldest(now_ns);
        if let Some((at, before)) = oldest
            && now_ns > at
        {
            self.per_second = (count - before) as f64 * 1e9 / (now_ns - at) as f64;
        }
        if self.newest().is_none_or(|(at, _)| now_ns - at >= STEP_NS) {
            self.points[self.next] = (now_ns, count);
            self.next = (self.next + 1) % POINTS;
            self.len = (self.len + 1).min(POINTS);
        }
        self.per_second
    }

    /// Events a second when last asked.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.per_second
    }

    fn newest(&self) -> Option<(u64, u64)> {
        (self.len > 0).then(|| self.points[(self.next + POINTS - 1) % POINTS])
    }

    /// The oldest point of the window; after a pause of the caller the newest of all. What left the window is forgotten,
    /// so that nobody goes through all points at each reading.
    fn oldest(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        while self.len > 1 && now_ns - self.first().0 > WINDOW_NS {
            self.len -= 1;
        }
        (self.len > 0).then(|| self.first())
    }

    fn first(&self) -> (u64, u64) {
        self.points[(self.next + POINTS - self.len) % POINTS]
    }
}

/// Cores' worth of work: packets a second times nanoseconds a packet.
#[must_use]
pub fn load(per_second: f64, ns: f64) -> f64 {
    let load = per_second * ns / 1e9;
    if load.is_finite() { load.max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_first_ten_count_for_nothing() {
        let mut s = ServiceTime::default();
        for i in 0..10 {
            s.add(i * MS, 9e9);
            assert_eq!(s.median(i * MS), None);
        }
        s.add(10 * MS, 50.0);
        assert_eq!(s.median(10 * MS), Some(50.0));
    }

    #[test]
    fn a_cost_step_is_seen_when_half_of_the_window_has_it() {
        let mut s = ServiceTime::default();
        (0..300).for_each(|i| s.add(i * MS, 100.0));
        for i in 300..349 {
            s.add(i * MS, 300.0);
            assert_eq!(s.median(i * MS), Some(100.0), "{i}");
        }
        (349..355).for_each(|i| s.add(i * MS, 300.0));
        assert_eq!(s.median(355 * MS), Some(300.0));
        // With nothing to do for long the last word holds; a restart warms up again.
        assert_eq!(s.median(9_000 * MS), Some(300.0));
        s.restart();
        (0..10).for_each(|i| s.add((9_000 + i) * MS, 1.0));
        assert_eq!(s.median(9_010 * MS), Some(300.0));
        s.add(9_011 * MS, 7.0);
        assert_eq!(s.median(9_011 * MS), Some(7.0));
    }

    #[test]
    fn a_rate_follows_within_the_window_and_survives_a_restart() {
        let mut r = Rate::default();
        (0..=500).for_each(|ms| _ = r.add(ms * MS, ms * 1000));
        assert!((r.per_second() - 1e6).abs() < 1.0, "{}", r.per_second());
        (501..=615).for_each(|ms| _ = r.add(ms * MS, 500_000 + (ms - 500) * 3000));
        assert!((r.per_second() - 3e6).abs() < 1.0, "{}", r.per_second());
        // It was started again: no rate of 2^64, and the new rate once there are two points.
        assert!((r.add(616 * MS, 0) - 3e6).abs() < 1.0);
        assert!((r.add(617 * MS, 500) - 5e5).abs() < 1.0);
    }

    proptest! {
        /// Against sorting: the lower median of what is in the window.
        #[test]
        fn the_median_is_that_of_the_window(samples in prop::collection::vec((0u64..4 * MS, 0f32..1e6), 11..120)) {
            let mut s = ServiceTime::default();
            let mut all = Vec::new();
            let mut now = 0;
            for (gap, ns) in samples {
                now += gap;
                s.add(now, f64::from(ns));
                all.push((now, ns));
            }
            let mut window: Vec<f32> =
                all[WARM_UP as usize..].iter().filter(|(at, _)| now - at <= WINDOW_NS).map(|(_, ns)| *ns).collect();
            window.sort_by(f32::total_cmp);
            prop_assert_eq!(s.median(now), Some(f64::from(window[(window.len() - 1) / 2])));
        }

        /// Whatever an NF writes, a rate is a finite number that is not negative.
        #[test]
        fn rates_stay_sane(points in prop::collection::vec((0u64..1_000_000_000, any::<u64>()), 1..100)) {
            let mut r = Rate::default();
            for (at, count) in points {
                let rate = r.add(at, count);
                prop_assert!(rate.is_finite() && rate >= 0.0, "{rate}");
                prop_assert!(load(rate, f64::MAX) >= 0.0);
            }
        }
    }
}
