//! What users do wrong, and the examples: one clear message, the right exit code, never a crash.

use crate::command::{Dir, Outcome, chainline, outcome, repository, run};
use crate::lab::Namespace;
use std::path::{Path, PathBuf};

fn yaml_files(dir: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join(dir)).unwrap().map(|e| e.unwrap().path());
    let mut files: Vec<_> = entries.filter(|p| p.extension().is_some_and(|e| e == "yaml")).collect();
    files.sort();
    assert!(!files.is_empty(), "{dir}");
    files
}

#[test]
fn bad_chain_files_are_refused_with_their_places() {
    for file in yaml_files("crates/chain/tests/bad") {
        for command in [&["validate", "--cores", "0-3"][..], &["run", "--cores", "0-3"]] {
            let said = outcome(chainline().args(command).arg(&file));
            let what = file.display().to_string();
            assert_eq!(said.status.code(), Some(2), "{what}: {}", said.stderr);
            said.assert_no_crash(&what);
            // As editors read it: FILE:LINE:COLUMN.
            let arrow = format!("--> {what}:");
            let place = said.stderr.split_once(&arrow).unwrap_or_else(|| panic!("no place in {}", said.stderr)).1;
            let place = place.lines().next().unwrap();
            let numbers: Vec<u32> = place.split(':').map(|n| n.parse().unwrap()).collect();
            assert_eq!(numbers.len(), 2, "{place}");
        }
    }
}

#[test]
fn bytes_that_are_no_chain_file_are_refused() {
    let dir = Dir::new();
    let long = vec![b'x'; 20 << 20];
    for (name, bytes) in
        [("zero", &[0; 64][..]), ("binary", &[0xff, 0xfe, 0, 0x80]), ("open", b"{[{["), ("long", &long)]
    {
        let said = outcome(chainline().arg("run").arg(dir.write(name, bytes)));
        assert_eq!(said.status.code(), Some(2), "{name}: {}", said.stderr);
        said.assert_no_crash(name);
    }
}

/// Runs a chain from `port_in` by an NF to `port_out`.
fn try_run(dir: &Dir, port_in: &str, nf: &str, port_out: &str) -> Outcome {
    let spec = format!(
        "  ports: {{in: {port_in}, out: {port_out}}}
  nfs: {{nf: {nf}}}
  chains: [{{name: all, path: [in, nf, out]}}]\n"
    );
    outcome(chainline().args(["run", "--duration", "10s"]).arg(dir.chain_file("try.yaml", &spec)))
}

const ANY_IN: &str = "{generator: {count: 10}}";
const ANY_NF: &str = "{kind: forward}";
const ANY_OUT: &str = "{sink: {}}";

#[test]
fn ports_that_cannot_be_opened_are_one_message() {
    let dir = Dir::new();
    dir.write("noise.pcap", [0x5a; 300]);
    dir.write("cut.pcap", [0xd4, 0xc3, 0xb2, 0xa1, 2, 0]);
    dir.write("nothing.pcap", []);
    for (port, words) in [
        ("{pcap: {read: missing.pcap}}", "missing.pcap"),
        ("{pcap: {read: noise.pcap}}", "noise.pcap"),
        ("{pcap: {read: cut.pcap}}", "cut.pcap"),
        ("{pcap: {read: nothing.pcap}}", "nothing.pcap"),
        ("{pcap: {read: .}}", "port in"),
        ("{af_packet: {interface: cl-missing}}", "cl-missing"),
        ("{af_xdp: {interface: cl-missing}}", "cl-missing"),
        ("{vdev: net_missing0}", "net_missing0"),
        ("{vdev: \"net_pcap0,rx_pcap=/nowhere/x.pcap\"}", "net_pcap0"),
        ("{pci: \"0000:ff:1f.7\"}", "0000:ff:1f.7"),
        ("{memif: {socket: nowhere/m.sock, role: server}}", "memif"),
    ] {
        let said = try_run(&dir, port, ANY_NF, ANY_OUT);
        said.assert_refused(1, port);
        assert!(said.stderr.contains(words) && said.stderr.contains("port in"), "{port}: {}", said.stderr);
    }
    for (port, words) in [
        ("{pcap: {write: nowhere/out.pcap}}", "nowhere/out.pcap"),
        ("{pcap: {write: .}}", "port out"),
        ("{af_packet: {interface: cl-missing}}", "cl-missing"),
    ] {
        let said = try_run(&dir, ANY_IN, ANY_NF, port);
        said.assert_refused(1, port);
        assert!(said.stderr.contains(words) && said.stderr.contains("port out"), "{port}: {}", said.stderr);
    }
}

#[test]
fn nfs_that_cannot_be_built_are_one_message() {
    let dir = Dir::new();
    dir.write("bad.rules", "allow tcp\nallow nonsense from here\n");
    dir.write("bad.routes", "10.0.0.0/8 via 02:00:00:00:00:01\n10.0.0.0/33 via 02:00:00:00:00:01\n");
    dir.write("noise.so", [0x5a; 300]);
    dir.write("binary.rules", [0xff, 0x00, 0x80, 0x0a]);
    for (nf, words) in [
        ("{kind: firewall, args: {rules: missing.rules}}", "missing.rules"),
        ("{kind: firewall, args: {rules: bad.rules}}", "bad.rules:2:7"),
        ("{kind: firewall, args: {rules: binary.rules}}", "binary.rules"),
        ("{kind: firewall, args: {rules: .}}", "nf"),
        ("{kind: l3fwd, args: {routes: missing.routes}}", "missing.routes"),
        ("{kind: l3fwd, args: {routes: bad.routes}}", "bad.routes:2"),
        ("{kind: ./missing.so}", "missing.so"),
        ("{kind: ./noise.so}", "noise.so"),
    ] {
        for isolation in ["process", "thread", "fused"] {
            let nf = nf.replacen('{', &format!("{{isolation: {isolation}, "), 1);
            let said = try_run(&dir, ANY_IN, &nf, ANY_OUT);
            said.assert_refused(1, &nf);
            assert!(said.stderr.contains(words), "{nf}: expected {words:?} in {}", said.stderr);
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut command = std::process::Command::new("sh");
    let line = format!("{} schema | head -c 1 >/dev/null", env!("CARGO_BIN_EXE_chainline"));
    let said = outcome(command.args(["-c", &line]));
    assert_eq!((said.status.code(), said.stderr.as_str()), (Some(0), ""));
}

#[test]
fn the_examples_run() {
    for file in yaml_files("examples") {
        let text = std::fs::read_to_string(&file).unwrap();
        let args = ["--duration", "1s"];
        let report = if text.contains("af_packet") {
            let Some(net) = Namespace::new() else {
                println!("skipped: {} needs root", file.display());
                continue;
            };
            for interface in ["cl-client0", "cl-server0"] {
                net.run(&format!("ip link add {interface} type veth peer name peer-{interface}"));
                net.bare(interface);
            }
            let running = crate::command::Running::start(net.chainline().args(args).arg(&file));
            running.report()
        } else {
            run(&file, &args)
        };
        let carried = report["ledger"]["transmitted"].as_u64() > Some(0) || text.contains("af_packet");
        assert!(carried, "{}: {report:#}", file.display());
    }
    for written in [
        "/tmp/chainline-edge.pcap",
        "/tmp/chainline-dns.pcapng",
        "/tmp/chainline-flows.ipfix",
        "/tmp/chainline-flows.jsonl",
    ] {
        let _ = std::fs::remove_file(Path::new(written));
    }
}
