//! One server in simulated time.

use std::collections::VecDeque;

/// What became of the packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Time from arrival to the beginning of service in nanoseconds, of each packet that was served, in order.
    pub waits_ns: Vec<f64>,
    /// Packets that came when all places were taken.
    pub lost: u64,
    /// From time 0 to the last end of service, in nanoseconds.
    pub span_ns: f64,
    /// Of it, how long the server worked.
    pub busy_ns: f64,
}

impl Run {
    /// Mean waiting time in nanoseconds; 0 if none was served.
    #[must_use]
    pub fn mean_wait_ns(&self) -> f64 {
        self.waits_ns.iter().sum::<f64>() / (self.waits_ns.len().max(1)) as f64
    }

    /// The waiting time in nanoseconds that a share `p` of the packets did not exceed; 0 if none was served.
    #[must_use]
    pub fn wait_quantile_ns(&self, p: f64) -> f64 {
        let mut waits = self.waits_ns.clone();
        let Some(last) = waits.len().checked_sub(1) else { return 0.0 };
        let rank = (p * waits.len() as f64).ceil() as usize;
        *waits.select_nth_unstable_by(rank.saturating_sub(1).min(last), f64::total_cmp).1
    }

    /// Packets a second that were served.
    #[must_use]
    pub fn throughput_pps(&self) -> f64 {
        if self.span_ns > 0.0 { self.waits_ns.len() as f64 * 1e9 / self.span_ns } else { 0.0 }
    }

    /// Share of the packets that was lost.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        let all = self.lost + self.waits_ns.len() as u64;
        self.lost as f64 / all.max(1) as f64
    }
}

/// Serves the packets that come at `arrivals_ns` (which must not decrease) in order. Each costs what `cost_ns` says when
/// it is admitted. With `places`, a packet that finds that many in the system, the one in service included, is lost.
pub fn simulate(
    arrivals_ns: impl IntoIterator<Item = f64>,
    mut cost_ns: impl FnMut() -> f64,
    places: Option<usize>,
) -> Run {
    let mut run = Run::default();
    // Ends of service of those in the system; without a limit only the last one matters.
    let mut ends = VecDeque::new();
    let mut free_ns = 0.0f64;
    for now in arrivals_ns {
        if let Some(places) = places {
            while ends.front().is_some_and(|end| *end <= now) {
                ends.pop_front();
            }
            if ends.len() >= places {
                run.lost += 1;
                continue;
            }
        }
        let cost = cost_ns();
        let begin = free_ns.max(now);
        free_ns = begin + cost;
        run.busy_ns += cost;
        run.waits_ns.push(begin - now);
        if places.is_some() {
            ends.push_back(free_ns);
        }
    }
    run.span_ns = free_ns;
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_packets_by_hand() {
        let run = simulate([0.0, 10.0, 15.0, 100.0], || 20.0, None);
        assert_eq!(run.waits_ns, [0.0, 10.0, 25.0, 0.0]);
        assert_eq!((run.span_ns, run.busy_ns, run.mean_wait_ns(), run.lost), (120.0, 80.0, 8.75, 0));
        assert_eq!((run.wait_quantile_ns(0.5), run.wait_quantile_ns(1.0)), (0.0, 25.0));
        let one = simulate([0.0, 10.0, 20.0, 21.0], || 20.0, Some(1));
        assert_eq!((one.waits_ns.len(), one.lost, one.loss_ratio()), (2, 2, 0.5));
        assert_eq!(simulate([], || 1.0, None), Run::default());
    }
}
