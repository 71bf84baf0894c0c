//! Chains, paths and NFs come and go while packets flow: nothing is lost that was not announced as lost.

use crate::command::{Running, sum};
use crate::ctl::{Desk, SPEC, assert_nothing_lost};
use serde_json::{Value, json};

fn words(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect()
}

fn until_flows(desk: &Desk, run: &mut Running, chain: &str) {
    let then = desk.received(chain);
    run.until(&format!("packets of {chain}"), || (desk.received(chain) > then + 1000).then_some(()));
}

#[test]
fn a_chain_is_added_and_removed_under_load_again_and_again() {
    let desk = Desk::new();
    let mut run = desk.start(&desk.0.chain_file("chain.yaml", SPEC));
    let more = desk.0.write(
        "more.yaml",
        "nfs: {c: {kind: monitor}, d: {kind: forward}}\nchains: [{name: extra, match: {dst_port: 3-6}, path: [in, c, d, out]}]\n",
    );
    for round in 0..4 {
        let added = desk.json(&format!("add {} --before web", more.display()));
        assert_eq!(words(&added["changed"]), ["chain extra: added"], "{round}");
        assert_eq!(
            (words(&added["started"]), &added["ended"]),
            (vec!["c", "d"], &Value::Null),
            "others are left alone"
        );
        until_flows(&desk, &mut run, "extra");
        let chains: Vec<Value> =
            desk.json("list")["chains"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
        assert_eq!(chains, ["extra", "web", "rest"]);
        let removed = desk.json("remove extra c d");
        assert_eq!(
            (words(&removed["changed"]), words(&removed["ended"])),
            (vec!["chain extra: removed"], vec!["c", "d"])
        );
        assert_eq!((&added["reconfigured"], &removed["reconfigured"]), (&json!(0), &json!(0)));
        until_flows(&desk, &mut run, "web");
    }
    let report = run.finish();
    assert_nothing_lost(&report);
    // The accounts of all four are one.
    let extra = &report["chains"]["extra"];
    assert!(extra["received"].as_u64() > Some(4000) && extra["received"] == extra["transmitted"], "{report:#}");
    assert_eq!(report["nfs"]["c"]["received"], extra["received"], "{report:#}");
    assert_eq!(report["nfs"]["d"]["transmitted"], extra["transmitted"], "{report:#}");
}

#[test]
fn paths_change_under_load_with_the_nfs_that_chains_share() {
    let desk = Desk::new();
    let mut run = desk.start(&desk.0.chain_file("chain.yaml", SPEC));
    let longer = desk.json("set-path web in,a,b,out");
    assert_eq!(words(&longer["started"]), ["a", "b"]);
    assert_eq!(words(&longer["ended"]), ["a", "b"]);
    assert!(longer["changed"].to_string().contains("chain web: in → a → b → out"), "{longer}");
    until_flows(&desk, &mut run, "web");
    until_flows(&desk, &mut run, "rest");
    // Priorities of what was started meanwhile can be changed like any other.
    assert_eq!(desk.json("set-priority b 5")["changed"], json!(["b: priority 5"]));
    let shorter = desk.json("set-path web in,out");
    assert_eq!(words(&shorter["ended"]), ["a", "b"]);
    until_flows(&desk, &mut run, "web");
    let list = desk.json("list");
    assert_eq!(list["instances"].as_array().unwrap().len(), 1, "{list:#}");
    assert_eq!(list["instances"][0]["sched"]["priority"], 5);
    let back = desk.json("reload");
    assert!(!words(&back["started"]).is_empty(), "{back}");
    until_flows(&desk, &mut run, "web");
    let report = run.finish();
    assert_nothing_lost(&report);
    let of = |what: &str, name: &str| report[what][name]["received"].as_u64().unwrap();
    assert!(of("nfs", "b") > of("chains", "rest"), "{report:#}");
}

/// What cannot be started changes nothing, and leaves nothing behind.
#[test]
fn what_cannot_be_started_is_taken_back() {
    let desk = Desk::new();
    let mut run = desk.start(&desk.0.chain_file("chain.yaml", SPEC));
    let before = desk.json("list");
    let bad = "nfs: {c: {kind: forward}, x: {kind: ./missing.so}}\nchains: [{name: bad, match: {dst_port: 1}, path: [in, c, x, out]}]\n";
    for _ in 0..2 {
        let found = desk.ctl(&format!("add {} --before web", desk.0.write("bad.yaml", bad).display()));
        found.assert_no_crash("missing.so");
        assert_eq!(found.status.code(), Some(1), "{}", found.stderr);
        assert!(
            found.stderr.contains("missing.so") && found.stderr.contains("nothing was changed"),
            "{}",
            found.stderr
        );
    }
    let after = desk.json("list");
    for what in ["chains", "nfs", "instances"] {
        assert_eq!(before[what], after[what]);
    }
    until_flows(&desk, &mut run, "web");
    // The name is free.
    let good = bad.replace("./missing.so", "forward");
    desk.json(&format!("add {} --before web", desk.0.write("good.yaml", good).display()));
    until_flows(&desk, &mut run, "bad");
    let report = run.finish();
    assert_nothing_lost(&report);
}

/// A source that does not wait: what comes while entries are closed is counted apart, and announced.
#[test]
fn what_cannot_wait_is_announced() {
    let desk = Desk::new();
    let spec = SPEC.replace("rate: 50kpps, lossless: true,", "rate: 200kpps, lossless: false,");
    let mut run = desk.start(&desk.0.chain_file("chain.yaml", &spec));
    let mut announced = 0;
    for path in ["in,a,b,out", "in,b,out", "in,a,out"] {
        announced += desk.json(&format!("set-path web {path}"))["reconfigured"].as_u64().unwrap();
        until_flows(&desk, &mut run, "web");
    }
    let report = run.finish();
    let dropped = &report["ledger"]["dropped"];
    assert_eq!(dropped["reconfigured"].as_u64().unwrap_or(0), announced, "{report:#}");
    let shed: u64 = report["chains"].as_object().unwrap().values().map(|c| c["shed"].as_u64().unwrap()).sum();
    assert_eq!(sum(dropped), shed + announced, "{report:#}");
    assert_eq!(report["ledger"]["held"], 0);
}

/// Each mechanism comes and goes, with the sources waiting.
#[test]
fn mechanisms_change_under_load() {
    let desk = Desk::new();
    let mut run = desk.start(&desk.0.chain_file("chain.yaml", SPEC));
    let started = |word: &str| {
        let done = desk.json(&format!("set-mechanisms {word}"));
        assert_eq!(words(&done["changed"])[0], format!("mechanisms: {word}"), "{done}");
        done["started"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(started("backpressure"), 0, "weights come and go by themselves");
    until_flows(&desk, &mut run, "web");
    assert_eq!(started("all"), 0);
    assert_eq!(started("default"), 2);
    until_flows(&desk, &mut run, "web");
    until_flows(&desk, &mut run, "rest");
    assert_eq!(desk.json("file")["spec"]["defaults"]["mechanisms"], "default");
    assert_eq!(started("backpressure"), 2);
    until_flows(&desk, &mut run, "web");
    assert_eq!(desk.json("set-watermarks --high 0.9 --low 0.5")["changed"], json!(["backpressure"]));
    assert_eq!(desk.json("file")["spec"]["defaults"]["backpressure"]["low"], 0.5);
    assert_eq!(desk.ctl("set-watermarks --low 0.95").status.code(), Some(2), "low above high");
    until_flows(&desk, &mut run, "web");
    desk.ctl("set-mechanisms most").assert_no_crash("most");
    let report = run.finish();
    assert_eq!(report["control"]["mechanisms"], "backpressure");
    assert_eq!(report["ledger"]["dropped"].get("reconfigured"), None, "{report:#}");
    assert_eq!(
        report["ledger"]["received"].as_u64().unwrap(),
        report["ledger"]["transmitted"].as_u64().unwrap() + sum(&report["ledger"]["dropped"])
    );
}

/// A whole other file: ports, NFs, chains and their order.
#[test]
fn another_file_is_applied_as_a_whole() {
    let desk = Desk::new();
    let mut run = desk.start(&desk.0.chain_file("chain.yaml", SPEC));
    let other = "  ports:
    in: {generator: {rate: 50kpps, lossless: true, dst_port: 1-8, flows: 64}}
    in2: {generator: {rate: 20kpps, lossless: true, flows: 8}}
    out: {sink: {}}
    out2: {sink: {}}
  nfs: {a: {kind: forward, divert: [second]}, e: {kind: monitor}, f: {kind: forward}}
  chains:
    - {name: second, match: {dst_port: 5-8}, path: [in, f, out]}
    - {name: web, path: [in, a, out]}
    - {name: new, path: [in2, e, out2]}\n";
    let file = desk.0.chain_file("other.yaml", other);
    let done = desk.json(&format!("apply {}", file.display()));
    assert_eq!(words(&done["started"]), ["a", "e", "f"]);
    for chain in ["second", "web", "new"] {
        until_flows(&desk, &mut run, chain);
    }
    assert_eq!(desk.json(&format!("apply {}", file.display()))["changed"], json!([]), "nothing differs");
    // Ports in use do not change.
    let faster = desk.0.chain_file("faster.yaml", &other.replace("20kpps", "30kpps"));
    let found = desk.ctl(&format!("apply {}", faster.display()));
    assert_eq!(found.status.code(), Some(1), "{}", found.stderr);
    assert!(found.stderr.contains("port in2"), "{}", found.stderr);
    let report = run.finish();
    assert_nothing_lost(&report);
    assert!(report["chains"]["rest"]["received"].as_u64() > Some(0), "{report:#}");
}
