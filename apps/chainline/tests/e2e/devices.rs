//! Ports that are devices: tap, memif between two runs, virtual devices of DPDK, jumbo frames.

use crate::capture;
use crate::command::{Dir, Running, chainline, repository, run};
use crate::lab::{Lab, Namespace, ROUTES, serve};
use std::path::Path;
use std::process::Command;

/// What a pcap file adds: a header to the file, and one to each packet.
const PCAP_HEADERS: [u64; 2] = [24, 16];

fn quickstart() -> std::path::PathBuf {
    repository().join("examples/captures/quickstart.pcap").canonicalize().unwrap()
}

fn quiet() -> Command {
    let mut command = chainline();
    command.args(["run", "--quiet", "-o", "json"]);
    command
}

/// `output` holds `input` over and over, each frame with its addresses swapped as often as `forward` saw it.
fn assert_cyclic(input: &[Vec<u8>], output: &[Vec<u8>], swapped: bool) {
    for (n, frame) in output.iter().enumerate() {
        let mut expected = input[n % input.len()].clone();
        if swapped {
            expected[..12].rotate_left(6);
        }
        assert_eq!(*frame, expected, "frame {n}");
    }
}

#[test]
fn tap_is_an_interface_that_the_kernel_uses() {
    let Some(lab) = Lab::new(1500) else { return };
    let dir = Dir::new();
    let spec = format!(
        "  ports: {{t: {{tap: {{interface: cl-tap}}}}, b: {{af_packet: {{interface: cl-b}}}}}}
  nfs: {{rt: {{kind: l3fwd, args: {{routes_inline: {ROUTES}}}}}}}
  chains:
    - {{name: up, path: [t, rt, b]}}
    - {{name: down, path: [b, rt, t]}}
"
    );
    let mut chain = Running::start(lab.middle.chainline().arg(dir.chain_file("tap.yaml", &spec)));
    chain.until_running();
    let middle = &lab.middle;
    for line in [
        &format!("ip link set cl-tap address {}", lab.a.mac),
        "ip addr add 10.10.9.2/24 dev cl-tap",
        "ip link set cl-tap up",
        "ip neigh add 10.10.9.1 lladdr 02:00:00:00:0a:01 dev cl-tap nud permanent",
        "ip route add 10.20.0.0/24 via 10.10.9.1",
    ] {
        middle.run(line);
    }
    middle.until("ping -c 1 -W 1 10.20.0.2");
    let said = middle.run("ping -q -c 20 -i 0.02 -W 5 10.20.0.2");
    assert!(said.contains("20 received, 0% packet loss"), "{said}");
    let body: Vec<u8> = (0..300_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    dir.write("body", &body);
    let root = dir.path("");
    let _http = serve(&lab.b.host, "python3", &["-m", "http.server", "--directory", root.to_str().unwrap(), "80"]);
    let got = dir.path("got");
    middle.until(&format!("curl --silent --fail --max-time 20 --output {} http://10.20.0.2/body", got.display()));
    assert!(std::fs::read(got).unwrap() == body, "the download differs");
    let report = chain.finish();
    assert!(report["chains"]["down"]["transmitted"].as_u64() > Some(200), "{report:#}");
    assert!(!middle.output("ip link show cl-tap").status.success(), "the tap interface stays");
}

/// One run makes the socket and receives, the other connects and sends a capture over and over.
fn memif(receiver_is_server: bool) {
    let dir = Dir::new();
    let [sending, receiving] = if receiver_is_server { ["client", "server"] } else { ["server", "client"] };
    let (input, output) = (quickstart(), dir.path("out.pcap"));
    let receiver = format!(
        "  ports: {{in: {{memif: {{socket: m.sock, role: {receiving}, id: 3}}}}, out: {{pcap: {{write: {output:?}}}}}}}
  nfs: {{mon: {{kind: monitor}}}}
  chains: [{{name: all, path: [in, mon, out]}}]\n"
    );
    let sender = format!(
        "  ports:
    in: {{pcap: {{read: {input:?}, loop: true, rate: 50kpps}}}}
    out: {{memif: {{socket: m.sock, role: {sending}, id: 3}}}}
  nfs: {{fwd: {{kind: forward}}}}
  chains: [{{name: all, path: [in, fwd, out]}}]\n"
    );
    let files = [dir.chain_file("receiver.yaml", &receiver), dir.chain_file("sender.yaml", &sender)];
    let [mut receiver, mut sender] = if receiver_is_server {
        let mut first = Running::start(quiet().arg(&files[0]));
        first.until_running();
        [first, Running::start(quiet().arg(&files[1]))]
    } else {
        let mut first = Running::start(quiet().arg(&files[1]));
        first.until_running();
        [Running::start(quiet().arg(&files[0])), first]
    };
    sender.until_running();
    receiver.until_running();
    receiver.until_file(&output, 3_000_000);
    let sent = sender.finish();
    let received = receiver.finish();
    let frames = capture::read(&output).frames;
    assert_eq!(received["ledger"]["transmitted"], frames.len());
    assert!(sent["ledger"]["transmitted"].as_u64() >= Some(frames.len() as u64), "{sent:#}");
    assert!(!dir.path("m.sock").exists(), "the socket stays");
    let input = capture::read(&input).frames;
    if receiver_is_server {
        assert_cyclic(&input, &frames, true);
    } else {
        // What was sent before anybody was there is lost, and counted by the sender; what comes is whole.
        for frame in &frames {
            let mut frame = frame.clone();
            frame[..12].rotate_left(6);
            assert!(input.contains(&frame), "{frame:02x?}");
        }
    }
}

#[test]
fn memif_between_two_runs() {
    memif(true);
}

#[test]
fn memif_to_whoever_comes_later() {
    memif(false);
}

#[test]
fn a_device_that_is_all_ways_ready() {
    let dir = Dir::new();
    let spec = "  ports: {in: {vdev: \"net_null0,size=64\"}, out: {vdev: net_null1}}
  nfs: {fwd: {kind: forward}}
  chains: [{name: all, path: [in, fwd, out]}]\n";
    let report = run(&dir.chain_file("null.yaml", spec), &["--duration", "300ms"]);
    assert!(report["ledger"]["transmitted"].as_u64() > Some(10_000), "{report:#}");
    let drops: Vec<_> = report["ledger"]["dropped"].as_object().unwrap().keys().cloned().collect();
    assert!(drops.iter().all(|reason| reason == "shed" || reason == "no_buffer"), "{report:#}");
}

#[test]
fn captures_by_dpdks_own_driver() {
    let dir = Dir::new();
    let (input, output) = (quickstart(), dir.path("out.pcap"));
    let devargs = format!("net_pcap0,rx_pcap={},tx_pcap={}", input.display(), output.display());
    let spec = format!(
        "  ports: {{dev: {{vdev: {devargs:?}}}}}
  nfs: {{fwd: {{kind: forward}}}}
  chains: [{{name: all, path: [dev, fwd, dev]}}]\n"
    );
    let mut chain = Running::start(quiet().arg(dir.chain_file("pcap.yaml", &spec)));
    chain.until_running();
    // The driver writes whole blocks; the last one comes when the port is closed.
    chain.until_file(&output, std::fs::metadata(&input).unwrap().len() / 4096 * 4096 / 2);
    let report = chain.finish();
    let frames = capture::read(&output).frames;
    assert_eq!(report["ledger"]["transmitted"], frames.len());
    assert!(frames.len() > 100, "{report:#}");
    assert_cyclic(&capture::read(&input).frames, &frames, true);
}

#[test]
fn frames_longer_than_the_file_allows_are_counted() {
    let dir = Dir::new();
    let (input, output) = (quickstart(), dir.path("out.pcap"));
    let spec = format!(
        "  defaults: {{max_frame_bytes: 256}}
  ports: {{in: {{pcap: {{read: {input:?}}}}}, out: {{pcap: {{write: {output:?}}}}}}}
  nfs: {{mon: {{kind: monitor}}}}
  chains: [{{name: all, path: [in, mon, out]}}]\n"
    );
    let report = run(&dir.chain_file("short.yaml", &spec), &[]);
    assert!(capture::read(&output).frames == capture::matching(&input, "less 256"));
    let long = capture::matching(&input, "greater 257").len();
    assert_eq!(report["ledger"]["dropped"], serde_json::json!({"too_long": long}), "{report:#}");
}

/// All NFs in a row, for packets of the generator.
const NFS: &str = "  nfs:
    fwd: {kind: forward}
    fw: {kind: firewall, args: {rules_inline: [allow udp], default: deny}}
    mon: {kind: monitor}
    rt: {kind: l3fwd, args: {routes_inline: [\"198.18.0.0/15 via 02:00:00:00:0c:02\"]}}\n";

#[test]
fn jumbo_frames_go_through_nfs() {
    // With FCS: the usual jumbo frame, and the largest that can be asked for.
    for frame_bytes in [9018_u16, 9022] {
        let dir = Dir::new();
        let output = dir.path("out.pcap");
        let spec = format!(
            "  ports:
    in: {{generator: {{frame_bytes: {frame_bytes}, flows: 10, count: 1000}}}}
    out: {{pcap: {{write: {output:?}}}}}
{NFS}  chains: [{{name: all, path: [in, fwd, fw, mon, rt, out]}}]\n"
        );
        let report = run(&dir.chain_file("jumbo.yaml", &spec), &[]);
        assert_eq!(report["ledger"]["transmitted"], 1000, "{report:#}");
        let frames = capture::read(&output).frames;
        assert_eq!(frames.len(), 1000);
        assert!(frames.iter().all(|f| f.len() == usize::from(frame_bytes) - 4));
    }
}

fn jumbo_over_veth(port: &str) {
    let Some(net) = Namespace::new() else { return };
    net.run("ip link add cl-a mtu 9000 type veth peer name cl-b mtu 9000");
    net.bare("cl-a");
    net.bare("cl-b");
    let dir = Dir::new();
    let output = dir.path("out.pcap");
    let spec = format!(
        "  ports:
    in: {{generator: {{frame_bytes: 9018, flows: 10, rate: 5kpps}}}}
    a: {{{port}: {{interface: cl-a}}}}
    b: {{{port}: {{interface: cl-b}}}}
    out: {{pcap: {{write: {output:?}}}}}
{NFS}  chains:
    - {{name: there, path: [in, fwd, fw, a]}}
    - {{name: here, path: [b, mon, rt, out]}}
"
    );
    let mut chain = Running::start(net.chainline().arg(dir.chain_file("jumbo.yaml", &spec)));
    chain.until_running();
    chain.until_file(&output, PCAP_HEADERS[0] + 300 * (PCAP_HEADERS[1] + 9014));
    let report = chain.finish();
    let frames = capture::read(&output).frames;
    assert!(frames.len() >= 300 && frames.iter().all(|f| f.len() == 9014), "{report:#}");
    assert_eq!(report["chains"]["here"]["transmitted"], frames.len());
}

#[test]
fn jumbo_frames_go_over_veth() {
    jumbo_over_veth("af_packet");
}

#[test]
fn a_run_leaves_nothing_behind() {
    let own = |dir: &Path, prefix: &str| -> usize {
        let entries = std::fs::read_dir(dir).map(|d| d.flatten().collect()).unwrap_or_else(|_| Vec::new());
        entries.iter().filter(|e| e.file_name().to_string_lossy().starts_with(prefix)).count()
    };
    let dir = Dir::new();
    let spec = "  ports: {in: {vdev: net_null0}, out: {sink: {}}}
  nfs: {fwd: {kind: forward}}
  chains: [{name: all, path: [in, fwd, out]}]\n";
    let mut chain = Running::start(quiet().arg(dir.chain_file("null.yaml", spec)));
    chain.until_running();
    let pid = chain.pid().as_raw_nonzero().to_string();
    let nfs = Command::new("pgrep").args(["-P", &pid]).output().unwrap();
    let nfs: Vec<String> = String::from_utf8_lossy(&nfs.stdout).lines().map(str::to_owned).collect();
    assert_eq!(nfs.len(), 1, "one process for one NF");
    chain.finish();
    for process in nfs.iter().chain([&pid]) {
        assert!(!Path::new(&format!("/proc/{process}")).exists(), "process {process} stays");
    }
    assert_eq!(own(Path::new("/dev/shm"), "chainline"), 0);
    assert_eq!(own(&dir.path(""), "null"), 1, "only the chain file is there");
}
