//! The busy loop, and how many TSC cycles an iteration of it takes.
//!
//! The loop is a chain of multiplications each of which needs the one before, so it costs the multiplier's latency
//! (3 cycles on x86-64 since 2008, and 1 each for `or` and addition), whatever else the core could do at the same time. The core's
//! clock and the TSC's differ and the former changes, so the ratio is measured, not assumed.

use chainline_nf::Error;
use std::hint::black_box;
use std::time::Instant;

/// Runs `iterations` of the loop from `seed`; the result seeds the next packet's, so packets cannot overlap either.
#[inline]
pub(crate) fn spin(seed: u64, iterations: u32) -> u64 {
    let mut x = seed;
    for _ in 0..iterations {
        // Klimov and Shamir (CHES 2002): all 2^64 values in one cycle, and no closed form that a compiler knows.
        x = x.wrapping_add(x.wrapping_mul(x) | 5);
    }
    black_box(x)
}

/// What the loop costs: `fixed + iterations * each`, in TSC cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Calibration {
    pub each: f64,
    pub fixed: f64,
}

impl Calibration {
    /// The iterations that cost `cycles`, to the nearest.
    pub(crate) fn iterations(&self, cycles: f64) -> u32 {
        // A float-to-integer cast saturates.
        ((cycles - self.fixed) / self.each).round() as u32
    }

    /// Measures the loop for about 3 ms. The best of many short rounds: what interrupts a round only adds to it.
    pub(crate) fn measure(tsc_hz: u64) -> Self {
        const CALLS: u32 = 64;
        let round = |iterations: u32| {
            let start = Instant::now();
            let mut x = 3;
            for _ in 0..CALLS {
                x = spin(x, black_box(iterations));
            }
            black_box(x);
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        };
        let best = |iterations| (0..30).map(|_| round(iterations)).fold(f64::INFINITY, f64::min);
        let (few, many) = (100, 800);
        let (short, long) = (best(few), best(many));
        let cycles_per_ns = tsc_hz as f64 / 1e9;
        let each = ((long - short) / f64::from(many - few) * cycles_per_ns).max(0.01);
        let fixed = (short * cycles_per_ns - each * f64::from(few)).clamp(0.0, 50.0);
        Self { each, fixed }
    }
}

/// The TSC's frequency in Hz, as CPUID leaf 0x15 (Intel SDM 2A) or the hypervisor's timing leaf says; else the
/// kernel's "cpu MHz", which is the TSC's where the kernel does not change frequencies, and close to it elsewhere.
///
/// # Errors
/// When neither tells.
pub(crate) fn tsc_hz() -> Result<u64, Error> {
    from_cpuid().or_else(from_kernel).ok_or_else(|| {
        Error::Args("args.tsc_hz: the frequency of the TSC is not known on this host, so it must be given".into())
    })
}

#[cfg(target_arch = "x86_64")]
fn from_cpuid() -> Option<u64> {
    let cpuid = raw_cpuid::CpuId::new();
    let own = cpuid.get_tsc_info().and_then(|tsc| tsc.tsc_frequency());
    let hypervisor = || cpuid.get_hypervisor_info()?.tsc_frequency().map(|khz| u64::from(khz) * 1000);
    own.or_else(hypervisor).filter(|hz| *hz > 0)
}

#[cfg(not(target_arch = "x86_64"))]
fn from_cpuid() -> Option<u64> {
    None
}

fn from_kernel() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let mhz: f64 = info.lines().find(|l| l.starts_with("cpu MHz"))?.split(':').nth(1)?.trim().parse().ok()?;
    (mhz >= 1.0).then_some((mhz * 1e6) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_iteration_changes_the_result() {
        let results: std::collections::BTreeSet<u64> = (0..100).map(|n| spin(3, n)).collect();
        assert_eq!(results.len(), 100);
    }

    #[test]
    fn iterations_round_to_the_nearest_and_never_wrap() {
        let c = Calibration { each: 4.0, fixed: 10.0 };
        assert_eq!(c.iterations(0.0), 0);
        assert_eq!(c.iterations(10.0), 0);
        assert_eq!(c.iterations(51.0), 10);
        assert_eq!(c.iterations(1e30), u32::MAX);
    }

    #[test]
    fn what_is_measured_is_a_few_cycles() {
        // Wide bounds: a loaded host is no reason to fail, a loop that was optimised away is.
        let c = Calibration::measure(2_500_000_000);
        assert!(c.each > 0.2 && c.each < 200.0, "{c:?}");
    }
}
