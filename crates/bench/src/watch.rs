//! Whether the host left a trial alone. What others took is found from the kernel's ticks, which are right to a
//! hundredth of a second; a trial of less than half a second can hide a tick or two.

use crate::host::Ticks;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Looks at the host while a trial lasts.
pub trait Watch {
    /// The trial begins.
    fn begin(&mut self);
    /// The trial is over: what happened meanwhile.
    fn end(&mut self) -> Seen;
}

/// What happened on the host while a trial lasted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Share of all cores' time that the hypervisor gave to others, 0 to 1.
    pub stolen_share: f64,
    /// Share that other programs had.
    pub foreign_share: f64,
    /// Why the trial says little; empty if nothing happened.
    pub disturbed: Vec<String>,
}

/// The host as the kernel shows it.
#[derive(Debug)]
pub struct HostWatch {
    cpus: PathBuf,
    ticks: Option<Ticks>,
    throttled: u64,
    clocks: Option<Clocks>,
}

impl Default for HostWatch {
    fn default() -> Self {
        Self { cpus: "/sys/devices/system/cpu".into(), ticks: None, throttled: 0, clocks: None }
    }
}

impl Watch for HostWatch {
    fn begin(&mut self) {
        self.throttled = throttled(&self.cpus);
        self.clocks = Clocks::watch(&self.cpus);
        self.ticks = Ticks::with_children();
    }

    fn end(&mut self) -> Seen {
        let ticks = Ticks::with_children().zip(self.ticks.take()).map(|(now, then)| now.since(then));
        let mut disturbed = Vec::new();
        if let Some(ticks) = ticks {
            disturbed.extend(ticks.spoil().map(|why| {
                let (stolen, foreign) = (100.0 * ticks.stolen_share(), 100.0 * ticks.foreign_share());
                format!("{why} (stolen {stolen:.1} %, others {foreign:.1} %)")
            }));
        }
        if let Some((low, high)) = self.clocks.take().and_then(Clocks::stop)
            && high - low > high / 20
        {
            disturbed.push(format!("the fastest core ran at {} to {} MHz", low / 1000, high / 1000));
        }
        if throttled(&self.cpus) > self.throttled {
            disturbed.push("a core was throttled for its temperature".into());
        }
        let ticks = ticks.unwrap_or_default();
        Seen { stolen_share: ticks.stolen_share(), foreign_share: ticks.foreign_share(), disturbed }
    }
}

/// How often any core was throttled since the host was started; 0 where the kernel does not tell.
fn throttled(cpus: &Path) -> u64 {
    let cores = fs::read_dir(cpus).into_iter().flatten().flatten();
    let counts = cores.filter_map(|c| fs::read_to_string(c.path().join("thermal_throttle/core_throttle_count")).ok());
    counts.filter_map(|c| c.trim().parse::<u64>().ok()).sum()
}

/// Looks at the cores' frequencies from time to time.
#[derive(Debug)]
struct Clocks {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Option<(u64, u64)>>,
}

impl Clocks {
    /// Between two looks.
    const LOOK: Duration = Duration::from_millis(50);

    /// `None` where the kernel does not tell frequencies.
    fn watch(cpus: &Path) -> Option<Self> {
        fastest_khz(cpus)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (over, cpus) = (stop.clone(), cpus.to_owned());
        let thread = thread::spawn(move || {
            let mut seen: Option<(u64, u64)> = None;
            // Cores speed up as a trial begins: the first look comes late.
            for look in 0_u32.. {
                thread::sleep(Self::LOOK);
                if over.load(Ordering::Relaxed) {
                    break;
                }
                if look < 2 {
                    continue;
                }
                if let Some(khz) = fastest_khz(&cpus) {
                    seen = Some(seen.map_or((khz, khz), |(low, high)| (low.min(khz), high.max(khz))));
                }
            }
            seen
        });
        Some(Self { stop, thread })
    }

    /// Lowest and highest frequency seen, in kHz.
    fn stop(self) -> Option<(u64, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().flatten()
    }
}

/// The frequency of the fastest core: an idle one may be slow.
fn fastest_khz(cpus: &Path) -> Option<u64> {
    let cores = fs::read_dir(cpus).ok()?.flatten();
    let khz = cores.filter_map(|c| fs::read_to_string(c.path().join("cpufreq/scaling_cur_freq")).ok());
    khz.filter_map(|k| k.trim().parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(dir: &Path, file: &str, value: &str) {
        let path = dir.join("cpu0").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value).unwrap();
    }

    #[test]
    fn throttling_is_seen() {
        let dir = crate::scratch::Scratch::new();
        let mut watch = HostWatch { cpus: dir.path().to_owned(), ..HostWatch::default() };
        watch.begin();
        let throttled = |seen: &Seen| seen.disturbed.iter().any(|d| d.contains("temperature"));
        assert!(!throttled(&watch.end()));
        cpu(dir.path(), "thermal_throttle/core_throttle_count", "7\n");
        watch.begin();
        cpu(dir.path(), "thermal_throttle/core_throttle_count", "8\n");
        assert!(throttled(&watch.end()));
    }

    #[test]
    fn the_fastest_core_counts() {
        let dir = crate::scratch::Scratch::new();
        assert!(fastest_khz(dir.path()).is_none() && Clocks::watch(dir.path()).is_none());
        cpu(dir.path(), "cpufreq/scaling_cur_freq", "1200000\n");
        fs::create_dir_all(dir.path().join("cpu1/cpufreq")).unwrap();
        fs::write(dir.path().join("cpu1/cpufreq/scaling_cur_freq"), "2600000\n").unwrap();
        assert_eq!(fastest_khz(dir.path()), Some(2_600_000));
        assert!(Clocks::watch(dir.path()).unwrap().stop().is_none_or(|(low, high)| low == high));
    }
}
