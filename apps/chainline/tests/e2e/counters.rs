//! NFs' own counters in the report, in each of its forms, and while the run lasts.

use crate::command::{Dir, chainline, outcome, run};
use crate::ctl::Desk;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A third of the packets each: by the first rule, by the second, by none. No packet is a fragment.
const SPEC: &str = "  ports: {in: {generator: {SOURCE, flows: 3, dst_port: 1-3, order: round-robin}}, out: {sink: {}}}
  nfs: {fw: {kind: firewall, ISOLATION args: {rules_inline: [allow udp to any port 1, deny udp to any port 2], default: allow}}}
  chains: [{name: all, path: [in, fw, out]}]\n";

fn spec(source: &str, isolation: &str) -> String {
    SPEC.replace("SOURCE", source).replace("ISOLATION", isolation)
}

#[test]
fn a_firewalls_counters_are_in_the_report() {
    let dir = Dir::new();
    for isolation in ["", "isolation: thread,", "isolation: fused,"] {
        let file = dir.chain_file("chain.yaml", &spec("count: 3000", isolation));
        let report = run(&file, &[]);
        let fw = &report["nfs"]["fw"];
        let expected = json!({
            "rule_1": 1000, "rule_2": 1000, "default": 1000,
            "fragments": 0, "non_ip": 0, "later_rules": 0, "reloads": 0, "reloads_failed": 0,
        });
        assert_eq!((&fw["counters"], &fw["dropped"]), (&expected, &json!({"denied": 1000})), "{isolation} {report:#}");
    }
    // As `describe` names them.
    let described = outcome(chainline().args(["describe", "nf", "firewall", "-o", "json"]));
    let described: Value = serde_json::from_str(&described.stdout).unwrap();
    let declared = described["declared"]["counters"].as_array().unwrap();
    for name in ["rule_1", "default", "fragments", "non_ip", "later_rules"] {
        assert!(declared.iter().any(|c| c["name"] == name), "{name}: {described:#}");
    }
    // For people: those that are not zero.
    let found = outcome(chainline().args(["run", "-q"]).arg(dir.path("chain.yaml")));
    let line = found.stdout.lines().find(|l| l.starts_with("fw") && l.contains("rule_1")).unwrap_or_default();
    assert!(line.contains("default 1 000, rule_1 1 000, rule_2 1 000"), "{}", found.stdout);
    assert!(!found.stdout.contains("fragments"), "{}", found.stdout);
}

/// The counts of an NF that is killed are kept; its next life adds to them.
#[test]
fn counters_go_on_after_a_restart() {
    let desk = Desk::new();
    let mut run = desk.start(&desk.0.chain_file("chain.yaml", &spec("rate: 30kpps", "")));
    let counted = |name: &str| desk.json("stats")["nfs"][0]["counters"][name].as_u64().unwrap();
    run.until("the first rule has hits", || (counted("rule_1") > 1000).then_some(()));
    let before = counted("rule_1");
    let list = desk.json("list");
    let tid = i32::try_from(list["instances"][0]["tid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(tid).unwrap(), Signal::KILL).unwrap();
    run.until("its next life has hits", || (counted("rule_1") > before + 1000).then_some(()));
    let table = desk.ctl("stats").stdout;
    assert!(table.lines().any(|l| l.starts_with("fw") && l.contains("rule_1")), "{table}");
    run.interrupt();
    let ended = run.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let fw = &report["nfs"]["fw"];
    assert_eq!((&fw["restarts"], &report["ledger"]["balanced"]), (&json!(1), &json!(true)), "{report:#}");
    let sum: u64 = ["rule_1", "rule_2", "default"].map(|c| fw["counters"][c].as_u64().unwrap()).iter().sum();
    assert!(fw["counters"]["rule_1"].as_u64().unwrap() > before + 1000, "{report:#}");
    // What it had in its hands as it was killed may be in one count and not in the other: a burst at most.
    assert!(sum.abs_diff(fw["received"].as_u64().unwrap()) <= 256, "{report:#}");
}
