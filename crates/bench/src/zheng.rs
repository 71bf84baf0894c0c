//! The experiments of Zheng et al., *NFV Performance Profiling on Multi-core Servers*, section IV, as benchmark files. The
//! paper's own figures stand beside ours where its text gives them; its plots are not read off.

/// Name and text of each, in the order of the paper.
pub const SWEEPS: &[(&str, &str)] = &[
    ("packet-size", include_str!("../sweeps/zheng/packet-size.yaml")),
    ("state", include_str!("../sweeps/zheng/state.yaml")),
    ("state-10m", include_str!("../sweeps/zheng/state-10m.yaml")),
    ("locality", include_str!("../sweeps/zheng/locality.yaml")),
    ("scaling", include_str!("../sweeps/zheng/scaling.yaml")),
];

/// The paper's figures by the benchmark that has them.
pub const FIGURES: &[(&str, &str)] =
    &[("fig3", "packet-size"), ("fig4", "state"), ("fig4", "state-10m"), ("fig6", "locality"), ("fig7", "scaling")];
