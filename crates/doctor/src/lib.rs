//! What a host lacks for running service chains well, and what to do about it.
//!
//! [`examine`] looks at the kernel's own files below a root directory ([`Host`]) and at a few things that only
//! asking the kernel can tell ([`Live`]), and gives a [`Report`]. It changes nothing on the host. A test gives it a
//! directory of made files and made facts.
//!
//! Status words: `fail` – chains cannot run; `warn` – they run, but slower, less even, or without a feature that most
//! chain files use; `info` – worth knowing, no fault; `ok`.

#![forbid(unsafe_code)]

mod cgroup;
mod cores;
mod host;
mod live;
mod memory;
mod network;
mod report;
mod stale;
mod timing;

pub use host::Host;
pub use live::{CpuTime, Live};
pub use report::{Check, Report, Status};

/// Does all checks, in the order in which what they find matters.
#[must_use]
pub fn examine(host: &Host, live: &Live) -> Report {
    Report {
        checks: vec![
            network::dpdk(host),
            network::capabilities(host),
            memory::huge_pages(host),
            memory::transparent_huge_pages(host),
            memory::locked(host, live),
            cores::allowed(host),
            cores::isolated(host),
            cores::smt(host),
            cores::governor(host),
            timing::steal(live),
            timing::clock(host),
            timing::counters(host, live),
            cgroup::cpu_controller(host),
            cgroup::real_time(host),
            timing::autogroup(host),
            timing::slices(host),
            network::af_xdp(live),
            network::namespaces(host),
            stale::left_behind(host),
        ],
    }
}
