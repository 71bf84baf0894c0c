//! `chainline ctl` against real runs: asked and changed while packets flow, with nothing lost.

use crate::command::{Dir, Outcome, Running, chainline, outcome};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

pub const SPEC: &str =
    "  ports: {in: {generator: {rate: 50kpps, lossless: true, dst_port: 1-8, flows: 64}}, out: {sink: {}}}
  nfs: {a: {kind: forward}, b: {kind: forward}}
  chains:
    - {name: web, match: {dst_port: 1-4}, path: [in, a, out]}
    - {name: rest, path: [in, b, out]}\n";

/// Runs whose sockets lie in a directory of their own.
pub struct Desk(pub Dir);

impl Desk {
    pub fn new() -> Self {
        Self(Dir::new())
    }

    fn at_home(&self, mut command: Command) -> Command {
        command.env("XDG_RUNTIME_DIR", self.0.path(""));
        command
    }

    pub fn start(&self, file: &Path) -> Running {
        let mut command = self.at_home(chainline());
        let mut running = Running::start(command.args(["run", "-o", "json"]).arg(file));
        running.until_running();
        running
    }

    pub fn ctl(&self, line: &str) -> Outcome {
        outcome(self.at_home(chainline()).arg("ctl").args(line.split(' ')))
    }

    /// What a verb says that must succeed.
    pub fn json(&self, line: &str) -> Value {
        let found = self.ctl(&format!("{line} -o json"));
        assert_eq!(found.status.code(), Some(0), "{line}: {}", found.stderr);
        serde_json::from_str(&found.stdout).unwrap_or_else(|e| panic!("{line}: {e}: {}", found.stdout))
    }

    pub fn received(&self, chain: &str) -> u64 {
        let stats = self.json("stats");
        let chains = stats["chains"].as_array().unwrap();
        let found = chains.iter().find(|c| c["name"] == chain).unwrap_or_else(|| panic!("no {chain}: {stats:#}"));
        found["totals"]["received"].as_u64().unwrap()
    }
}

/// All that was received was sent.
pub fn assert_nothing_lost(report: &Value) {
    let ledger = &report["ledger"];
    assert_eq!((&ledger["dropped"], &ledger["held"]), (&json!({}), &json!(0)), "{report:#}");
    assert!(ledger["received"].as_u64() > Some(0) && ledger["received"] == ledger["transmitted"], "{report:#}");
}

#[test]
fn a_run_is_asked_and_changed_while_packets_flow() {
    let desk = Desk::new();
    let mut run = desk.start(&desk.0.chain_file("chain.yaml", SPEC));
    // What there is, in both forms.
    let list = desk.json("list");
    assert_eq!((&list["name"], list["chains"].as_array().unwrap().len()), (&json!("e2e"), 2));
    assert_eq!(
        (&list["chains"][0]["path"], &list["chains"][0]["match"]),
        (&json!(["in", "a", "out"]), &json!({"dst_port": ["1-4"]}))
    );
    assert!(list["instances"].as_array().unwrap().iter().all(|i| i["state"] == "running"), "{list:#}");
    for words in ["list", "stats", "runs", "file", "rules web", "watch --count 2 --interval 10ms"] {
        let found = desk.ctl(words);
        assert!(
            found.status.success() && found.stdout.contains(if words == "rules web" { "dst_port" } else { "e2e" })
                || words.starts_with("stats")
                || words.starts_with("watch"),
            "{words}: {}{}",
            found.stdout,
            found.stderr
        );
    }
    // The file in force is a chain file.
    let file = desk.ctl("file -o yaml");
    let checked = outcome(chainline().arg("validate").arg(desk.0.write("again.yaml", &file.stdout)));
    assert_eq!(checked.status.code(), Some(0), "{}\n{}", checked.stderr, file.stdout);
    // Scheduling: said by the run, and remembered.
    let changed = desk.json("set-priority a 4");
    assert_eq!(changed["changed"], json!(["a: priority 4"]));
    assert_eq!(desk.json("set-priority a 4")["changed"], json!([]), "nothing differs");
    desk.json("set-policy chain:rest batch --nice 3 --priority 2");
    let list = desk.json("list");
    let sched =
        |name: &str| list["instances"].as_array().unwrap().iter().find(|i| i["name"] == name).unwrap()["sched"].clone();
    assert_eq!(
        (&sched("a")["priority"], &sched("b")["priority"], &sched("b")["nice"]),
        (&json!(4), &json!(2), &json!(3))
    );
    // Rules: from the next burst on.
    desk.json("rules web dst_port=9,10-12");
    let web = desk.received("web");
    let rest = desk.received("rest");
    run.until("the other chain has it all", || (desk.received("rest") > rest + 5000).then_some(()));
    assert_eq!(desk.received("web"), web, "a packet went to the chain whose rules had changed");
    desk.json("rules web dst_port=1-8");
    let rest = desk.received("rest");
    run.until("the first chain has it all", || (desk.received("web") > web + 5000).then_some(()));
    assert_eq!(desk.received("rest"), rest);
    // The file on disk is still the first one.
    let back = desk.json("reload");
    assert!(back["changed"].to_string().contains("web: match"), "{back}");
    assert_eq!(desk.json("list")["chains"][0]["match"], json!({"dst_port": ["1-4"]}));
    let report = run.finish();
    assert_nothing_lost(&report);
    assert!(report["happenings"].to_string().contains("a: priority 4"), "{report:#}");
    assert_eq!(report["nfs"]["b"]["sched"]["priority"], 1, "as the file says");
    let left = std::fs::read_dir(desk.0.path("")).unwrap().any(|e| e.unwrap().file_name() == "chainline");
    assert!(!left, "the socket's directory stays behind");
}

/// What makes no sense is refused in the words of a chain file, with the code of wrong input, and changes nothing.
#[test]
fn wrong_changes_are_refused_whole() {
    let desk = Desk::new();
    let run = desk.start(&desk.0.chain_file("chain.yaml", SPEC));
    let before = desk.json("file");
    let fresh = |name: &str, text: &str| format!("apply {}", desk.0.write(name, text).display());
    let cases = [
        ("set-priority nobody 4", 2, "nobody"),
        ("set-priority chain:nobody 4", 2, "web"),
        ("set-priority core:4711 4", 2, "4711"),
        ("set-cores a 4711", 2, "4711"),
        ("set-policy a deadline", 2, "runtime_us"),
        ("rules web colour=blue", 2, "colour"),
        ("rules web proto=xyz", 2, "proto"),
        ("rules nobody --any", 2, "nobody"),
        ("remove nobody", 2, "nobody"),
        ("set-path web in,nobody,out", 2, "nobody"),
        (&fresh("garbage.yaml", "\u{1}{{"), 2, "garbage.yaml"),
        (&fresh("empty.yaml", ""), 2, "empty.yaml"),
        ("--run nobody list", 1, "nobody"),
        ("--run /nowhere/at/all list", 1, "/nowhere"),
    ];
    for (line, code, words) in cases {
        let found = desk.ctl(line);
        found.assert_no_crash(line);
        assert_eq!(found.status.code(), Some(code), "{line}: {}", found.stderr);
        assert!(found.stderr.contains(words), "{line}: {}", found.stderr);
    }
    assert_eq!(desk.json("file"), before);
    assert_nothing_lost(&run.finish());
}

/// What the kernel refuses is undone where others had it already.
#[test]
fn what_the_kernel_refuses_changes_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the kernel's budget for deadlines needs root to be reached");
        return;
    }
    let desk = Desk::new();
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let nfs: Vec<String> = (0..cores + 1).map(|i| format!("n{i}")).collect();
    let kinds: Vec<String> = nfs.iter().map(|n| format!("{n}: {{kind: forward}}")).collect();
    let spec = format!(
        "  ports: {{in: {{generator: {{rate: 20kpps}}}}, out: {{sink: {{}}}}}}\n  nfs: {{{}}}\n  chains: [{{name: all, path: [in, {}, out]}}]\n",
        kinds.join(", "),
        nfs.join(", ")
    );
    let run = desk.start(&desk.0.chain_file("chain.yaml", &spec));
    // More budget than there is: the kernel admits deadlines up to 95 % of all cores together.
    let found = desk.ctl("set-policy chain:all deadline --runtime-us 9900 --period-us 10000");
    found.assert_no_crash("deadline");
    assert_eq!(found.status.code(), Some(1), "{}{}", found.stdout, found.stderr);
    let list = desk.json("list");
    for i in list["instances"].as_array().unwrap() {
        assert_eq!(i["sched"]["policy"], "batch", "{list:#}");
    }
    let report = run.finish();
    assert_nothing_lost(&report);
    for (name, nf) in report["nfs"].as_object().unwrap() {
        assert_eq!(nf["sched"]["policy"], "batch", "{name}: {report:#}");
    }
}

#[test]
fn two_runs_side_by_side_are_told_apart() {
    let desk = Desk::new();
    let one = desk.start(&desk.0.chain_file("one.yaml", SPEC));
    let other = desk.0.chain_file("two.yaml", &SPEC.replace("web", "mail"));
    let text = std::fs::read_to_string(&other).unwrap().replace("name: e2e", "name: second");
    let two = desk.start(&desk.0.write("two.yaml", text));
    let found = desk.ctl("list");
    assert_eq!(found.status.code(), Some(2));
    assert!(found.stderr.contains("--run") && found.stderr.contains("second ("), "{}", found.stderr);
    assert_eq!(desk.json("runs").as_array().unwrap().len(), 2);
    desk.json("--run second set-priority a 9");
    let priority = |run: &str| desk.json(&format!("--run {run} list"))["instances"][0]["sched"]["priority"].clone();
    assert_eq!((priority("second"), priority("e2e")), (json!(9), Value::Null));
    assert_eq!(priority(&one.pid().as_raw_nonzero().to_string()), Value::Null);
    assert_nothing_lost(&two.finish());
    assert_nothing_lost(&one.finish());
}

/// `--control`: elsewhere, or not at all.
#[test]
fn the_socket_is_where_it_was_asked_for() {
    let desk = Desk::new();
    let file = desk.0.chain_file("chain.yaml", SPEC);
    let at = desk.0.path("here.sock");
    let start = |control: &str| {
        let mut command = desk.at_home(chainline());
        Running::start(command.args(["run", "-o", "json", "--control", control]).arg(&file))
    };
    let mut run = start(at.to_str().unwrap());
    run.until_running();
    assert_eq!(desk.json("runs"), json!([]));
    assert_eq!(desk.json(&format!("--run {} list", at.display()))["name"], "e2e");
    let taken = start(at.to_str().unwrap()).end();
    assert_eq!(taken.status.code(), Some(1));
    assert!(taken.stderr.contains("already"), "{}", taken.stderr);
    assert_nothing_lost(&run.finish());
    assert!(!at.exists());
    let mut silent = start("none");
    silent.until_running();
    assert_eq!((desk.json("runs"), desk.ctl("list").status.code()), (json!([]), Some(1)));
    assert_nothing_lost(&silent.finish());
}
