//! Benchmark files: what is wrong with them, what they come to.

use super::*;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn read(spec: &str) -> Result<Spec, String> {
    let text = format!("apiVersion: chainline/v1alpha1\nkind: Benchmark\nmetadata: {{name: t}}\nspec:\n{spec}");
    load(text.as_bytes(), Path::new("t.yaml")).map(|d| d.spec).map_err(|e| e.to_string())
}

fn two_cores() -> Cores {
    Cores::under(Path::new("/nowhere"), &[0, 1])
}

const HEAD: &str = "  base: {nfs: [forward, monitor]}\n  measures: [mrr]\n";

fn files(factors: &str, cores: &Cores) -> Vec<Result<Value, ApplyError>> {
    let spec = read(&format!("{HEAD}{factors}")).unwrap();
    let base = base(&spec.base);
    combinations(&spec).unwrap().iter().map(|c| chain_file(&base, c, cores)).collect()
}

/// The chain file must stand the checks that every chain file stands.
fn check(file: &Value) {
    let cores = [0, 1];
    let host = chainline_chain::Host {
        cores: Some(&cores),
        kinds: Some(&["forward", "monitor", "l3fwd", "firewall", "lb", "synthetic", "logger"]),
    };
    if let Err(e) = chainline_chain::load_for(&file.to_string(), Path::new("made.json"), &host) {
        panic!("{e}\n{file:#}");
    }
}

#[test]
fn everything_wrong_is_said_at_its_place() {
    let wrong = read(
        "  base: {nfs: [forward], file: x.yaml}\n  factors: {frame_byte: [64], batch: [0, 32], policy: [ff]}\n  \
         measures: [nrd]\n  round: 3\n",
    )
    .unwrap_err();
    let lines: Vec<&str> = wrong.lines().collect();
    assert_eq!(lines.len(), 6, "{wrong}");
    assert!(lines[0].starts_with("t.yaml:5:9: error: spec.base: found both `file` and `nfs`"), "{wrong}");
    assert!(lines[1].contains("unknown factor \"frame_byte\"") && lines[1].ends_with("did you mean `frame_bytes`?"));
    assert!(lines[2].contains("spec.factors.batch[0]: found the number 0, expected a whole number from 1 to 256"));
    assert!(lines[3].contains("spec.factors.policy[0]: found \"ff\""));
    assert!(lines[4].contains("spec.measures[0]: found \"nrd\"") && lines[4].ends_with("did you mean `ndr`?"));
    assert!(lines[5].contains("unknown field \"round\"") && lines[5].ends_with("did you mean `rounds`?"), "{wrong}");
}

#[test]
fn combinations_less_the_excluded_and_more_the_included() {
    let spec = read(&format!(
        "{HEAD}  factors: {{frame_bytes: [64, 1518], batch: [1, 32]}}\n  exclude: [{{frame_bytes: 1518, batch: 1}}]\n  \
         include: [{{frame_bytes: 9000}}]\n"
    ))
    .unwrap();
    let names: Vec<String> = combinations(&spec).unwrap().iter().map(name).collect();
    assert_eq!(names, ["64 bytes, batch 1", "64 bytes, batch 32", "1518 bytes, batch 32", "9000 bytes"]);
    let many = (1..=64).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let many = format!("{HEAD}  factors: {{chain_length: [{many}], colocated: [{many}], workers: [{many}]}}\n");
    assert_eq!(combinations(&read(&many).unwrap()), Err(64 * 64 * 64));
}

#[test]
fn each_factor_changes_the_chain_file() {
    let two = two_cores();
    let one = |factors: &str| {
        let file = files(factors, &two).remove(0).unwrap();
        check(&file);
        file
    };
    for which in ["default", "weights", "backpressure", "all"] {
        let file = one(&format!("  factors: {{mechanisms: [{which}]}}\n"));
        assert_eq!(file["spec"]["defaults"]["mechanisms"], which);
    }
    let file = one("  factors: {frame_bytes: [1518], flows: [7], batch: [1], isolation: [fused], policy: [rr]}\n");
    assert_eq!(file["spec"]["ports"]["in"]["generator"], json!({"lossless": false, "frame_bytes": 1518, "flows": 7}));
    let defaults = &file["spec"]["defaults"];
    assert_eq!((&defaults["batch"], &defaults["isolation"]), (&json!(1), &json!("fused")));
    assert_eq!((&defaults["manager_core"], &defaults["cores"]), (&json!(0), &json!([1])));
    assert_eq!(defaults["sched"], json!({"policy": "rr"}));

    let file = one("  factors: {chain_length: [5]}\n");
    let path = json!(["in", "forward", "monitor", "forward-3", "monitor-4", "forward-5", "out"]);
    assert_eq!(file["spec"]["chains"][0]["path"], path);
    assert_eq!(
        one("  factors: {nf: [monitor]}\n")["spec"]["chains"][0]["path"],
        json!(["in", "monitor", "monitor-2", "out"])
    );
    assert_eq!(one("  factors: {nfs: [[monitor]]}\n")["spec"]["chains"][0]["path"], json!(["in", "monitor", "out"]));

    let file = one("  factors: {workers: [2]}\n");
    assert_eq!(file["spec"]["chains"][1]["match"], json!({"dst_port": "11920-13839"}));
    assert_eq!(file["spec"]["chains"][1]["path"], json!(["in", "forward-copy2", "monitor-copy2", "out"]));
    let file = one("  factors: {colocated: [3]}\n");
    assert_eq!(file["spec"]["ports"].as_object().unwrap().len(), 6);
    assert_eq!(file["spec"]["chains"][2]["path"], json!(["in-copy3", "forward-copy3", "monitor-copy3", "out-copy3"]));
    assert_eq!(one("  factors: {spec.defaults.queue: [64]}\n")["spec"]["defaults"]["queue"], 64);
    assert_eq!(one("  factors: {placement: [same-core]}\n")["spec"]["nfs"]["monitor"]["cores"], json!([1]));
}

#[test]
fn locality_is_dialled_in_time_and_space() {
    let dial = "[{interleave: {step: 0, of: 2, packets: 10}}, round-robin, {zipf: 1.1}]";
    let sets = "[{flows: 10, packets: 100}, {step: 1, of: 2, packets: 100}]";
    let made = files(&format!("  factors: {{flows: [100], locality: {dial}, working_set: {sets}}}\n"), &two_cores());
    assert_eq!(made.len(), 6);
    let mut traffic = Vec::new();
    for file in made {
        let file = file.unwrap();
        check(&file);
        let file = chainline_chain::load(&file.to_string(), Path::new("made.json")).unwrap();
        let Some(chainline_chain::model::Port::Generator(generator)) = file.spec.ports.get("in") else { panic!() };
        let spec = generator.workload(generator.own_mix().unwrap().unwrap(), None);
        let mut workload = chainline_workload::Workload::new(&spec).unwrap();
        let mut flows = Vec::new();
        workload.burst(100, |frame| flows.push(frame.flow));
        let distinct: std::collections::BTreeSet<u32> = flows.iter().copied().collect();
        assert!(distinct.len() <= 10, "a working set of 10 flows has {}", distinct.len());
        traffic.push(flows);
    }
    assert_eq!(traffic[0], traffic[1], "half way from 1 to 100 are 10 flows");
    assert_eq!(traffic[0], (0..100).map(|i| i / 10).collect::<Vec<u32>>(), "flow after flow");
    assert_eq!(traffic[2], (0..100).map(|i| i % 10).collect::<Vec<u32>>(), "in turn");
    assert_ne!(traffic[4], traffic[2]);
}

fn cases(spec: &str, cores: &Cores) -> Result<Vec<crate::run::Case>, PrepareError> {
    let kinds = ["forward", "monitor", "synthetic"];
    read(spec).unwrap().cases(Path::new("/nowhere"), cores, &kinds)
}

#[test]
fn real_ports_make_the_generator_a_tester_and_stand_beside_the_port_alone() {
    let spec = format!("{HEAD}  factors: {{port: [none, af_packet, memif], chain_length: [1, 2]}}\n");
    let all = cases(&spec, &two_cores()).unwrap();
    let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "port none, chain length 1",
            "port none, chain length 2",
            "port alone: port af_packet",
            "port af_packet, chain length 1",
            "port af_packet, chain length 2",
            "port alone: port memif",
            "port memif, chain length 1",
            "port memif, chain length 2",
        ]
    );
    assert!(all.iter().all(|c| c.unavailable.is_none()));
    let [alone, one] = [&all[2].content, &all[3].content];
    assert_eq!((&alone["port"], &alone["tester"]), (&json!("veth"), &one["tester"]));
    assert_eq!(one["tester"], json!({"lossless": false}));
    assert_eq!(one["file"]["spec"]["ports"], json!({"in": "{in_port}", "out": "{out_port}"}));
    assert_eq!(one["file"]["spec"]["defaults"]["manager_core"], 1, "the tester has core 0");
    let spec = port::adapter(&one["file"]).unwrap();
    let text = spec.files["chain.yaml"].raw();
    assert!(text.contains(r#""ports":{"in":{in_port},"out":{out_port}}"#), "{text}");

    let one_core = cases(&spec_of("af_xdp"), &Cores::under(Path::new("/nowhere"), &[0])).unwrap();
    assert!(one_core[0].unavailable.as_ref().unwrap().contains("another for the dataplane"));
    let copies = format!("{HEAD}  factors: {{port: [memif], colocated: [2]}}\n");
    let refused = cases(&copies, &two_cores()).unwrap_err().to_string();
    assert!(refused.contains("factor `port`: the base has more than one generator or sink"), "{refused}");
    let ends =
        "  base: {nfs: [forward], generator: {flow_packets: 10}}\n  measures: [mrr]\n  factors: {port: [memif]}\n";
    let refused = cases(ends, &two_cores()).unwrap_err().to_string();
    assert!(refused.contains("begin and end"), "{refused}");
}

fn spec_of(port: &str) -> String {
    format!("{HEAD}  factors: {{port: [{port}]}}\n")
}

#[test]
fn variants_replace_fields_and_numbers_of_cores_are_taken_in_turn() {
    let two = two_cores();
    let file = files(
        "  factors:\n    variant: [{name: deep, spec: {defaults: {queue: 64}, nfs: {monitor: {batch: 1}}}}]\n    \
         sched: [{policy: rr, slice_us: 1000}]\n    placement: [2]\n",
        &two,
    )
    .remove(0)
    .unwrap();
    check(&file);
    let spec = &file["spec"];
    assert_eq!((&spec["defaults"]["queue"], &spec["nfs"]["monitor"]["batch"]), (&json!(64), &json!(1)));
    assert_eq!(spec["nfs"]["monitor"]["kind"], "monitor", "the rest stays");
    assert_eq!(spec["defaults"]["sched"], json!({"policy": "rr", "slice_us": 1000}));
    // One core for both, since the other is the manager's.
    assert_eq!((&spec["nfs"]["forward"]["cores"], &spec["nfs"]["monitor"]["cores"]), (&json!([1]), &json!([1])));
    let four = Cores::under(Path::new("/nowhere"), &[0, 1, 2, 3]);
    let spread = &files("  factors: {placement: [2], chain_length: [3]}\n", &four)[0];
    let nfs = spread.as_ref().unwrap()["spec"]["nfs"].clone();
    let cores: Vec<_> = nfs.as_object().unwrap().values().map(|nf| nf["cores"][0].as_u64().unwrap()).collect();
    assert_eq!(cores, [1, 2, 1]);
    let combination = [("placement".to_owned(), json!(3))].into();
    assert_eq!(shortage(&combination, &two).as_deref(), Some("needs 4 cores: run with 2 sharing"));
    assert_eq!(shortage(&combination, &four), None);
    let named = &files("  factors: {nfs: [[{name: low, kind: synthetic}, {name: low, kind: synthetic}]]}\n", &two)[0];
    assert_eq!(named.as_ref().unwrap()["spec"]["chains"][0]["path"], json!(["in", "low", "low-2", "out"]));
    check(named.as_ref().unwrap());
}

#[test]
fn each_combination_has_an_ideal_that_comes_before_it() {
    let spec = read(&format!(
        "{HEAD}  factors: {{chain_length: [1, 2], mechanisms: [default, all]}}\n  ideal: {{isolation: fused, mechanisms: all}}\n"
    ))
    .unwrap();
    let all: Vec<_> = with_ideals(&spec).unwrap().iter().map(|(c, ideal)| (name(c), *ideal)).collect();
    let ideal = |n| format!("chain length {n}, mechanisms all, fused");
    assert_eq!(all[0], (ideal(1), Some(0)));
    assert_eq!(all[1], (ideal(2), Some(1)));
    assert_eq!(all[2], ("chain length 1, mechanisms default".into(), Some(0)));
    assert_eq!(all[5], ("chain length 2, mechanisms all".into(), Some(1)));
    assert_eq!(all.len(), 6);
    let without = read(&format!("{HEAD}  ideal_shares: [0.7]\n")).unwrap_err();
    assert!(without.contains("found `ideal_shares` without `ideal`"), "{without}");
}

#[test]
fn what_the_host_lacks_is_said() {
    let factors = "  factors: {placement: [other-core, other-socket]}\n";
    let why = |r: &Result<Value, ApplyError>| r.as_ref().unwrap_err().to_string();
    let here = files(factors, &two_cores());
    assert!(
        why(&here[0]).contains("needs 3 cores, the manager's and one for each instance; this host has 2"),
        "{}",
        why(&here[0])
    );
    assert!(why(&here[1]).contains("take a second socket"));
    let frequency = files("  factors: {cpu_frequency: [as-it-is, 1200]}\n", &two_cores());
    assert!(frequency[0].is_ok() && why(&frequency[1]).contains("no cpufreq driver"));

    // A host that has it all.
    let dir = crate::scratch::Scratch::new();
    for core in 0..4 {
        let cpu = dir.path().join(format!("cpu{core}"));
        fs::create_dir_all(cpu.join("topology")).unwrap();
        fs::create_dir_all(cpu.join("cpufreq")).unwrap();
        fs::write(cpu.join("topology/physical_package_id"), format!("{}\n", core / 2)).unwrap();
        for (name, khz) in [("cpuinfo_min_freq", 1_200_000), ("cpuinfo_max_freq", 2_600_000)] {
            fs::write(cpu.join("cpufreq").join(name), format!("{khz}\n")).unwrap();
        }
        fs::write(cpu.join("cpufreq/scaling_min_freq"), "1200000\n").unwrap();
        fs::write(cpu.join("cpufreq/scaling_max_freq"), "2600000\n").unwrap();
    }
    let large = Cores::under(dir.path(), &[0, 1, 2, 3]);
    let there = files(factors, &large);
    let cores = |file: &Value| ["forward", "monitor"].map(|nf| file["spec"]["nfs"][nf]["cores"][0].as_u64().unwrap());
    assert_eq!(cores(there[0].as_ref().unwrap()), [1, 2]);
    assert_eq!(cores(there[1].as_ref().unwrap()), [1, 2], "core 1 is on socket 0, core 2 on socket 1");
    assert!(files("  factors: {cpu_frequency: [1200]}\n", &large)[0].is_ok());
    assert!(why(&files("  factors: {cpu_frequency: [3000]}\n", &large)[0]).contains("run at 1200 to 2600 MHz"));
    let set = large.set_frequency(2000).unwrap();
    let limit = |name: &str| fs::read_to_string(dir.path().join("cpu3/cpufreq").join(name)).unwrap();
    assert_eq!((limit("scaling_min_freq").trim(), limit("scaling_max_freq").trim()), ("2000000", "2000000"));
    drop(set);
    assert_eq!((limit("scaling_min_freq").trim(), limit("scaling_max_freq").trim()), ("1200000", "2600000"));
}

#[test]
fn files_beside_the_base_are_named_in_full() {
    let dir = crate::scratch::Scratch::new();
    fs::write(dir.path().join("edge.rules"), "default allow\n").unwrap();
    let mut file =
        json!({"spec": {"nfs": {"fw": {"kind": "firewall", "args": {"rules": "edge.rules", "default": "deny"}}}}});
    let found = pinned(&mut file, dir.path());
    assert_eq!(found, [dir.path().join("edge.rules").canonicalize().unwrap()]);
    assert_eq!(file["spec"]["nfs"]["fw"]["args"]["rules"], found[0].to_str().unwrap());
    assert_eq!(file["spec"]["nfs"]["fw"]["args"]["default"], "deny");
}

#[test]
fn the_papers_sweeps_are_sound() {
    let more = [("quick", crate::niu::QUICK), ("queueing", crate::niu::QUEUEING)];
    for (name, text) in
        crate::niu::SWEEPS.iter().chain(crate::zheng::SWEEPS).chain(&more).chain(crate::nfvnice::SCENARIOS)
    {
        let file = load(text.as_bytes(), Path::new(name)).unwrap_or_else(|e| panic!("{e}"));
        let base = base(&file.spec.base);
        let all = combinations(&file.spec).unwrap();
        let made: Vec<_> = all.iter().filter_map(|c| chain_file(&base, c, &two_cores()).ok()).collect();
        assert!(!made.is_empty(), "{name}");
        made.iter().for_each(check);
    }
}

/// On a host that has the paper's 22 cores and the manager's, each experiment of Zheng et al. is made in all cases; on two
/// cores those cases are missing whose replicas have a core each.
#[test]
fn zhengs_experiments_are_whole_on_a_large_host() {
    let large = Cores::under(Path::new("/nowhere"), &(0..23).collect::<Vec<_>>());
    for (name, text) in crate::zheng::SWEEPS {
        for quick in [false, true] {
            let mut spec = load(text.as_bytes(), Path::new(name)).unwrap_or_else(|e| panic!("{e}")).spec;
            if quick {
                spec.hurry();
            }
            let cases = spec.cases(Path::new(""), &large, &["monitor", "lb"]).unwrap_or_else(|e| panic!("{e}"));
            assert!(cases.iter().all(|c| c.unavailable.is_none() && c.short_of.is_none()), "{name}");
            let here = spec.cases(Path::new(""), &two_cores(), &["monitor", "lb"]).unwrap();
            for case in here {
                let alone = case.factors.get("placement").is_some_and(|p| p == "other-core");
                let replicas = case.factors.get("replicas").and_then(Value::as_u64).unwrap_or(1);
                let why = (alone && replicas > 1).then(|| {
                    let need = replicas + 1;
                    format!("needs {need} cores, the manager's and one for each instance; this host has 2")
                });
                assert_eq!(case.unavailable, why, "{}", case.name);
            }
        }
    }
    // Each figure is an experiment's.
    assert!(crate::zheng::FIGURES.iter().all(|(_, name)| crate::zheng::SWEEPS.iter().any(|(n, _)| n == name)));
}

#[test]
fn replicas_have_cores_of_their_own() {
    let four = Cores::under(Path::new("/nowhere"), &[0, 1, 2, 3]);
    let made = files("  factors: {replicas: [1, 2], placement: [same-core, other-core, 2]}\n", &four);
    let cores =
        |i: usize| ["forward", "monitor"].map(|nf| made[i].as_ref().unwrap()["spec"]["nfs"][nf]["cores"].clone());
    assert_eq!((cores(0), cores(1)), ([json!([1]), json!([1])], [json!([1]), json!([2])]));
    assert_eq!((cores(3), cores(5)), ([json!([1]), json!([1])], [json!([1, 2]), json!([1, 2])]));
    assert!(made[4].as_ref().unwrap_err().to_string().contains("needs 5 cores"));
}

#[test]
fn a_section_shows_any_side_of_a_measure() {
    let section = |y: &str| read(&format!("{HEAD}  sections: [{{id: s, title: t, y: {y}}}]\n"));
    for y in ["mrr", "latency p99 at 50 % of PDR", "delay p99", "back-to-back buffer", "reset by time", "cpu load"] {
        assert_eq!(section(y).unwrap().sections[0].y, y);
    }
    assert!(section("reset by tmie").unwrap_err().contains("found \"reset by tmie\""));
}
