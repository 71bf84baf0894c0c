//! Replicas of a monitor that count in one table: exact, however flows of a host are dealt out.

use crate::command::{Dir, chainline, outcome, run};
use crate::ctl::{Desk, assert_nothing_lost};
use crate::isolation::ISOLATIONS;
use serde_json::{Value, json};

/// Rows of the report's table: source, packets, bytes.
fn rows(report: &Value, nf: &str) -> Vec<(String, u64, u64)> {
    let text = report["nfs"][nf]["report"].as_str().unwrap_or_else(|| panic!("no report of {nf}: {report:#}"));
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn what_replicas_count_together_is_what_was_sent() {
    const COUNT: u64 = 120_000;
    let dir = Dir::new();
    for isolation in ISOLATIONS {
        for (state, hosts, replicas) in [("shared-locked", 1, 2), ("shared-lockfree", 1, 2), ("shared-lockfree", 40, 3)]
        {
            let what = format!("{isolation}, {state}, {hosts} hosts, {replicas} replicas");
            let spec = format!(
                "  defaults: {{isolation: {isolation}}}
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 800, hosts: {{count: {hosts}}}, count: {COUNT}}}}}
    out: {{sink: {{}}}}
  nfs:
    fw: {{kind: forward, replicas: {alone}}}
    mon: {{kind: monitor, replicas: {replicas}, state: {state}, args: {{hosts: 100, top: 100}}}}
  chains: [{{name: all, path: [in, fw, mon, out]}}]\n",
                alone = if isolation == "fused" { replicas } else { 1 },
            );
            let report = run(&dir.chain_file("chain.yaml", &spec), &[]);
            assert_nothing_lost(&report);
            let found = rows(&report, "mon/0");
            assert_eq!(found.len(), hosts, "{what}: {report:#}");
            for (host, packets, bytes) in &found {
                let expected = COUNT / hosts as u64;
                assert_eq!((*packets, *bytes), (expected, expected * 60), "{what}: {host}");
            }
            // Both had a part of the one host's flows; the table is shown once.
            for k in 0..replicas {
                let nf = format!("mon/{k}");
                assert!(report["nfs"][&nf]["received"].as_u64() > Some(0), "{what}: {report:#}");
                if k > 0 {
                    let said = report["nfs"][&nf]["report"].as_str().unwrap();
                    assert!(said.contains("shared with the other replicas"), "{what}: {said}");
                }
            }
        }
    }
}

#[test]
fn hosts_without_room_are_told() {
    let dir = Dir::new();
    for state in ["shared-locked", "shared-lockfree"] {
        let spec = format!(
            "  ports: {{in: {{generator: {{frame_bytes: 64, flows: 1000, hosts: {{count: 1000}}, count: 20000}}}}, out: {{sink: {{}}}}}}
  nfs: {{mon: {{kind: monitor, replicas: 2, state: {state}, args: {{hosts: 100, top: 100}}}}}}
  chains: [{{name: all, path: [in, mon, out]}}]\n"
        );
        let report = run(&dir.chain_file("chain.yaml", &spec), &[]);
        assert_nothing_lost(&report);
        let known: u64 = rows(&report, "mon/0").iter().map(|r| r.1).sum();
        // A replica more may find room at the very end.
        let text = report["nfs"]["mon/0"]["report"].as_str().unwrap();
        let hosts: u64 = text.split_whitespace().next().unwrap().parse().unwrap();
        assert!((100..=101).contains(&hosts) && (2000..=2020).contains(&known), "{state}: {report:#}");
    }
}

#[test]
fn a_shared_table_forgets_nobody() {
    let dir = Dir::new();
    let spec = "  ports: {in: {generator: {count: 10}}, out: {sink: {}}}
  nfs: {mon: {kind: monitor, replicas: 2, state: shared-locked, args: {idle_timeout_s: 60}}}
  chains: [{name: all, path: [in, mon, out]}]\n";
    let file = dir.chain_file("chain.yaml", spec);
    for verb in [&["validate"][..], &["run", "--quiet"]] {
        let refused = outcome(chainline().args(verb).arg(&file));
        refused.assert_no_crash("a time-out");
        assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
        let words = "nfs.mon.args.idle_timeout_s: found 60 with `state: shared-locked`, expected 0";
        assert!(refused.stderr.contains(words) && refused.stderr.contains("chain.yaml:6:"), "{}", refused.stderr);
    }
}

/// Another number of replicas, or another way of sharing, begins a table of its own.
#[test]
fn tables_come_and_go_under_load() {
    let desk = Desk::new();
    let spec = |replicas: usize, state: &str| {
        format!(
            "  ports: {{in: {{generator: {{rate: 50kpps, lossless: true, flows: 64}}}}, out: {{sink: {{}}}}}}
  nfs: {{mon: {{kind: monitor, replicas: {replicas}, state: {state}, args: {{top: 100}}}}}}
  chains: [{{name: web, path: [in, mon, out]}}]\n"
        )
    };
    let mut run = desk.start(&desk.0.chain_file("chain.yaml", &spec(2, "shared-locked")));
    for (replicas, state) in [(3, "shared-locked"), (3, "shared-lockfree"), (2, "private"), (2, "shared-locked")] {
        let other = desk.0.chain_file("other.yaml", &spec(replicas, state));
        let changed = desk.json(&format!("apply {}", other.display()));
        let started: Vec<String> = (0..replicas).map(|k| format!("mon/{k}")).collect();
        assert_eq!((&changed["started"], &changed["reconfigured"]), (&json!(started), &json!(0)), "{changed}");
        let then = desk.received("web");
        run.until("packets", || (desk.received("web") > then + 1000).then_some(()));
    }
    let report = run.finish();
    assert_nothing_lost(&report);
    let counted: u64 = rows(&report, "mon/0").iter().map(|r| r.1).sum();
    let all = report["ledger"]["received"].as_u64().unwrap();
    assert!((1000..all).contains(&counted), "{counted} of {all} since the last change");
}
