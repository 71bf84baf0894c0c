//! The environment abstraction layer (EAL): started once per process, on demand, and out of sight.
//!
//! `rte_eal_init` pins the calling thread, prints, leaves files and sleeps 100 ms; [`init`] undoes or avoids all four.
//! Any thread may call; the first call starts EAL and the later ones wait for it. EAL cannot be stopped and started
//! again (DPDK programmer's guide, "Environment Abstraction Layer"), so it lives as long as the process.

use crate::{log, version};
use chainline_dpdk_sys as sys;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

mod calibrate;
mod plugins;

/// How EAL starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EalConfig {
    /// PCI addresses (`0000:3b:00.0`) that may be probed. Empty: the PCI bus is not looked at.
    pub pci: Vec<String>,
    /// Memory of the drivers' own queues and of mbuf headers, in MiB. It is fixed at start; pages that are never
    /// touched cost nothing. Tables do not come out of it.
    pub memory_mib: u32,
    /// Whether drivers are loaded. Without them there are tables and no ports, and EAL starts in a third of the time.
    pub drivers: bool,
}

impl Default for EalConfig {
    fn default() -> Self {
        Self { pci: Vec::new(), memory_mib: 64, drivers: true }
    }
}

/// Why EAL did not start.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EalError {
    /// `rte_eal_init` refused.
    #[error("DPDK did not start: {0}")]
    Init(String),
    /// It runs already, in a way that does not serve.
    #[error("DPDK was started without PCI device {0}: name every PCI port before the first table or port is made")]
    NoPci(String),
    /// It runs without drivers.
    #[error("DPDK was started for tables alone in this process, without its drivers: it cannot have ports")]
    NoDrivers,
    /// The thread's CPUs could not be read.
    #[error("cannot read this thread's CPU affinity: {0}")]
    Affinity(String),
    /// A configuration that EAL cannot be given.
    #[error("{0}")]
    Config(String),
}

/// This process will have no ports: said before EAL starts.
static TABLES_ALONE: AtomicBool = AtomicBool::new(false);
static STARTED: OnceLock<Result<EalConfig, EalError>> = OnceLock::new();

/// Starts EAL, or checks that the running one serves.
///
/// # Errors
/// [`EalError`], the same at every later call.
pub fn init(config: &EalConfig) -> Result<(), EalError> {
    let running = STARTED.get_or_init(|| start(config).map(|()| config.clone())).as_ref().map_err(Clone::clone)?;
    if config.drivers && !running.drivers {
        return Err(EalError::NoDrivers);
    }
    match config.pci.iter().find(|pci| !running.pci.contains(pci)) {
        Some(missing) => Err(EalError::NoPci(missing.clone())),
        None => Ok(()),
    }
}

/// Says that this process will never open a port: EAL then starts without its drivers. Without effect once it runs.
pub fn tables_alone() {
    TABLES_ALONE.store(true, Relaxed);
}

/// Starts EAL for tables in this process alone: no huge pages, no PCI. Tables call it themselves.
///
/// # Errors
/// [`EalError`].
pub fn private() -> Result<(), EalError> {
    match STARTED.get() {
        Some(running) => running.as_ref().map(drop).map_err(Clone::clone),
        None => init(&EalConfig { memory_mib: 16, drivers: !TABLES_ALONE.load(Relaxed), ..EalConfig::default() }),
    }
}

fn start(config: &EalConfig) -> Result<(), EalError> {
    let affinity = Affinity::save()?;
    let mut args = vec![
        "chainline".to_owned(),
        // --in-memory would do the rest, but EAL refuses it beside --no-huge.
        "--no-huge".to_owned(),
        "--no-shconf".to_owned(),
        "--no-telemetry".to_owned(),
        format!("--file-prefix=chainline-{}", std::process::id()),
        // Names the CPU, so that hosts with more CPUs than RTE_MAX_LCORE work too.
        format!("--lcores=0@{}", affinity.first_cpu()?),
        format!("-m{}", config.memory_mib.max(8)),
        "--log-level=error".to_owned(),
    ];
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bw") {
        // EAL's default is 256 bits, a power-saving choice for CPUs that lower their clock (programmer's guide,
        // "Limiting use of SIMD"). The tables' AVX512 look-ups are much the faster ones.
        args.push("--force-max-simd-bitwidth=512".to_owned());
    }
    if config.pci.is_empty() {
        args.push("--no-pci".to_owned());
    }
    for pci in &config.pci {
        args.push(format!("--allow={pci}"));
    }

    // EAL keeps pointers into its arguments: they are never freed.
    let mut argv = Vec::with_capacity(args.len() + 1);
    for arg in args {
        let arg = CString::new(arg).map_err(|e| EalError::Config(format!("NUL in a DPDK argument: {e}")))?;
        argv.push(arg.into_raw());
    }
    let argc = argv.len() as c_int;
    argv.push(std::ptr::null_mut());
    let argv: *mut *mut c_char = Vec::leak(argv).as_mut_ptr();

    let present = runtime_parents().into_iter().filter(|dir| dir.exists()).collect::<Vec<_>>();
    log::capture();
    // Drivers of real devices make slow system calls while they start, which must not be interrupted.
    let hurry = config.pci.is_empty().then(calibrate::Hurry::start);
    let skip = (!config.drivers).then(plugins::Skip::start);
    // SAFETY: argv has argc leaked, NUL-terminated strings and a final null. STARTED lets this run once.
    let result = unsafe { sys::rte_eal_init(argc, argv) };
    let errno = version::errno();
    drop(hurry);
    drop(affinity);
    remove_runtime_dir(&present);
    log::capture_xdp();
    if result < 0 {
        return Err(EalError::Init(log::explain(version::strerror(errno))));
    }
    skip.map_or(Ok(()), plugins::Skip::finish).map_err(EalError::Init)?;
    Ok(())
}

/// Where EAL puts its folder: of root, and of others.
fn runtime_parents() -> [PathBuf; 2] {
    let home = std::env::var_os("XDG_RUNTIME_DIR").unwrap_or_else(|| "/tmp".into());
    ["/var/run/dpdk".into(), PathBuf::from(home).join("dpdk")]
}

/// EAL makes a folder for the files that `--no-shconf` says it shall not write. It goes, and so does the one around it
/// unless it was `present` before.
fn remove_runtime_dir(present: &[PathBuf]) {
    // SAFETY: returns a pointer to a static array, a path that may be empty.
    let dir = unsafe { CStr::from_ptr(sys::rte_eal_get_runtime_dir()) };
    let dir = PathBuf::from(dir.to_string_lossy().into_owned());
    // The file prefix in its name shows that the folder is ours.
    if !dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("chainline-")) {
        return;
    }
    // Nothing depends on it: a folder that cannot be removed, or is in use by now, is only untidy.
    let _ = std::fs::remove_dir(&dir);
    if let Some(parent) = dir.parent().filter(|dir| !present.iter().any(|p| p == dir)) {
        let _ = std::fs::remove_dir(parent);
    }
}

/// The calling thread's CPUs, put back when dropped.
struct Affinity(libc::cpu_set_t);

impl Affinity {
    fn save() -> Result<Self, EalError> {
        // SAFETY: a cpu_set_t is plain bits, and the call fills it up to its size.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
                return Err(EalError::Affinity(std::io::Error::last_os_error().to_string()));
            }
            Ok(Self(set))
        }
    }

    fn first_cpu(&self) -> Result<usize, EalError> {
        (0..libc::CPU_SETSIZE as usize)
            // SAFETY: the index is below CPU_SETSIZE.
            .find(|&cpu| unsafe { libc::CPU_ISSET(cpu, &self.0) })
            .ok_or_else(|| EalError::Affinity("no CPU in it".to_owned()))
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        // SAFETY: the set is a valid one that the kernel gave.
        unsafe {
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0);
        }
    }
}
