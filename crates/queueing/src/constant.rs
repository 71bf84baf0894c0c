//! Waiting times of M/D/1, in units of the service time.
//!
//! Erlang's formula sums terms of alternating sign that cancel: useless beyond some twenty service times. Franx ("A
//! simple solution for the M/D/c waiting time distribution", Operations Research Letters 29, 2001) gives one with
//! positive terms only, from the distribution of the number of packets in the system; and that comes from balancing the
//! flow across each level, again without a subtraction.

/// P(N = n) of the number of packets in an M/D/1 system, as far as wanted.
struct Numbers {
    rho: f64,
    /// P(A = k) of the arrivals during one service: Poisson with mean ρ.
    arrivals: Vec<f64>,
    /// P(A > k).
    more: Vec<f64>,
    /// P(N = n).
    p: Vec<f64>,
    /// P(N ≤ n).
    sum: Vec<f64>,
}

impl Numbers {
    fn new(rho: f64) -> Self {
        let mut arrivals = vec![(-rho).exp()];
        // Beyond, probabilities are below what a double can add to one.
        for k in 1..200 {
            arrivals.push(arrivals[k - 1] * rho / k as f64);
        }
        let mut more = vec![0.0; arrivals.len()];
        for k in (0..arrivals.len() - 1).rev() {
            more[k] = more[k + 1] + arrivals[k + 1];
        }
        Self { rho, arrivals, more, p: vec![1.0 - rho], sum: vec![1.0 - rho] }
    }

    /// P(N ≤ n).
    fn at_most(&mut self, n: usize) -> f64 {
        let more = |k: usize| self.more.get(k).copied().unwrap_or(0.0);
        while self.sum.len() <= n {
            let n = self.p.len() - 1;
            // At the ends of services, as often up across n as down: down is from n + 1 without an arrival.
            let first = n.saturating_sub(self.more.len()).max(1);
            let up: f64 = self.p[0] * more(n) + (first..=n).map(|i| self.p[i] * more(n + 1 - i)).sum::<f64>();
            let next = up / self.arrivals[0];
            self.p.push(next);
            self.sum.push((self.sum[n] + next).min(1.0));
        }
        self.sum[n]
    }

    /// P(W ≤ t).
    fn waits_at_most(&mut self, t: f64) -> f64 {
        let k = t.floor() as usize + 1;
        let x = self.rho * (k as f64 - t);
        let mut term = (-x).exp();
        let mut sum = 0.0;
        for j in 0..k {
            sum += self.at_most(k - j) * term;
            term *= x / (j + 1) as f64;
            if term < 1e-18 {
                break;
            }
        }
        sum.min(1.0)
    }
}

/// The waiting time that a share `p` of packets does not exceed, in service times; `rho` and `p` from 0 to below 1.
pub(crate) fn wait_quantile(rho: f64, p: f64) -> f64 {
    let mut numbers = Numbers::new(rho);
    let mut high = 1.0;
    // Far enough for any share that a double tells from one, at any utilisation of interest.
    while numbers.waits_at_most(high) < p && high < 1e5 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if numbers.waits_at_most(middle) < p { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Erlang's formula, where its terms do not cancel yet.
    fn erlang(rho: f64, t: f64) -> f64 {
        let mut sum = 0.0;
        for k in 0..=t.floor() as i32 {
            let x = rho * (f64::from(k) - t);
            let factorial: f64 = (1..=k).map(f64::from).product();
            sum += x.powi(k) / factorial * (-x).exp();
        }
        (1.0 - rho) * sum
    }

    #[test]
    fn agrees_with_erlang() {
        for rho in [0.1, 0.5, 0.9] {
            let mut numbers = Numbers::new(rho);
            for t in [0.0, 0.3, 0.999, 1.0, 1.7, 3.2, 6.5, 9.9] {
                let (ours, his) = (numbers.waits_at_most(t), erlang(rho, t));
                assert!((ours - his).abs() < 1e-9, "{rho} {t}: {ours} {his}");
            }
        }
    }

    #[test]
    fn probabilities_stay_probabilities_far_out() {
        let mut numbers = Numbers::new(0.98);
        let mut last = 0.0;
        for i in 0..800 {
            let p = numbers.waits_at_most(f64::from(i) * 0.7);
            assert!(p >= last - 1e-12 && p <= 1.0, "{i}: {p} after {last}");
            last = p;
        }
        assert!(last > 1.0 - 1e-6);
    }
}
