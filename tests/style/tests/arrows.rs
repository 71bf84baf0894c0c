//! Which crate may know which: arrows point one way.
#![allow(clippy::unwrap_used)]

use chainline_style::{Crate, crates};

/// What each crate under `crates/` may be built with, among ours. Pure crates have no device, no shared memory and no
/// kernel in their rows. A new crate needs a row: write the arrow down before it is used.
const MAY_USE: &[(&str, &[&str])] = &[
    (
        "chainline-bench",
        &["chainline-chain", "chainline-queueing", "chainline-search", "chainline-trial", "chainline-workload"],
    ),
    ("chainline-chain", &["chainline-packet", "chainline-workload"]),
    ("chainline-ctl", &["chainline-chain"]),
    ("chainline-doctor", &[]),
    ("chainline-dpdk", &["chainline-dpdk-sys", "chainline-shm"]),
    ("chainline-dpdk-sys", &[]),
    ("chainline-flowtable", &["chainline-dpdk", "chainline-nf", "chainline-packet"]),
    (
        "chainline-manager",
        &[
            "chainline-chain",
            "chainline-ctl",
            "chainline-dpdk",
            "chainline-nf",
            "chainline-nf-abi",
            "chainline-nf-c",
            "chainline-packet",
            "chainline-runtime",
            "chainline-sched",
            "chainline-shm",
            "chainline-storage",
            "chainline-trial",
            "chainline-workload",
        ],
    ),
    ("chainline-nf", &["chainline-packet"]),
    ("chainline-nf-abi", &[]),
    ("chainline-nf-c", &["chainline-nf", "chainline-nf-abi"]),
    ("chainline-packet", &[]),
    ("chainline-queueing", &[]),
    ("chainline-reload", &["chainline-nf", "chainline-sched"]),
    ("chainline-routes", &["chainline-dpdk", "chainline-nf"]),
    (
        "chainline-runtime",
        &["chainline-nf", "chainline-packet", "chainline-sched", "chainline-shm", "chainline-storage"],
    ),
    ("chainline-search", &["chainline-trial"]),
    ("chainline-sched", &["chainline-shm"]),
    ("chainline-shm", &[]),
    ("chainline-storage", &["chainline-nf"]),
    ("chainline-trial", &[]),
    ("chainline-workload", &["chainline-packet"]),
];

/// What an NF may be built with, among ours. Tables come through the safe DPDK crate, state through the flow tables,
/// route files through the crate of routes, changed files through that of reloads.
const NF_MAY_USE: &[&str] = &[
    "chainline-dpdk",
    "chainline-flowtable",
    "chainline-nf",
    "chainline-packet",
    "chainline-reload",
    "chainline-routes",
];

/// Crates without devices, and what would make them impure if it came from outside.
const PURE: &[&str] = &[
    "chainline-chain",
    "chainline-nf",
    "chainline-nf-abi",
    "chainline-packet",
    "chainline-queueing",
    "chainline-search",
    "chainline-trial",
    "chainline-workload",
];
const IMPURE: &[&str] = &["libc", "rustix", "nix", "libloading", "pcap", "perf-event2", "tokio"];

fn named(all: &[Crate], name: &str) -> Option<Crate> {
    all.iter().find(|c| c.name == name).cloned()
}

#[test]
fn each_crate_uses_only_what_its_row_allows() {
    let mut wrong = Vec::new();
    for c in crates().unwrap() {
        let row: &[&str] = if c.is_in("nfs") {
            NF_MAY_USE
        } else if c.is_in("crates") {
            match MAY_USE.iter().find(|(name, _)| *name == c.name) {
                Some((_, row)) => row,
                None => {
                    wrong.push(format!("{} has no row in MAY_USE", c.name));
                    continue;
                }
            }
        } else {
            continue;
        };
        wrong.extend(c.ours.iter().filter(|d| !row.contains(&d.as_str())).map(|d| format!("{} uses {d}", c.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_programs_and_tests_know_the_manager() {
    let all = crates().unwrap();
    let who: Vec<_> = all
        .iter()
        .filter(|c| c.ours.contains("chainline-manager") && !c.is_in("apps") && !c.is_in("tests"))
        .map(|c| &c.name)
        .collect();
    assert!(named(&all, "chainline-manager").is_some(), "the manager has another name now: this test must know it");
    assert!(who.is_empty(), "{who:?} know the manager");
}

#[test]
fn pure_crates_stay_pure() {
    let all = crates().unwrap();
    for name in PURE {
        let c = named(&all, name).unwrap_or_else(|| panic!("no crate {name}: this test must know its new name"));
        let impure: Vec<_> = IMPURE.iter().filter(|d| c.all.contains(**d)).collect();
        assert!(impure.is_empty(), "{name} uses {impure:?}");
        let row = MAY_USE.iter().find(|(n, _)| n == name).unwrap().1;
        assert!(row.iter().all(|d| PURE.contains(d)), "the row of {name} allows an impure crate");
    }
}

/// A row for a crate that is gone, or an arrow that nobody uses yet, would let anything in later unseen.
#[test]
fn rows_name_crates_that_exist() {
    let all = crates().unwrap();
    let gone: Vec<_> =
        MAY_USE.iter().flat_map(|(name, row)| row.iter().chain([name])).filter(|n| named(&all, n).is_none()).collect();
    assert!(gone.is_empty(), "no such crates: {gone:?}");
}
