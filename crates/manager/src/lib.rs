//! The manager: opens ports, launches instances, moves packets between ports and chains, keeps the ledger, and
//! brings back what dies.
//!
//! Three threads: `dataplane` polls on the manager's core and owns buffers, ports and accounts; `supervisor` sleeps
//! and is woken by instances' sockets; `control` wakes each millisecond and advises the kernel's scheduler. NFs never run
//! in any of them.

#![forbid(unsafe_code)]

mod buffers;
mod classifier;
mod control;
mod dataplane;
mod environment;
mod fabric;
#[doc(hidden)]
pub mod fuzz;
mod ports;
pub mod report;
mod supervisor;
pub mod traffic;

pub use control::{Change, ControlReport, Operator, Standing};
pub use ports::PortError;
pub use report::{Happening, Interval, Report};
pub use supervisor::{Load, Orders, Remote, RunError, sharing};

use buffers::Buffers;
use chainline_chain::model::Port as PortSpec;
use chainline_chain::plan::Plan;
use chainline_dpdk::Pool;
use chainline_runtime::Builder;
use fabric::Fabric;
use ports::{Capture, CaptureReader, Check, Device, Generator, MAX_FRAME, Port, Sink};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How to run a plan.
#[derive(Clone)]
pub struct Options {
    /// The chain file's directory: relative paths start there.
    pub dir: PathBuf,
    /// The program to start as an NF's process (with `nf-host NAME`, the socket as standard input).
    pub program: PathBuf,
    /// Builds NFs for instances that are threads.
    pub builder: Arc<Builder>,
    /// Ends after this; none: when all sources are exhausted.
    pub duration: Option<Duration>,
    /// Time between two [`Observer::interval`]s.
    pub interval: Duration,
    /// Time for chains to run empty at the end.
    pub drain: Duration,
    /// How it can be asked and changed while it lasts; none: not at all.
    pub remote: Option<Remote>,
    /// How many times the operator asked to stop: at 1 the run drains, at 2 it ends at once.
    pub stop: fn() -> usize,
}

/// Is told how a run goes on, in the supervisor's thread.
pub trait Observer {
    /// Every instance runs; packets flow from now on.
    fn running(&mut self, _plan: &Plan) {}
    /// Who can change how NFs are scheduled from now on; it may be kept, and used from any thread.
    fn operator(&mut self, _operator: &Operator) {}
    /// The numbers of an interval.
    fn interval(&mut self, _interval: &Interval) {}
    /// Something happened to an instance.
    fn happened(&mut self, _happening: &Happening) {}
    /// No more packets are received; those inside are on their way out.
    fn draining(&mut self) {}
}

/// Runs a plan to its end.
///
/// # Errors
/// When it cannot begin: a port that cannot be opened, an NF that cannot be built, no memory. What happens to NFs
/// later is in the report.
pub fn run(plan: Plan, options: &Options, observer: &mut dyn Observer) -> Result<Report, RunError> {
    supervisor::Supervisor::new(plan, options)?.run(observer)
}

/// Starts a plan and makes the trials that `orders` asks for, until it has no more. Each order and what became of it
/// is one [`chainline_trial::Reply`]; before the first one stands [`chainline_trial::Reply::Ready`].
///
/// # Errors
/// As [`run`], and when the plan has no generator to steer.
pub fn steer(
    plan: Plan,
    options: &Options,
    orders: &mut dyn Orders,
    observer: &mut dyn Observer,
) -> Result<Report, RunError> {
    supervisor::Supervisor::steerable(&plan)?;
    supervisor::Supervisor::new(plan, options)?.steer(orders, observer)
}

/// JSON Schema of [`Report`].
#[must_use]
pub fn report_schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}

/// What the largest frame of a device needs of a buffer besides its bytes: two VLAN tags, and what `net_af_packet`
/// wants to spare so that its ring, where the kernel's header stands before each frame, holds it uncut.
const DEVICE_ROOM: u16 = 72;

/// Room for the largest frame of all ports, in bytes without FCS.
fn max_frame(plan: &Plan, options: &Options) -> Result<u16, RunError> {
    if plan.max_frame_bytes > 0 {
        return Ok(u16::try_from(plan.max_frame_bytes).unwrap_or(u16::MAX).saturating_add(DEVICE_ROOM));
    }
    let mut largest = 1514;
    for p in &plan.ports {
        let frame = match &p.spec {
            PortSpec::Generator(g) => traffic::load(g, &options.dir)
                .map_err(|error| RunError::Port { name: p.name.clone(), error })?
                .spec
                .mix
                .largest_frame_bytes(),
            PortSpec::Pcap(c) => match &c.read {
                Some(path) => CaptureReader::open(
                    &options.dir.join(path),
                    c,
                    &chainline_shm::Clock::measure(Duration::ZERO),
                    MAX_FRAME,
                )
                .map_err(|error| RunError::Port { name: p.name.clone(), error })?
                .longest(),
                None => 0,
            },
            PortSpec::Sink(_) => 0,
            device => DEVICE_ROOM + device_frame(device),
        };
        largest = largest.max(frame);
    }
    Ok(largest)
}

/// The longest untagged frame of a device, in bytes without FCS: as its interface's MTU says.
pub(crate) fn device_frame(spec: &PortSpec) -> u16 {
    let interface = match spec {
        PortSpec::AfPacket(d) | PortSpec::AfXdp(d) | PortSpec::Tap(d) => Some(&d.interface),
        _ => None,
    };
    let mtu = interface.and_then(|i| std::fs::read_to_string(format!("/sys/class/net/{i}/mtu")).ok());
    mtu.and_then(|m| m.trim().parse::<u16>().ok()).unwrap_or(1500).clamp(68, 9004) + 14
}

/// Opens every port, in the thread that will poll it.
fn open_ports(
    plan: &Plan,
    fabric: &Fabric,
    tenants: &[Buffers],
    options: &Options,
    max_frame: u16,
) -> Result<Vec<Box<dyn Port>>, RunError> {
    let clock = &fabric.clock;
    // Pools of mbuf headers, for tenants whose ports need them.
    let mut pools: Vec<Option<Pool>> = tenants.iter().map(|_| None).collect();
    let mut ports: Vec<Box<dyn Port>> = Vec::new();
    for (number, p) in plan.ports.iter().enumerate() {
        let failed = |error| RunError::Port { name: p.name.clone(), error };
        ports.push(match &p.spec {
            PortSpec::Generator(g) => Box::new(Generator::open(&options.dir, g, number, clock).map_err(failed)?),
            PortSpec::Sink(s) if s.check => {
                Box::new(Sink::checking(Check::new(plan.ports.iter().map(|p| &p.spec), clock)))
            }
            PortSpec::Sink(_) => Box::new(Sink::default()),
            PortSpec::Pcap(c) => {
                let most = if plan.max_frame_bytes > 0 { max_frame - DEVICE_ROOM } else { MAX_FRAME };
                Box::new(Capture::open(&options.dir, c, clock, most).map_err(failed)?)
            }
            device => {
                let tenant = home_of(plan, fabric, number);
                let pool = match &mut pools[tenant] {
                    Some(pool) => pool,
                    none => {
                        let buffers = &tenants[tenant];
                        let pool = Pool::over(buffers.region(), buffers.free_list().clone())
                            .map_err(|e| failed(PortError::Device(e.to_string())))?;
                        none.insert(pool)
                    }
                };
                let frame = if plan.max_frame_bytes > 0 { max_frame - DEVICE_ROOM } else { device_frame(device) };
                Box::new(Device::open(device, number, &options.dir, pool, frame).map_err(failed)?)
            }
        });
    }
    Ok(ports)
}

/// The tenant whose buffers a port uses: that of the first chain at it. Frames of others are copied.
pub(crate) fn home_of(plan: &Plan, fabric: &Fabric, port: usize) -> usize {
    let chain = plan.chains.iter().position(|c| c.ingress == port || c.egress == port);
    fabric.tenant_of(plan, chain.unwrap_or(0))
}
