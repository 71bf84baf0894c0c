//! The report against its committed schema. `UPDATE=1 cargo test -p chainline --test e2e references` rewrites that.

use crate::command::{Dir, chainline, outcome, repository, run};
use serde_json::{Value, json};

#[test]
fn the_reports_schema_is_the_committed_one() {
    let path = repository().join("docs/reference/report.schema.json");
    let found = outcome(chainline().args(["schema", "--report"]));
    assert_eq!(found.status.code(), Some(0), "{}", found.stderr);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &found.stdout).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == found.stdout,
        "{} is out of date: UPDATE=1 cargo test -p chainline --test e2e",
        path.display()
    );
}

#[test]
fn the_report_has_the_keys_that_scripts_rely_on() {
    let dir = Dir::new();
    let spec = "  ports: {in: {generator: {count: 1000, flows: 10}}, out: {sink: {}}}
  nfs: {fw: {kind: firewall, args: {rules_inline: [deny udp from 198.18.0.0/17 to any], default: allow}}}
  chains: [{name: all, path: [in, fw, out]}]\n";
    let report = run(&dir.chain_file("chain.yaml", spec), &[]);
    let keys = |value: &Value, expected: &[&str], at: &str| {
        let missing: Vec<_> = expected.iter().filter(|k| value.get(**k).is_none_or(Value::is_null)).collect();
        assert!(missing.is_empty(), "{at}: no {missing:?} in {value:#}");
    };
    keys(&report, &["environment", "duration_s", "ledger", "chains", "nfs"], "report");
    keys(&report["ledger"], &["received", "transmitted", "dropped", "held", "balanced"], "ledger");
    let chain = &report["chains"]["all"];
    keys(chain, &["received", "transmitted", "shed", "pps", "latency_ns"], "chain");
    keys(&chain["latency_ns"], &["p50", "p90", "p99", "p99_9", "max"], "latency");
    let nf = &report["nfs"]["fw"];
    let times = ["run_ns", "run_delay_ns", "voluntary_switches", "involuntary_switches"];
    keys(nf, &["received", "transmitted", "dropped", "wasted", "pps", "cpu_share", "cost_ns", "restarts"], "NF");
    keys(nf, &times, "NF");
    keys(&nf["cost_ns"], &["p50"], "cost");
    assert_eq!(report["ledger"]["received"], 1000);
    assert_eq!(json!([nf["received"], nf["dropped"]["denied"]]), json!([1000, report["ledger"]["dropped"]["denied"]]));
    assert!(chain["latency_ns"]["max"].as_u64() > Some(0) && nf["run_ns"].as_u64() > Some(0), "{report:#}");
}
