//! The experiments of Kulkarni et al., *NFVnice: Dynamic Backpressure and Scheduling for NFV Service Chains* (SIGCOMM
//! 2017), and those on scheduling of Zhang et al., *Performance Management Challenges for Virtual Network Functions*, as
//! benchmark files, what they come to ([`summary`]), and one experiment with real programs ([`tcp`]). Others' figures stand beside ours where their text or tables give
//! them; what is read off a plot says so.

mod hosts;
pub mod summary;
pub mod tcp;

/// The scenario about achieved and intended shares.
pub const SHARES: &str = "shares";
/// The one about the cost of the control loop.
pub const CONTROL: &str = "control-128";

/// Name and text of each, in the order of the papers.
pub const SCENARIOS: &[(&str, &str)] = &[
    ("fig1", include_str!("../sweeps/nfvnice/fig1.yaml")),
    ("fig7", include_str!("../sweeps/nfvnice/fig7.yaml")),
    ("table5", include_str!("../sweeps/nfvnice/table5.yaml")),
    ("fig9", include_str!("../sweeps/nfvnice/fig9.yaml")),
    ("fig10", include_str!("../sweeps/nfvnice/fig10.yaml")),
    ("fig11", include_str!("../sweeps/nfvnice/fig11.yaml")),
    ("fig12", include_str!("../sweeps/nfvnice/fig12.yaml")),
    ("fig14", include_str!("../sweeps/nfvnice/fig14.yaml")),
    ("fig15", include_str!("../sweeps/nfvnice/fig15.yaml")),
    ("fig15-fairness", include_str!("../sweeps/nfvnice/fig15-fairness.yaml")),
    ("fig16", include_str!("../sweeps/nfvnice/fig16.yaml")),
    ("tuning", include_str!("../sweeps/nfvnice/tuning.yaml")),
    ("load", include_str!("../sweeps/nfvnice/load.yaml")),
    ("load-bursts", include_str!("../sweeps/nfvnice/load-bursts.yaml")),
    ("load-flows", include_str!("../sweeps/nfvnice/load-flows.yaml")),
    (SHARES, include_str!("../sweeps/nfvnice/shares.yaml")),
    (CONTROL, include_str!("../sweeps/nfvnice/control-128.yaml")),
    ("zhang-fig2", include_str!("../sweeps/nfvnice/zhang-fig2.yaml")),
    ("zhang-fig5", include_str!("../sweeps/nfvnice/zhang-fig5.yaml")),
    ("zhang-fig6", include_str!("../sweeps/nfvnice/zhang-fig6.yaml")),
];

/// Other names of scenarios: the tables that they also make.
pub const ALSO: &[(&str, &str)] = &[("tables1-2", "fig1"), ("table3", "fig7"), ("table4", "fig7"), ("table6", "fig9")];
