//! `chainline bench`, as a user runs it.

use crate::command::{Dir, chainline, outcome, repository};
use serde_json::Value;

/// Whether this program can be steered, which all that measures needs.
fn steered() -> bool {
    let steered = outcome(chainline().args(["run", "--help"])).stdout.contains("--steer");
    if !steered {
        eprintln!("skipped: this program has no `run --steer`");
    }
    steered
}

fn sweep(dir: &Dir, spec: &str) -> std::path::PathBuf {
    let head = "apiVersion: chainline/v1alpha1\nkind: Benchmark\nmetadata: {name: e2e}\nspec:\n";
    dir.write("sweep.yaml", format!("{head}{spec}"))
}

#[test]
fn the_schema_of_benchmark_files_is_the_committed_one() {
    let path = repository().join("docs/reference/benchmark.schema.json");
    let found = outcome(chainline().args(["schema", "--benchmark"]));
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
fn the_manifest_is_json_for_machines() {
    let found = outcome(chainline().args(["bench", "host", "-o", "json"]));
    let manifest: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(manifest["program_sha256"].as_str().map(str::len), Some(64));
    assert!(manifest["kernel"].is_string() && manifest.get("mitigations").is_some());
}

#[test]
fn a_wrong_benchmark_file_is_told_by_line_and_column() {
    let dir = Dir::new();
    let file = sweep(&dir, "  base: {nfs: [forward]}\n  factors: {frame_size: [64]}\n  measures: [ndr]\n");
    let found = outcome(chainline().args(["bench", "run"]).arg(&file));
    assert_eq!(found.status.code(), Some(2));
    assert!(found.stderr.contains("sweep.yaml:6:13"), "{}", found.stderr);
    assert!(found.stderr.contains("unknown factor \"frame_size\""), "{}", found.stderr);
    // A field that chain files do not have is found before anything is started.
    let file = sweep(&dir, "  base: {nfs: [forward]}\n  factors: {spec.defaults.bach: [1]}\n  measures: [ndr]\n");
    let found = outcome(chainline().args(["bench", "run"]).arg(&file));
    assert_eq!(found.status.code(), Some(2));
    assert!(found.stderr.contains("did you mean `batch`?"), "{}", found.stderr);
}

#[test]
fn combinations_are_listed_with_what_the_host_cannot_do() {
    let dir = Dir::new();
    let file = sweep(
        &dir,
        "  base: {nfs: [forward, monitor]}\n  factors: {frame_bytes: [64, 1518], placement: [same-core, other-core]}\n  \
         measures: [mrr]\n",
    );
    let found = outcome(chainline().args(["bench", "run", "--list", "--cores", "0"]).arg(&file));
    assert_eq!(found.status.code(), Some(0), "{}", found.stderr);
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert_eq!((lines.len(), lines[0]), (4, "64 bytes, same-core"));
    assert!(
        lines[3].contains("needs 3 cores, the manager's and one for each instance; this host has 1"),
        "{}",
        found.stdout
    );
}

#[test]
fn the_papers_experiments_can_be_printed_and_listed() {
    let dir = Dir::new();
    let found = outcome(chainline().args(["bench", "niu", "--only", "chain", "--print"]));
    let file = dir.write("chain.yaml", &found.stdout);
    let found = outcome(chainline().args(["bench", "run", "--quick", "--list"]).arg(&file));
    assert_eq!((found.status.code(), found.stdout.lines().count()), (Some(0), 6), "{}{}", found.stdout, found.stderr);
}

#[test]
fn scaling_out_is_listed_with_the_cores_that_it_takes() {
    let dir = Dir::new();
    let found = outcome(chainline().args(["bench", "zheng", "fig7", "--list", "--quick", "--cores", "0-1"]));
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert_eq!((found.status.code(), lines[0]), (Some(0), "scaling: Zheng Fig. 7: scaling out"), "{}", found.stderr);
    let of = |name: &str| *lines.iter().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{}", found.stdout));
    assert_eq!(
        of("NM by host, private, uniform, replicas 1, other"),
        "NM by host, private, uniform, replicas 1, other-core"
    );
    assert!(of("NM by flow, shared-locked, uniform, replicas 4, other").contains("not on this host: needs 5 cores"));
    assert_eq!(of("L4LB by flow, replicas 4, same"), "L4LB by flow, replicas 4, same-core");
    let printed = outcome(chainline().args(["bench", "zheng", "packet-size", "--print"]));
    let file = dir.write("fig3.yaml", &printed.stdout);
    let found = outcome(chainline().args(["bench", "run", "--quick", "--list"]).arg(&file));
    assert_eq!((found.status.code(), found.stdout.lines().count()), (Some(0), 6), "{}{}", found.stdout, found.stderr);
}

#[test]
fn a_sweep_is_measured_resumed_and_kept() {
    if !steered() {
        return;
    }
    let dir = Dir::new();
    let file = sweep(
        &dir,
        "  base: {generator: {flows: 10}, nfs: [forward]}\n  factors: {frame_bytes: [64, 1518]}\n  measures: [mrr, ndr]\n  \
         trial_ms: 50\n  warmup_ms: 10\n  drain_ms: 50\n  trials: 2\n",
    );
    let out = dir.path("out");
    let cache = dir.path("cache");
    let run = |more: &[&str]| {
        let mut command = chainline();
        command.args(["bench", "run", "--quick", "--allow-disturbed"]).arg(&file).args(more);
        outcome(command.env("XDG_CACHE_HOME", &cache))
    };
    let out_text = out.to_str().unwrap();
    let first = run(&["--dir", out_text]);
    assert_eq!(first.status.code(), Some(0), "{}{}", first.stdout, first.stderr);
    let results: Value = serde_json::from_slice(&std::fs::read(out.join("results.json")).unwrap()).unwrap();
    assert_eq!(results["complete"], true);
    for trial in results["trials"].as_array().unwrap() {
        assert_eq!(trial["outcome"]["balanced"], true, "{trial:#}");
        let count = |field: &str| trial["outcome"][field].as_u64().unwrap();
        assert_eq!(count("sent"), count("received") + count("lost"));
    }
    for name in ["report.html", "trials.csv", "figures.csv", "journal.jsonl"] {
        assert!(out.join(name).is_file(), "{name}");
    }
    let again = run(&["--dir", out_text]);
    assert_eq!(again.status.code(), Some(2));
    assert!(again.stderr.contains("--resume"), "{}", again.stderr);

    // The journal has it all, and so has the cache: nothing is measured again.
    let trials = results["trials"].as_array().unwrap().len();
    let same = |dir: &std::path::Path| {
        let results: Value = serde_json::from_slice(&std::fs::read(dir.join("results.json")).unwrap()).unwrap();
        assert_eq!(results["trials"].as_array().unwrap().len(), trials);
        assert!(results["remarks"].to_string().contains("made before"), "{}", results["remarks"]);
    };
    assert_eq!(run(&["--resume", out_text]).status.code(), Some(0));
    same(&out);
    let cached = dir.path("cached");
    assert_eq!(run(&["--dir", cached.to_str().unwrap()]).status.code(), Some(0));
    same(&cached);
}

/// Two builds round by round in one run, and what `diff` makes of them.
#[test]
fn another_build_is_measured_in_turn() {
    if !steered() {
        return;
    }
    let dir = Dir::new();
    let (other, out) = (dir.path("other"), dir.path("out"));
    std::fs::copy(chainline().get_program(), &other).unwrap();
    let file = sweep(
        &dir,
        "  base: {generator: {flows: 10}, nfs: [forward]}\n  measures: [mrr]\n  trials: 1\n  trial_ms: 50\n  rounds: 3\n",
    );
    let mut command = chainline();
    command.args(["bench", "run", "--allow-disturbed", "--beside"]).arg(&other).arg(&file).arg("--dir").arg(&out);
    let found = outcome(command.env("XDG_CACHE_HOME", dir.path("cache")));
    assert_eq!(found.status.code(), Some(0), "{}{}", found.stdout, found.stderr);
    assert!(found.stderr.contains("--between"), "{}", found.stderr);
    let results = results(&out);
    let series = results["sections"].as_array().unwrap().iter().find(|s| s["id"] == "mrr").unwrap()["series"].clone();
    let names: Vec<_> = series.as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    let other = other.to_str().unwrap();
    assert_eq!(names, [other, "chainline"]);
    // In turn: a round has both before the next begins.
    let trials = results["trials"].as_array().unwrap();
    let mut turns: Vec<_> =
        trials.iter().map(|t| (t["round"].as_u64().unwrap(), t["dataplane"] == "chainline")).collect();
    turns.dedup();
    assert_eq!(turns, [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true)]);
    let mut diff = chainline();
    diff.args(["bench", "diff"]).arg(&out).args(["--between", other, "chainline", "--all", "-o", "json"]);
    let found = outcome(&mut diff);
    assert_eq!(found.status.code(), Some(0), "{}{}", found.stdout, found.stderr);
    let compared: Value = serde_json::from_str(&found.stdout).unwrap();
    let points = compared["points"].as_array().unwrap();
    assert!(points.iter().any(|p| p["section"].to_string().contains("mrr")), "{compared:#}");

    let mut missing = chainline();
    missing.args(["bench", "run", "--beside", "/nowhere/chainline"]).arg(&file).arg("--dir").arg(dir.path("none"));
    let found = outcome(missing.env("XDG_CACHE_HOME", dir.path("cache")));
    assert_eq!(found.status.code(), Some(2), "{}", found.stderr);
    assert!(found.stderr.contains("cannot read /nowhere/chainline"), "{}", found.stderr);
}

#[test]
fn mechanisms_stand_beside_the_stock_platform() {
    let dir = Dir::new();
    let listed = outcome(chainline().args(["bench", "nfvnice", "table3", "fig13", "--quick", "--list"]));
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!((listed.status.code(), lines.len()), (Some(0), 5), "{}{}", listed.stdout, listed.stderr);
    assert!(lines[0].starts_with("fig7: ") && lines[4].starts_with("fig13: "), "{}", listed.stdout);
    if !steered() {
        return;
    }
    let mut command = chainline();
    command.args(["bench", "nfvnice", "fig7", "--quick", "--allow-disturbed", "-o", "json", "--dir"]);
    let found = outcome(command.arg(dir.path("out")).env("XDG_CACHE_HOME", dir.path("cache")));
    assert_eq!(found.status.code(), Some(0), "{}{}", found.stdout, found.stderr);
    let summary: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!((&summary["format"], &summary["complete"]), (&"chainline.nfvnice/v1".into(), &true.into()));
    let cases = summary["scenarios"][0]["cases"].as_array().unwrap();
    let roles: Vec<_> = cases.iter().map(|c| c["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["ideal", "rival", "ours"], "{summary:#}");
    let wasted = |figures: &Value| figures["wasted"]["median"].as_f64().unwrap();
    assert!(wasted(&cases[1]) > 0.0, "a stock platform wastes work under overload: {summary:#}");
    assert_eq!((wasted(&cases[0]), wasted(&cases[2])), (0.0, 0.0), "{summary:#}");
    assert_eq!(cases[2]["rival"]["wasted"], cases[1]["wasted"]);
    for field in ["throughput_pps", "ratio_to_fused", "p99_us"] {
        assert!(cases[2][field]["median"].as_f64().unwrap() > 0.0, "{field}: {summary:#}");
    }
}

#[test]
fn bench_quick_measures_the_quickstart() {
    if !steered() {
        return;
    }
    let dir = Dir::new();
    let out = dir.path("out");
    let mut command = chainline();
    command.args(["bench", "quick", "--quick", "--allow-disturbed", "--dir"]).arg(&out);
    let found = outcome(&mut command);
    assert!(matches!(found.status.code(), Some(0 | 1)), "{}{}", found.stdout, found.stderr);
    assert!(found.stderr.contains("report.html"), "{}", found.stderr);
    let results: Value = serde_json::from_slice(&std::fs::read(out.join("results.json")).unwrap()).unwrap();
    assert_eq!(results["complete"], true);
    let sections: Vec<&str> = results["sections"].as_array().unwrap().iter().filter_map(|s| s["id"].as_str()).collect();
    assert_eq!(sections, ["generator", "ndr", "pdr", "latency"]);
}

fn results(dir: &std::path::Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("results.json")).unwrap()).unwrap()
}

/// The procedures of standards, on a real chain: not how much, but that each comes to a number.
#[test]
fn bursts_resets_and_loss_verification_are_measured() {
    if !steered() {
        return;
    }
    let dir = Dir::new();
    let file = sweep(
        &dir,
        "  base: {generator: {flows: 10}, nfs: [{kind: synthetic, args: {cost_cycles: 20000}}]}\n  measures: \
         [tst009, back-to-back, reset]\n  drain_ms: 100\n  attempts: 20\n  trials: 1\n",
    );
    let out = dir.path("out");
    let mut command = chainline();
    command.args(["bench", "run", "--quick", "--fresh", "--allow-disturbed"]).arg(&file).arg("--dir").arg(&out);
    let found = outcome(&mut command);
    found.assert_no_crash("bench run");
    let results = results(&out);
    let sections = results["sections"].as_array().unwrap();
    let ids: Vec<&str> = sections.iter().filter_map(|s| s["id"].as_str()).collect();
    assert_eq!(ids, ["generator", "tst009", "back-to-back", "buffer", "reset", "reset-by-time"]);
    for section in &sections[1..] {
        let sample = section.pointer("/series/0/points/0/samples/0").and_then(Value::as_f64);
        // On a host where others work a search may find no load without loss; that is said then.
        let said = section["unavailable"].as_array().is_some_and(|u| !u.is_empty());
        assert!(sample.is_some_and(|v| v >= 0.0) || said, "{section:#}");
    }
    let resets: Vec<&Value> =
        results["trials"].as_array().unwrap().iter().filter(|t| t["purpose"] == "reset").collect();
    for trial in &resets {
        let happenings = trial["outcome"]["happenings"].to_string();
        assert!(happenings.contains("reset as ordered"), "{happenings}");
        assert_eq!(trial["outcome"]["balanced"], true);
        assert!(trial["outcome"]["longest_gap_ns"].as_u64().unwrap() > 0);
    }
    let drops = |t: &&&Value| t["outcome"]["lost"].as_u64().unwrap() > 0;
    assert!(resets.iter().filter(drops).count() == resets.len(), "a reset that loses nothing is none");
}

/// Our own chain between real ports: a tester beside it, and the port alone.
#[test]
fn real_ports_lie_between_generator_and_chain() {
    let two = std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2);
    if !steered() || !two || !rustix::process::geteuid().is_root() {
        println!("skipped: a lab takes root and two cores");
        return;
    }
    let dir = Dir::new();
    let file = sweep(
        &dir,
        "  base: {generator: {flows: 10}, nfs: [forward]}\n  factors: {port: [af_packet, memif]}\n  measures: [mrr, \
         cpu]\n  trial_ms: 50\n  warmup_ms: 10\n  drain_ms: 50\n  trials: 1\n",
    );
    let out = dir.path("out");
    let mut command = chainline();
    command.args(["bench", "run", "--quick", "--fresh", "--allow-disturbed", "--cores", "0,1"]);
    let found = outcome(command.arg(&file).arg("--dir").arg(&out));
    found.assert_no_crash("bench run");
    let results = results(&out);
    for (dataplane, port) in
        [("port alone", "af_packet"), ("chainline", "af_packet"), ("port alone", "memif"), ("chainline", "memif")]
    {
        let of = |t: &&Value| t["dataplane"] == dataplane && t["factors"]["port"] == port;
        let trials: Vec<&Value> = results["trials"].as_array().unwrap().iter().filter(of).collect();
        let received: u64 = trials.iter().filter_map(|t| t["outcome"]["received"].as_u64()).sum();
        assert!(received > 0, "{dataplane} over {port}: {}{}", found.stdout, found.stderr);
    }
    assert_eq!(chainline_bench::rivals::lab::sweep(), 0, "a lab stays");
}

/// A disk that is full in the middle: a word, what fitted is kept, and with room again it goes on.
#[test]
fn a_full_disk_ends_a_benchmark_that_goes_on_when_there_is_room() {
    if !steered() {
        return;
    }
    let dir = Dir::new();
    let file = sweep(
        &dir,
        "  base: {generator: {flows: 10}, nfs: [forward]}\n  factors: {frame_bytes: [64, 128, 256]}\n  measures: \
         [mrr]\n  trial_ms: 20\n  warmup_ms: 0\n  drain_ms: 20\n  trials: 10\n  attempts: 1\n",
    );
    let disk = dir.path("disk");
    std::fs::create_dir(&disk).unwrap();
    // A file system of its own, which only this shell and what it starts see.
    let script = "mount -t tmpfs -o size=40k tmpfs \"$1\" || exit 77
        \"$2\" bench run --quick --fresh --allow-disturbed \"$3\" --dir \"$1/out\"; echo \"first $?\"
        mount -o remount,size=32m \"$1\" || exit 77
        \"$2\" bench run --quick --fresh --allow-disturbed \"$3\" --resume \"$1/out\"; echo \"second $?\"
        cp \"$1/out/results.json\" \"$4\"";
    let program = env!("CARGO_BIN_EXE_chainline");
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&disk).arg(program).arg(&file).arg(dir.path(""));
    let found = outcome(&mut command);
    if found.status.code() == Some(77) || found.stderr.contains("unshare failed") {
        println!("skipped: no file system can be mounted here: {}", found.stderr);
        return;
    }
    found.assert_no_crash("a full disk");
    assert!(found.stdout.contains("first 1"), "{}{}", found.stdout, found.stderr);
    assert!(found.stderr.contains("No space left on device"), "{}", found.stderr);
    assert!(found.stderr.contains("go on with:"), "{}", found.stderr);
    assert!(found.stdout.contains("second 0"), "{}{}", found.stdout, found.stderr);
    let results = results(&dir.path(""));
    assert_eq!(results["complete"], true);
    // `--quick` makes three trials of each.
    assert_eq!(results["trials"].as_array().unwrap().iter().filter(|t| t["purpose"] == "mrr").count(), 9);
}
