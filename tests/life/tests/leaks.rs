//! What is left after many deaths: nothing.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use life_tests::scene::shown;
use life_tests::{Scene, Seen, Watch, processes};
use std::collections::BTreeSet;
use std::fmt::Write;

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");

/// Fifty restarts of processes and threads: file descriptors, processes and mappings are as before.
#[test]
fn fifty_restarts() {
    const NFS: usize = 25;
    let scene = Scene::new(HOST);
    let (mut ports, mut nfs, mut chains) = (String::new(), String::new(), String::new());
    for i in 0..NFS {
        let (way, isolation) = if i % 5 == 0 { ("panic 300", "thread") } else { ("exit 300", "process") };
        // One run in which none dies, then two in which each dies twice.
        scene.script(&format!("s{i}"), &["honest", way, way, "honest", way, way, "honest"]);
        // Lossless: when all have come in, the last life has begun.
        writeln!(ports, "    in{i}: {{generator: {{frame_bytes: 64, flows: 3, count: 2000, lossless: true}}}}")
            .unwrap();
        writeln!(nfs, "    nf{i}: {{kind: fault, isolation: {isolation}, args: {{script: s{i}}}}}").unwrap();
        writeln!(chains, "    - {{name: chain{i}, path: [in{i}, nf{i}, out]}}").unwrap();
    }
    let spec = format!(
        "  defaults: {{queue: 256}}\n  ports:\n    out: {{sink: {{}}}}\n{ports}  nfs:\n{nfs}  chains:\n{chains}"
    );
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap().matches("memfd:chainline").count();
    let before = (processes::open_fds(), maps(), processes::nfs_of(std::process::id()));
    let mut open = Vec::new();
    for restarts in [0, 2 * NFS as u64, 2 * NFS as u64] {
        let report = scene.run(
            &spec,
            &mut Watch(|seen: Seen<'_>| {
                if let Seen::Draining = seen {
                    open.push(processes::instance_fds());
                }
            }),
        );
        assert_eq!(report.nfs.values().map(|nf| nf.restarts).sum::<u64>(), restarts, "{}", shown(&report));
        assert_eq!((processes::open_fds(), maps(), processes::nfs_of(std::process::id())), before);
    }
    // An instance has the same descriptors in each of its lives.
    assert!(open[0] > before.0 && open[1..] == [open[0]; 2], "{open:?} open before the end of each run");
}

/// An NF process has its three standard streams and what it was sent; nothing that the manager has open besides.
#[test]
fn nothing_is_inherited() {
    let scene = Scene::new(HOST);
    // Open without close-on-exec, as C libraries do it.
    let open = rustix::fs::open(scene.dir(), rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    let spec = "
  ports:
    in: {generator: {frame_bytes: 64, flows: 3, count: 20000, rate: 100kpps, lossless: true}}
    out: {vdev: net_null0}
  nfs: {a: {kind: pass}, b: {kind: pass}}
  chains:
    - {name: all, path: [in, a, b, out]}
";
    // Files of each process behind its output streams, each once.
    let mut found = Vec::new();
    let mut look = || {
        for (pid, _) in processes::nfs_of(std::process::id()) {
            let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
            let inner = fds.filter(|fd| fd.file_name() != "1" && fd.file_name() != "2");
            let files = inner.filter_map(|fd| Some(std::fs::read_link(fd.path()).ok()?.display().to_string()));
            found.push(files.collect::<BTreeSet<_>>());
        }
    };
    let mut killed = false;
    let report = scene.run(
        spec,
        &mut Watch(|seen: Seen<'_>| match seen {
            Seen::Running => {
                look();
                killed = processes::kill("b");
            }
            Seen::Happened(h) if h.what == "runs again" => look(),
            _ => {}
        }),
    );
    drop(open);
    assert!(killed && report.nfs["b"].restarts == 1, "{}", shown(&report));
    assert!(found.len() >= 4, "{found:?}");
    for files in found {
        let sockets = files.iter().filter(|f| f.starts_with("socket:")).count();
        let other = files.iter().find(|f| !f.starts_with("/memfd:chainline-") && !f.starts_with("socket:"));
        assert_eq!((sockets, other), (1, None), "{files:?}");
    }
}

/// No process to be had for a while: the other chain goes on, and the NF comes back when there is one.
#[test]
fn the_program_is_gone_for_a_while() {
    const COUNT: u64 = 30_000;
    let scene = Scene::new(HOST);
    let spec = format!(
        "
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 3, count: {COUNT}, rate: 100kpps, lossless: true}}}}
    in2: {{generator: {{frame_bytes: 64, flows: 3, count: {COUNT}, rate: 100kpps, lossless: true}}}}
    out: {{sink: {{}}}}
    out2: {{sink: {{}}}}
  nfs: {{a: {{kind: pass}}, b: {{kind: pass}}}}
  chains:
    - {{name: one, path: [in, a, out]}}
    - {{name: two, path: [in2, b, out2]}}
"
    );
    let (program, aside) = (scene.join("evil-host"), scene.join("aside"));
    let mut failed = 0;
    let report = scene.run(
        &spec,
        &mut Watch(|seen: Seen<'_>| match seen {
            Seen::Running => {
                std::fs::rename(&program, &aside).unwrap();
                assert!(processes::kill("a"));
            }
            Seen::Happened(h) if h.what.contains("cannot start a") => {
                failed += 1;
                if failed == 3 {
                    std::fs::rename(&aside, &program).unwrap();
                }
            }
            _ => {}
        }),
    );
    assert_eq!((failed, report.nfs["a"].restarts), (3, 1), "{}", shown(&report));
    assert_eq!(report.chains["one"].received, COUNT);
    life_tests::scene::assert_lossless(&report, "two");
}
