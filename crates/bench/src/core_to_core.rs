//! How far two cores are from each other: what a cache line takes there and back. On a virtual machine it changes while
//! one looks, as the hypervisor moves processors from one core, cluster or socket to another, and with it what can be had
//! of anything that hands packets from core to core. So it stands beside what is measured.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Release};
use std::time::{Duration, Instant};

/// Round trips of one attempt, and attempts, of which the shortest counts: disturbances only add.
const ROUNDS: u32 = 2_000;
const ATTEMPTS: u32 = 20;
/// The other thread may have no core at all.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU32);

/// As [`round_trip_ns`], between the first two cores that this process may use: the manager's and the first of the NFs.
///
/// # Errors
/// As there; or there is one core.
pub fn first_two() -> Result<f64, String> {
    let set = sched_getaffinity(None).map_err(|e| format!("cannot read which cores there are: {e}"))?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|c| set.is_set(*c));
    match (cores.next(), cores.next()) {
        (Some(a), Some(b)) => round_trip_ns(a, b),
        _ => Err("there is one core".into()),
    }
}

/// Nanoseconds that a cache line takes from core `a` to core `b` and back.
///
/// # Errors
/// Why it cannot be measured, in words.
pub fn round_trip_ns(a: usize, b: usize) -> Result<f64, String> {
    let (ping, pong, over) = (Line::default(), Line::default(), AtomicBool::new(false));
    std::thread::scope(|threads| {
        // Threads of their own: the caller's keeps its cores.
        threads.spawn(|| {
            if pin(b).is_err() {
                return over.store(true, Release);
            }
            while !over.load(Acquire) {
                pong.0.store(ping.0.load(Acquire), Release);
            }
        });
        let measured = threads.spawn(|| {
            let least = pin(a).and_then(|()| least(&ping.0, &pong.0, &over));
            over.store(true, Release);
            least
        });
        measured.join().unwrap_or_else(|_| Err("the thread that measures it died".into()))
    })
}

fn least(ping: &AtomicU32, pong: &AtomicU32, over: &AtomicBool) -> Result<f64, String> {
    let (begin, mut sent, mut least) = (Instant::now(), 0, f64::INFINITY);
    for _ in 0..ATTEMPTS {
        let attempt = Instant::now();
        for _ in 0..ROUNDS {
            sent += 1;
            ping.store(sent, Release);
            let mut looks = 0_u32;
            while pong.load(Acquire) != sent {
                looks += 1;
                if looks.is_multiple_of(1 << 16) && (over.load(Acquire) || begin.elapsed() > PATIENCE) {
                    return Err("the other core does not answer".into());
                }
            }
        }
        least = least.min(attempt.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    Ok(least)
}

fn pin(core: usize) -> Result<(), String> {
    let mut cores = CpuSet::new();
    if core >= CpuSet::MAX_CPU {
        return Err(format!("core {core} is beyond what this program can name"));
    }
    cores.set(core);
    sched_setaffinity(None, &cores).map_err(|e| format!("core {core}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_some_time() {
        match round_trip_ns(0, 1) {
            Ok(ns) => assert!(ns > 0.0, "{ns}"),
            Err(why) => println!("skipped: {why}"),
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_said() {
        assert!(round_trip_ns(0, CpuSet::MAX_CPU).is_err());
        assert!(round_trip_ns(CpuSet::MAX_CPU - 1, 0).unwrap_err().contains("core"));
    }
}
