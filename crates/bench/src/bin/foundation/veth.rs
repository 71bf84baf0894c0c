//! The yardstick that is no part of Chainline: a hop over veth, by the program `veth-hop` (its source stands beside).

use chainline_bench::host::Ticks;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Core of the two processes: the NFs' own.
const CORE: &str = "1";
/// Frames that go round. With fewer, batches are smaller; with far more, caches are left and the kernel's backlog
/// (`net.core.netdev_max_backlog`, 1000) drops. Measured from 32 to 1024: 256 is cheapest.
const FRAMES: &str = "256";

/// Where it is.
#[derive(Debug)]
pub struct Veth {
    pub path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Said {
    hop_ns: f64,
}

impl Veth {
    /// Nanoseconds a frame and hop, and whether others disturbed it.
    ///
    /// # Errors
    /// Why it could not be measured.
    pub fn hop_ns(&self, trial: Duration) -> Result<(f64, bool), String> {
        let path = self.path.as_ref().ok_or("veth-hop was not built: it needs a C compiler")?;
        let before = Ticks::now();
        let out = Command::new(path)
            .args([CORE, &trial.as_millis().to_string(), FRAMES])
            .output()
            .map_err(|e| format!("{}: {e}", path.display()))?;
        if !out.status.success() {
            let words = String::from_utf8_lossy(&out.stderr);
            return Err(words.trim().trim_start_matches("veth-hop: ").to_owned());
        }
        let disturbed = Ticks::now().zip(before).is_some_and(|(now, then)| now.since(then).spoil().is_some());
        serde_json::from_slice::<Said>(&out.stdout)
            .map(|said| (said.hop_ns, disturbed))
            .map_err(|e| format!("veth-hop: {e}"))
    }
}
