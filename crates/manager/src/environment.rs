//! Where a run took place: enough to tell two results apart and to repeat one.

use crate::fabric::Fabric;
use procfs::Current;
use serde::Serialize;

/// The host and the build.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Environment {
    /// Version of Chainline.
    pub chainline: String,
    /// Version of DPDK.
    pub dpdk: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's name.
    pub cpu: Option<String>,
    /// Processors that are online.
    pub cores: usize,
    /// Pages under the packet buffers: `huge`, `transparent` or `small`, by tenant.
    pub pages: Vec<String>,
    /// Rate of the time-stamp counter in Hz.
    pub tsc_hz: u64,
    /// Whether this is a virtual machine, as the processor says.
    pub virtual_machine: Option<bool>,
    /// Whether the build is optimised; figures of one that is not mean little.
    pub optimised: bool,
}

impl Environment {
    pub(crate) fn of(fabric: &Fabric) -> Self {
        let cpus = procfs::CpuInfo::current().ok();
        let word = |p| serde_json::to_value(p).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
        Self {
            chainline: env!("CARGO_PKG_VERSION").to_owned(),
            dpdk: chainline_dpdk::release(),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            cpu: cpus.as_ref().and_then(|c| c.model_name(0).map(str::to_owned)),
            cores: std::thread::available_parallelism().map_or(0, Into::into),
            pages: fabric.regions.iter().map(|r| word(r.mapping().pages())).collect(),
            tsc_hz: fabric.clock.hz(),
            virtual_machine: cpus.as_ref().and_then(|c| c.flags(0).map(|f| f.contains(&"hypervisor"))),
            optimised: !cfg!(debug_assertions),
        }
    }
}
