//! Reserved cores: what a killed manager has moved is found by `doctor` and put back by the next run, whatever that runs.

use crate::command::{Dir, outcome};
use serde_json::Value;
use std::process::Command;

/// In a namespace of processes of its own, with a `/run` of its own: no program of this host is moved.
const SCRIPT: &str = r#"
mount -t tmpfs tmpfs /run
unset XDG_RUNTIME_DIR
sleep 600 & sleeper=$!
allowed() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$sleeper/status; }
echo "at first: $(allowed)"
"$CHAINLINE" run reserving.yaml > out 2> err & run=$!
until grep -q 'Ctrl-C ends' err; do kill -0 $run || { cat err; exit 3; }; sleep 0.05; done
echo "while it runs: $(allowed)"
kill -KILL $run; wait $run || true
echo "when it was killed: $(allowed)"
while grep -qs nf-host /proc/[0-9]*/cmdline; do sleep 0.05; done
"$CHAINLINE" doctor --sample-ms 0 -o json > doctor.json || true
echo "files: $(ls /run/chainline | grep -c ^reserved)"
"$CHAINLINE" run -o json plain.yaml > report.json 2> err || { cat err; exit 4; }
echo "after the next run: $(allowed)"
echo "left: $(ls /run/chainline 2> err | wc -l)"
"$CHAINLINE" doctor --sample-ms 0 -o json > after.json || true
"$CHAINLINE" run -q -o json --duration 100ms reserving.yaml > again.json 2> err || { cat err; exit 5; }
echo "after a run that ended: $(allowed)"
echo "left: $(ls /run/chainline 2> err | wc -l)"
kill $sleeper
"#;

fn stale(dir: &Dir, file: &str) -> String {
    let report: Value = serde_json::from_slice(&std::fs::read(dir.path(file)).unwrap()).unwrap();
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|c| c["name"] == "stale_state").unwrap().to_string()
}

#[test]
fn what_a_killed_manager_moved_is_put_back_by_the_next() {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|c| set.is_set(*c)).collect();
    if !rustix::process::geteuid().is_root() || cores.len() < 2 {
        println!("skipped: moving others' threads needs root and two cores");
        return;
    }
    let namespaced = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]).args(words);
        command
    };
    if !outcome(&mut namespaced(&["true"])).status.success() {
        println!("skipped: no namespace of processes can be made here");
        return;
    }
    let dir = Dir::new();
    let ports = "ports: {in: {generator: {rate: 10kpps, lossless: true COUNT}}, out: {sink: {}}}
  nfs: {a: {kind: forward}}
  chains: [{name: all, path: [in, a, out]}]\n";
    let last = cores[cores.len() - 1];
    dir.chain_file(
        "reserving.yaml",
        &format!("  cores: {{{last}: {{reserved: true}}}}\n  {}", ports.replace("COUNT", "")),
    );
    dir.chain_file("plain.yaml", &format!("  {}", ports.replace("COUNT", ", count: 1000")));
    let script = dir.write("script", SCRIPT);
    let mut command = namespaced(&["sh", "-eu"]);
    command.arg(script).current_dir(dir.path("")).env("CHAINLINE", env!("CARGO_BIN_EXE_chainline"));
    let ended = outcome(&mut command);
    let said: Vec<&str> = ended.stdout.lines().filter_map(|l| l.split_once(": ").map(|(_, words)| words)).collect();
    let [first, running, killed, files, next, left, again, none] = said[..] else {
        panic!("{}\n{}", ended.stdout, ended.stderr);
    };
    assert!(first != running && running == killed, "{}", ended.stdout);
    assert_eq!((files, next, left, again, none), ("1", first, "0", first, "0"), "{}", ended.stdout);
    assert!(stale(&dir, "doctor.json").contains("/run/chainline/reserved-"), "{}", stale(&dir, "doctor.json"));
    assert!(!stale(&dir, "after.json").contains("reserved-"), "{}", stale(&dir, "after.json"));
    let report: Value = serde_json::from_slice(&std::fs::read(dir.path("report.json")).unwrap()).unwrap();
    assert!(
        report["happenings"].to_string().contains("threads are back on cores that a manager had reserved"),
        "{report:#}"
    );
    assert_eq!(report["control"]["moved_threads"], 0, "{report:#}");
    let report: Value = serde_json::from_slice(&std::fs::read(dir.path("again.json")).unwrap()).unwrap();
    assert!(report["control"]["moved_threads"].as_u64() > Some(0), "{report:#}");
}
