//! Formulas. Kleinrock, *Queueing Systems*, volume 1 (1975): M/M/1 in section 3.2, M/M/1/K in 3.6, M/G/1 in 5.6.

use crate::constant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the cost of packets differs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// Not at all: M/D/1.
    Constant,
    /// Exponentially: M/M/1.
    Exponential,
    /// Any way with this squared coefficient of variation (variance / mean²): M/G/1. Means are known, quantiles are not.
    Other(f64),
}

impl Cost {
    /// The squared coefficient of variation: 0 for constant, 1 for exponential cost.
    #[must_use]
    pub fn variability(self) -> f64 {
        match self {
            Self::Constant => 0.0,
            Self::Exponential => 1.0,
            Self::Other(squared) => squared,
        }
    }
}

/// Poisson arrivals at one server that takes them in order, with room for all that wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Packets a second that arrive.
    pub rate_pps: f64,
    /// Mean cost of a packet in nanoseconds.
    pub service_ns: f64,
    /// How it differs.
    pub cost: Cost,
}

/// The mean time that a packet waits before its service begins, in nanoseconds (Pollaczek and Khinchine): with ρ = rate ×
/// service, ρ / (1 − ρ) × (1 + variability) / 2 × service. None from ρ = 1 on, where it grows without end, and for what is
/// no rate, time or variability.
#[must_use]
pub fn mean_wait_ns(rate_pps: f64, service_ns: f64, variability: f64) -> Option<f64> {
    let rho = rate_pps * service_ns / 1e9;
    let fine = rate_pps >= 0.0 && service_ns >= 0.0 && variability >= 0.0 && variability.is_finite() && rho < 1.0;
    fine.then(|| rho / (1.0 - rho) * (1.0 + variability) / 2.0 * service_ns)
}

impl Queue {
    /// ρ: the share of its time that the server works, if it can.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.rate_pps * self.service_ns / 1e9
    }

    /// Packets a second that the server manages at most.
    #[must_use]
    pub fn capacity_pps(&self) -> f64 {
        1e9 / self.service_ns
    }

    /// See [`mean_wait_ns`].
    #[must_use]
    pub fn mean_wait_ns(&self) -> Option<f64> {
        mean_wait_ns(self.rate_pps, self.service_ns, self.cost.variability())
    }

    /// Mean time from arrival to the end of service, in nanoseconds.
    #[must_use]
    pub fn mean_time_ns(&self) -> Option<f64> {
        Some(self.mean_wait_ns()? + self.service_ns)
    }

    /// Mean number of packets that wait (Little's law).
    #[must_use]
    pub fn mean_waiting(&self) -> Option<f64> {
        Some(self.mean_wait_ns()? * self.rate_pps / 1e9)
    }

    /// The waiting time in nanoseconds that a share `p` of the packets does not exceed: 0 below the share that does not
    /// wait at all. None in overload, for [`Cost::Other`], and for a `p` that is not from 0 to below 1.
    #[must_use]
    pub fn wait_quantile_ns(&self, p: f64) -> Option<f64> {
        let rho = self.utilisation();
        self.mean_wait_ns()?;
        if !(0.0..1.0).contains(&p) {
            return None;
        }
        if p <= 1.0 - rho {
            return Some(0.0);
        }
        match self.cost {
            // P(W > t) = ρ exp(−(1 − ρ) t / service).
            Cost::Exponential => Some((rho / (1.0 - p)).ln() / (1.0 - rho) * self.service_ns),
            Cost::Constant => Some(constant::wait_quantile(rho, p) * self.service_ns),
            Cost::Other(_) => None,
        }
    }

    /// The time from arrival to the end of service, in nanoseconds, that a share `p` of the packets does not exceed.
    /// None as [`Queue::wait_quantile_ns`].
    #[must_use]
    pub fn time_quantile_ns(&self, p: f64) -> Option<f64> {
        let wait = self.wait_quantile_ns(p)?;
        match self.cost {
            // Exponential again: P(T > t) = exp(−(1 − ρ) t / service).
            Cost::Exponential => Some(-(1.0 - p).ln() / (1.0 - self.utilisation()) * self.service_ns),
            _ => Some(wait + self.service_ns),
        }
    }
}

/// The share of packets that an exponential server with room for `places` packets, the one in service included, turns
/// away: M/M/1/K.
#[must_use]
pub fn loss_ratio_mm1k(utilisation: f64, places: u32) -> f64 {
    let k = f64::from(places);
    if (utilisation - 1.0).abs() < 1e-9 {
        return 1.0 / (k + 1.0);
    }
    // (1 − ρ) ρ^K / (1 − ρ^(K+1)), divided by ρ^(K+1) where that is the larger one.
    if utilisation < 1.0 {
        (1.0 - utilisation) * utilisation.powf(k) / (1.0 - utilisation.powf(k + 1.0))
    } else {
        (1.0 - 1.0 / utilisation) / (1.0 - utilisation.powf(-k - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(rho: f64, cost: Cost) -> Queue {
        Queue { rate_pps: rho * 1e6, service_ns: 1000.0, cost }
    }

    #[test]
    fn textbook_values() {
        let half = queue(0.5, Cost::Exponential);
        assert_eq!(
            (half.mean_wait_ns(), half.mean_time_ns(), half.mean_waiting()),
            (Some(1000.0), Some(2000.0), Some(0.5))
        );
        assert_eq!(queue(0.5, Cost::Constant).mean_wait_ns(), Some(500.0));
        assert_eq!(queue(0.5, Cost::Other(4.0)).mean_wait_ns(), Some(2500.0));
        // Half of the packets do not wait; of all, 1 % wait longer than ln(50) mean times.
        assert_eq!(half.wait_quantile_ns(0.5), Some(0.0));
        assert!((half.wait_quantile_ns(0.99).unwrap() - 2000.0 * 50f64.ln()).abs() < 1e-9);
        assert!((half.time_quantile_ns(0.5).unwrap() - 2000.0 * 2f64.ln()).abs() < 1e-9);
        assert_eq!(queue(0.5, Cost::Constant).time_quantile_ns(0.5), Some(1000.0));
        assert_eq!(queue(0.0, Cost::Constant).mean_wait_ns(), Some(0.0));
        assert!((loss_ratio_mm1k(0.5, 1) - 1.0 / 3.0).abs() < 1e-12);
        assert!((loss_ratio_mm1k(1.0, 4) - 0.2).abs() < 1e-9);
        assert!((loss_ratio_mm1k(2.0, 1000) - 0.5).abs() < 1e-9);
        assert!((loss_ratio_mm1k(1.0 + 1e-8, 4) - loss_ratio_mm1k(1.0, 4)).abs() < 1e-6);
    }

    #[test]
    fn what_has_no_answer_gets_none() {
        for cost in [Cost::Constant, Cost::Exponential, Cost::Other(2.0)] {
            assert_eq!(queue(1.0, cost).mean_wait_ns(), None);
            assert_eq!(queue(f64::NAN, cost).wait_quantile_ns(0.5), None);
            assert_eq!(queue(-1.0, cost).mean_wait_ns(), None);
            assert_eq!(queue(0.5, cost).wait_quantile_ns(1.0), None);
        }
        assert_eq!(queue(0.5, Cost::Other(2.0)).wait_quantile_ns(0.9), None);
        assert_eq!(mean_wait_ns(0.5e6, 1000.0, f64::INFINITY), None);
    }

    /// The mean is the integral of P(W > t), so quantiles and Pollaczek–Khinchine check each other.
    #[test]
    fn quantiles_integrate_to_the_mean() {
        for cost in [Cost::Constant, Cost::Exponential] {
            for rho in [0.1, 0.5, 0.8, 0.95] {
                let q = queue(rho, cost);
                let steps = 4000;
                let sum: f64 =
                    (0..steps).map(|i| q.wait_quantile_ns((f64::from(i) + 0.5) / f64::from(steps)).unwrap()).sum();
                let (mean, expected) = (sum / f64::from(steps), q.mean_wait_ns().unwrap());
                assert!((mean / expected - 1.0).abs() < 0.01, "{cost:?} {rho}: {mean} {expected}");
                let sum: f64 =
                    (0..steps).map(|i| q.time_quantile_ns((f64::from(i) + 0.5) / f64::from(steps)).unwrap()).sum();
                let (mean, expected) = (sum / f64::from(steps), q.mean_time_ns().unwrap());
                assert!((mean / expected - 1.0).abs() < 0.01, "{cost:?} {rho}, in the system: {mean} {expected}");
            }
        }
    }
}
