//! The experiments of Niu et al., *Benchmarking NFV Software Dataplanes*, as benchmark files. The paper's own figures
//! stand beside ours where its text or tables give them; its plots are not read off.

/// Name and text of each, in the order of the paper.
pub const SWEEPS: &[(&str, &str)] = &[
    ("frequency", include_str!("../sweeps/niu/frequency.yaml")),
    ("mix", include_str!("../sweeps/niu/mix.yaml")),
    ("workers", include_str!("../sweeps/niu/workers.yaml")),
    ("cpu", include_str!("../sweeps/niu/cpu.yaml")),
    ("chain", include_str!("../sweeps/niu/chain.yaml")),
    ("placement", include_str!("../sweeps/niu/placement.yaml")),
    ("colocation", include_str!("../sweeps/niu/colocation.yaml")),
];

/// The benchmark of `chainline bench quick`: the quickstart's chain, driven by a generator.
pub const QUICK: &str = include_str!("../sweeps/quick.yaml");

/// The benchmark of `chainline bench queueing`: one server with constant and exponential cost under Poisson arrivals.
pub const QUEUEING: &str = include_str!("../sweeps/queueing.yaml");
