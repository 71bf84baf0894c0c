//! Every built-in dataplane carries packets, with each kind of port that it has, and counts them as we do.

use crate::command::{Dir, Running, chainline, outcome};
use chainline_bench::dataplane::DataplaneError;
use chainline_bench::rivals::adapter::{PortKind, Spec};
use chainline_bench::rivals::builtin;
use chainline_bench::rivals::lab::Lab;
use chainline_bench::rivals::started::{Started, check};
use std::path::Path;

/// Frames that are sent through each, so slowly that a busy host loses few.
const FRAMES: u64 = 5_000;

/// A lab, or a word why there is none.
fn made(lab: Result<Lab, DataplaneError>) -> Option<Lab> {
    match lab {
        Ok(lab) => Some(lab),
        Err(e @ DataplaneError::Unavailable { .. }) => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn carries(name: &str, kind: PortKind) {
    carry(name, &builtin::get(name).unwrap(), kind);
}

fn carry(name: &str, spec: &Spec, kind: PortKind) {
    if let Err(e) = check(name, spec) {
        println!("skipped: {e}");
        return;
    }
    let Some(lab) = made(Lab::new(kind)) else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_chainline"));
    let mut dataplane = Started::new(name, spec, &lab, &[0], program).unwrap_or_else(|e| panic!("{e}"));
    assert!(dataplane.version().is_some_and(|v| v.contains('.')), "{:?}", dataplane.version());
    let before = dataplane.counters().unwrap().unwrap_or_default();
    let (sent, received) = through(&lab, program);
    println!("{name} over {}: {sent} sent, {received} received", kind.word());
    // A memif forgets its counters with its connection, which is over, and DPDK's driver has been seen to crash when it
    // is asked for them just then (22.11, one run in some tens).
    if kind == PortKind::Memif {
        assert!(received > 0 && received <= sent, "{received} of {sent}");
    } else if let Some(after) = dataplane.counters().unwrap() {
        dataplane.alive().unwrap();
        println!("{after:?}");
        let near = |a: u64, b: u64| a.abs_diff(b) * 100 <= b;
        assert!(near(after.transmitted - before.transmitted, received), "{after:?}, {received} received");
        assert!(after.received - before.received >= received && after.received - before.received <= sent, "{after:?}");
    }
    drop(dataplane);
    let left = std::process::Command::new("ip").args(["netns", "pids", &lab.dataplane()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "processes stay");
}

/// Sends frames into a lab; how many went out, and how many came back.
fn through(lab: &Lab, program: &Path) -> (u64, u64) {
    let dir = Dir::new();
    let [to, from] = lab.tester_ports();
    let spec = format!(
        "  ports:
    gen: {{generator: {{frame_bytes: 64, flows: 100, rate: 10kpps, count: {FRAMES}}}}}
    to: {to}
    from: {from}
    sink: {{sink: {{}}}}
  chains:
    - {{name: go, path: [gen, to]}}
    - {{name: come, path: [from, sink]}}
"
    );
    let mut tester = lab.inside(&lab.tester());
    tester.arg(program).args(["run", "--quiet", "-o", "json", "--duration", "2s", "--control", "none"]);
    let out = tester.arg(dir.chain_file("tester.yaml", &spec)).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{}: {}{}", out.status, text(&out.stdout), text(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["ledger"]["balanced"], true, "{report:#}");
    let count = |chain: &str| report["chains"][chain]["transmitted"].as_u64().unwrap();
    let (sent, received) = (count("go"), count("come"));
    assert!(received <= sent && received * 2 > sent, "{report:#}");
    (sent, received)
}

#[test]
fn nothing_is_between_the_ports_of_a_direct_lab() {
    for kind in [PortKind::Veth, PortKind::AfXdp, PortKind::Memif] {
        let Some(lab) = made(Lab::direct(kind)) else { return };
        assert_eq!(through(&lab, Path::new(env!("CARGO_BIN_EXE_chainline"))).0, FRAMES);
    }
}

macro_rules! built_in {
    ($($test:ident: $name:literal over $kind:ident,)*) => {
        $(#[test] fn $test() { carries($name, PortKind::$kind); })*

        #[test]
        fn all_are_tested_with_all_their_ports() {
            let tested = [$(($name, PortKind::$kind)),*];
            for (name, _) in builtin::FILES {
                for kind in builtin::get(name).unwrap().ports {
                    assert!(tested.contains(&(name, kind)), "{name} over {}", kind.word());
                }
            }
        }
    };
}

built_in! {
    chainline_over_veth: "chainline" over Veth,
    chainline_over_af_xdp: "chainline" over AfXdp,
    chainline_over_memif: "chainline" over Memif,
    chainline_forward_over_veth: "chainline-forward" over Veth,
    chainline_forward_over_af_xdp: "chainline-forward" over AfXdp,
    chainline_forward_over_memif: "chainline-forward" over Memif,
    kernel: "kernel" over Veth,
    bridge: "bridge" over Veth,
    nftables: "nftables" over Veth,
    ovs: "ovs" over Veth,
    testpmd_io_over_veth: "testpmd-io" over Veth,
    testpmd_io_over_af_xdp: "testpmd-io" over AfXdp,
    testpmd_io_over_memif: "testpmd-io" over Memif,
    testpmd_macswap_over_veth: "testpmd-macswap" over Veth,
    testpmd_macswap_over_af_xdp: "testpmd-macswap" over AfXdp,
    testpmd_macswap_over_memif: "testpmd-macswap" over Memif,
    testpmd_5tswap_over_veth: "testpmd-5tswap" over Veth,
    testpmd_5tswap_over_af_xdp: "testpmd-5tswap" over AfXdp,
    testpmd_5tswap_over_memif: "testpmd-5tswap" over Memif,
}

#[test]
fn compare_lists_prints_and_refuses() {
    let bench = |words: &[&str]| outcome(chainline().args(["bench", "compare"]).args(words));
    let listed = bench(&["--list", "--with", "kernel,testpmd-io", "--frame-bytes", "64,1518", "--cores", "0,1"]);
    assert_eq!(listed.status.code(), Some(0), "{}", listed.stderr);
    let lines: Vec<_> = listed.stdout.lines().map(|l| l.split(": not on this host").next().unwrap()).collect();
    assert_eq!(lines.len(), 10, "{lines:?}");
    assert_eq!(lines[1], "kernel over veth, 64 B");
    let one_core = bench(&["--list", "--with", "kernel", "--frame-bytes", "64", "--cores", "0"]);
    assert!(one_core.stdout.contains("needs a core for the tester and another"), "{}", one_core.stdout);
    let printed = bench(&["--print", "ovs"]);
    let text = builtin::FILES.iter().find(|(n, _)| *n == "ovs").unwrap().1;
    assert_eq!(printed.stdout, text);
    bench(&["--print", "osv"]).assert_refused(2, "a name that is none");
    bench(&["--with", "testpmd-oi"]).assert_refused(2, "a name that is none");
    bench(&["--list", "--with", "kernel", "--ports", "memif"]).assert_refused(2, "nothing over memif");
    bench(&["--dataplane", "/no/such/file"]).assert_refused(2, "no file");
    let dir = Dir::new();
    let wrong = dir.write("wrong.yaml", text.replace("serve:", "sreve:"));
    let refused = bench(&["--list", "--dataplane", wrong.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("did you mean `serve`?"), "{}", refused.stderr);
    let twice = dir.write("ovs.yaml", text);
    bench(&["--list", "--with", "ovs", "--dataplane", twice.to_str().unwrap()]).assert_refused(2, "two of a name");
}

/// A user's own file describes `testpmd`, as somebody would who has no code of ours, and it is measured like any.
#[test]
fn a_users_file_describes_testpmd() {
    let dir = Dir::new();
    let text = builtin::FILES.iter().find(|(n, _)| *n == "testpmd-io").unwrap().1;
    let path = dir.write("mine.yaml", text.replace("name: testpmd-io", "name: mine"));
    let read = chainline_bench::rivals::load(&std::fs::read(&path).unwrap(), &path).unwrap();
    assert_eq!(read.name, "mine");
    carry("mine", &read.spec, PortKind::Memif);
}

/// The whole command: one that is missing, one that lies about being ready and one that works, beside the port alone.
/// Figures are not looked at; that the others go on, and that nothing is left, is.
#[test]
fn a_comparison_survives_its_dataplanes_and_leaves_nothing() {
    if std::thread::available_parallelism().is_ok_and(|n| n.get() < 2) {
        println!("skipped: tester and dataplane need a core each");
        return;
    }
    let Some(probe) = made(Lab::new(PortKind::Veth)) else { return };
    drop(probe);
    let dir = Dir::new();
    let file = |name: &str, rest: &str| {
        let head = "apiVersion: chainline/v1alpha1\nkind: Dataplane\n";
        let text = format!("{head}metadata: {{name: {name}}}\nspec:\n  title: t\n  ports: veth\n{rest}");
        dir.write(&format!("{name}.yaml"), text)
    };
    let liar = file("liar", "  start: [{serve: [sh, -c, 'echo ready; exec sleep 600'], until: ready}]\n");
    let missing = file("missing", "  needs: {programs: [no-such-program]}\n  start: [{serve: [no-such-program]}]\n");
    let results = dir.path("results");
    let mut command = chainline();
    command.args(["bench", "compare", "--quick", "--fresh", "--allow-disturbed", "--quiet", "--with", "kernel"]);
    command.args(["--ports", "veth", "--frame-bytes", "64", "--tester-core", "0", "--dataplane-core", "1"]);
    command.arg("--dataplane").arg(&liar).arg("--dataplane").arg(&missing).arg("--dir").arg(&results);
    let found = outcome(&mut command);
    found.assert_no_crash("compare");
    let results = std::fs::read(results.join("results.json")).unwrap_or_else(|e| panic!("{e}: {}", found.stderr));
    let results: serde_json::Value = serde_json::from_slice(&results).unwrap();
    assert_eq!(results["complete"], true);
    let of = |name: &str| results["trials"].as_array().unwrap().iter().filter(|t| t["dataplane"] == name).count();
    let came = |name: &str| {
        let trials = results["trials"].as_array().unwrap().iter().filter(|t| t["dataplane"] == name);
        trials.filter_map(|t| t["outcome"]["received"].as_u64()).sum::<u64>()
    };
    assert!(came("port alone") > 0 && came("kernel") > 0, "{}{}", found.stdout, found.stderr);
    assert_eq!((of("liar"), of("missing")), (0, 0));
    let words = found.stdout;
    assert!(words.contains("it says that it is ready, but of") && words.contains("none came through"), "{words}");
    assert!(words.contains("no program `no-such-program` is installed"), "{words}");
    assert!(results["environment"]["dataplanes"]["kernel"].is_string(), "{}", results["environment"]);
    assert_eq!(chainline_bench::rivals::lab::sweep(), 0, "a lab stays");
}

/// Ctrl-C in the middle: what was measured is kept, no lab is left, and it goes on where it was.
#[test]
fn an_interrupted_comparison_is_kept_and_goes_on() {
    if std::thread::available_parallelism().is_ok_and(|n| n.get() < 2) {
        println!("skipped: tester and dataplane need a core each");
        return;
    }
    let Some(probe) = made(Lab::new(PortKind::Veth)) else { return };
    drop(probe);
    let dir = Dir::new();
    let results = dir.path("results");
    let compare = |more: &str| {
        let mut command = chainline();
        command.args(["bench", "compare", "--quick", "--fresh", "--allow-disturbed", "--quiet", "--with", "kernel"]);
        command.args(["--ports", "veth", "--frame-bytes", "64", "--tester-core", "0", "--dataplane-core", "1", more]);
        command.arg(&results);
        command
    };
    let read = || -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(results.join("results.json")).unwrap()).unwrap()
    };
    let mut running = Running::start(&mut compare("--dir"));
    let journal = results.join("journal.jsonl");
    running.until("a few trials", || std::fs::read_to_string(&journal).ok().filter(|text| text.lines().count() >= 4));
    let lab = format!("chainline-bench-{}-", running.pid().as_raw_nonzero());
    running.interrupt();
    let stopped = running.end();
    assert_eq!(stopped.status.code(), Some(1), "{}", stopped.stderr);
    assert!(stopped.stderr.contains("what was measured is kept. Go on with:"), "{}", stopped.stderr);
    let netns = std::process::Command::new("ip").arg("netns").output().unwrap();
    assert!(!String::from_utf8_lossy(&netns.stdout).contains(&lab), "a namespace stays");
    let temp = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    assert!(!temp.map(|e| e.file_name()).any(|n| n.to_string_lossy().starts_with(&lab)), "a directory stays");
    let kept = read();
    assert_eq!(kept["complete"], false);
    let kept = kept["trials"].as_array().unwrap().clone();
    assert!(kept.len() >= 3);

    let resumed = outcome(&mut compare("--resume"));
    resumed.assert_no_crash("resume");
    let whole = read();
    assert_eq!(whole["complete"], true, "{}", resumed.stderr);
    let trials = whole["trials"].as_array().unwrap();
    assert_eq!(trials[..kept.len()], kept[..], "not as they were kept");
    assert!(trials.len() > kept.len());
}
