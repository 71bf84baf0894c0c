//! Each mechanism alone, under overload: what a stock platform wastes, and that nothing is wasted with credit.

use crate::command::{Dir, chainline, outcome, sum};
use serde_json::Value;

/// A quick NF before one that takes 10 µs, on one core, offered twenty times of what that one can do.
fn spec(mechanisms: &str) -> String {
    format!(
        "  defaults: {{queue: 64, manager_core: 0, cores: [1]{mechanisms}}}
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 100, count: 200000, rate: 2Mpps, lossless: false}}}}
    out: {{sink: {{}}}}
  nfs:
    quick: {{kind: forward}}
    slow: {{kind: synthetic, args: {{cost_cycles: 26000, tsc_hz: 2600000000, iteration_cycles: 5}}}}
  chains: [{{name: all, path: [in, quick, slow, out]}}]\n"
    )
}

fn run(spec: &str, args: &[&str]) -> Value {
    let dir = Dir::new();
    let ended = outcome(chainline().args(["run", "--quiet", "-o", "json"]).args(args).arg(dir.chain_file("c", spec)));
    assert_eq!(ended.status.code(), Some(0), "{}\n{}", ended.stderr, ended.stdout);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn judge(report: &Value, mechanisms: &str) {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    assert_eq!(report["control"]["mechanisms"], mechanisms);
    assert_eq!(report["ledger"]["balanced"], true, "{report:#}");
    assert_eq!((number("/ledger/received"), number("/ledger/held")), (200_000, 0), "{report:#}");
    assert!(number("/chains/all/transmitted") > 0 && number("/chains/all/shed") > 0, "{report:#}");
    let wasted = number("/chains/all/wasted");
    for nf in ["quick", "slow"] {
        let of = |what| number(&format!("/nfs/{nf}/{what}"));
        assert_eq!(of("wasted"), of("dropped/queue_full"), "{report:#}");
        assert_eq!(of("received"), of("transmitted") + of("wasted"), "{report:#}");
    }
    assert_eq!(number("/nfs/quick/wasted") + number("/nfs/slow/wasted"), wasted, "{report:#}");
    // What one NF lets go the next one gets.
    assert_eq!(number("/nfs/quick/transmitted"), number("/nfs/slow/received"), "{report:#}");
    assert_eq!(sum(&report["chains"]["all"]["dropped"]), number("/chains/all/shed") + wasted, "{report:#}");
    let stock = matches!(mechanisms, "default" | "weights");
    assert_eq!(wasted > 0, stock, "{mechanisms}: {report:#}");
    let weighted = matches!(mechanisms, "weights" | "all");
    assert!(weighted || report["control"]["weights"] == "none", "{report:#}");
}

#[test]
fn each_mechanism_alone() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: a manager and two NFs want two cores");
        return;
    }
    judge(&run(&spec(""), &[]), "all");
    // The command line has the last word.
    for mechanisms in ["default", "weights", "backpressure", "all"] {
        judge(&run(&spec(", mechanisms: default"), &["--mechanisms", mechanisms]), mechanisms);
    }
    judge(&run(&spec(", mechanisms: weights"), &[]), "weights");
}

#[test]
fn others_are_refused() {
    let dir = Dir::new();
    let file = dir.chain_file("c", &spec(""));
    let refused = outcome(chainline().args(["run", "--mechanisms", "none"]).arg(file));
    refused.assert_refused(2, "--mechanisms none");
    assert!(refused.stderr.contains("found \"none\", expected one of default, weights"), "{}", refused.stderr);
}
