//! Overload, in several ways: nothing is wasted, nothing is stuck afterwards, and who is not concerned goes on. Judged by
//! counts alone: how fast it goes is for benchmarks.

use crate::command::{Dir, Running, run};
use crate::lab::{Lab, ROUTES, serve};
use serde_json::Value;

/// 10 us a packet.
const SLOW: &str = "{kind: synthetic, args: {cost_cycles: 26000, tsc_hz: 2600000000, iteration_cycles: 5}}";

fn number(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

/// Runs it; besides what holds for each run, which is that nothing is wasted, it ended by itself with nothing inside.
fn settled(spec: &str) -> Value {
    let dir = Dir::new();
    let report = run(&dir.chain_file("c", spec), &[]);
    assert_eq!(number(&report, "/ledger/held"), 0, "{report:#}");
    report
}

fn assert_only_shed(report: &Value, chain: &str) {
    let chain = &report["chains"][chain];
    let [received, transmitted, shed] = ["received", "transmitted", "shed"].map(|k| chain[k].as_u64().unwrap());
    assert!(transmitted > 0 && shed > 0 && received == transmitted + shed, "{report:#}");
}

/// Twenty times what it can do, all the time.
#[test]
fn more_than_it_can_do() {
    let report = settled(&format!(
        "  defaults: {{queue: 1024}}
  ports: {{in: {{generator: {{frame_bytes: 64, flows: 100, count: 400000, rate: 2Mpps}}}}, out: {{sink: {{}}}}}}
  nfs: {{quick: {{kind: forward}}, slow: {SLOW}, end: {{kind: forward}}}}
  chains: [{{name: all, path: [in, quick, slow, end, out]}}]\n"
    ));
    assert_only_shed(&report, "all");
    assert!(number(&report, "/chains/all/backpressure/throttles") >= 1, "{report:#}");
    assert_eq!(report["chains"]["all"]["backpressure"]["target_us"], 500.0);
    let limit = report["chains"]["all"]["backpressure"]["limit"].as_u64();
    assert!(limit.is_some_and(|n| n < 4096), "{report:#}");
}

/// Each burst is more than the queues hold.
#[test]
fn bursts() {
    let report = settled(&format!(
        "  defaults: {{queue: 512}}
  ports:
    in:
      generator:
        {{frame_bytes: 64, flows: 100, count: 100000, rate: 5Mpps, lossless: false, schedule: {{bursts: {{packets: 10000, gap_us: 20000}}}}}}
    out: {{sink: {{}}}}
  nfs: {{quick: {{kind: forward}}, slow: {SLOW}}}
  chains: [{{name: all, path: [in, quick, slow, out]}}]\n"
    ));
    assert_only_shed(&report, "all");
    // Whether the loop that throttles looks within a burst is a matter of time; what does not fit is not.
    assert!(number(&report, "/chains/all/shed") > number(&report, "/chains/all/transmitted"), "{report:#}");
}

/// Each packet is of a flow that nobody has seen.
#[test]
fn a_flood_of_new_flows() {
    let report = settled(&format!(
        "  ports: {{in: {{generator: {{frame_bytes: 64, flows: 300000, count: 300000, rate: 3Mpps}}}}, out: {{sink: {{}}}}}}
  nfs: {{mon: {{kind: monitor}}, slow: {SLOW}}}
  chains: [{{name: all, path: [in, mon, slow, out]}}]\n"
    ));
    assert_only_shed(&report, "all");
    assert_eq!(number(&report, "/nfs/mon/transmitted"), number(&report, "/nfs/slow/received"));
}

/// The chains share an NF. One is overloaded behind it; the other, whose source waits rather than lose anything, is not
/// to wait for long.
#[test]
fn the_neighbour_goes_on() {
    const COUNT: u64 = 100_000;
    let report = settled(&format!(
        "  defaults: {{queue: 1024}}
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 100, count: 400000, rate: 2Mpps}}}}
    in2: {{generator: {{frame_bytes: 64, flows: 100, count: {COUNT}, rate: 400kpps, lossless: true}}}}
    out: {{sink: {{}}}}
    out2: {{sink: {{}}}}
  nfs: {{shared: {{kind: forward}}, slow: {SLOW}}}
  chains:
    - {{name: slow, path: [in, shared, slow, out]}}
    - {{name: neighbour, path: [in2, shared, out2]}}\n"
    ));
    assert_only_shed(&report, "slow");
    assert!(number(&report, "/chains/slow/backpressure/throttles") >= 1, "{report:#}");
    assert_eq!(number(&report, "/chains/neighbour/transmitted"), COUNT, "{report:#}");
}

/// A source that loses nothing waits for a throttled chain, too.
#[test]
fn a_lossless_source_waits() {
    const COUNT: u64 = 30_000;
    let report = settled(&format!(
        "  defaults: {{queue: 1024, backpressure: {{threshold_us: 0}}}}
  ports: {{in: {{generator: {{frame_bytes: 64, flows: 100, count: {COUNT}, lossless: true}}}}, out: {{sink: {{}}}}}}
  nfs: {{quick: {{kind: forward}}, slow: {SLOW}}}
  chains: [{{name: all, path: [in, quick, slow, out]}}]\n"
    ));
    assert_eq!(number(&report, "/chains/all/transmitted"), COUNT, "{report:#}");
    assert!(number(&report, "/chains/all/backpressure/throttles") >= 1, "{report:#}");
}

/// The value of a counter of the kernel's.
fn counter(host: &crate::lab::Namespace, name: &str) -> u64 {
    let said = host.run(&format!("nstat -a -s -z {name}"));
    let line = said.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {said}"));
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no number: {line}"))
}

/// TCP through an overloaded chain hears of it before packets are lost: the receiver sees marks, and the sender that the
/// receiver saw them. Without the switch, and from a host that does not want them, no packet is marked.
#[test]
fn tcp_reacts_to_marks() {
    for (ecn, wants) in [(true, true), (true, false), (false, true)] {
        let Some(lab) = Lab::new(1500) else { return };
        let dir = Dir::new();
        let spec = format!(
            "  defaults: {{backpressure: {{ecn: {ecn}}}}}
  ports: {{a: {{af_packet: {{interface: cl-a}}}}, b: {{af_packet: {{interface: cl-b}}}}}}
  nfs:
    rt: {{kind: l3fwd, args: {{routes_inline: {ROUTES}}}}}
    slow: {{kind: synthetic, args: {{cost_cycles: 52000, tsc_hz: 2600000000, iteration_cycles: 5}}}}
  chains:
    - {{name: up, path: [a, rt, slow, b]}}
    - {{name: down, path: [b, rt, a]}}\n"
        );
        let [client, server] = [&lab.a.host, &lab.b.host];
        // 1: asks for it; 0: does not even answer.
        for host in [client, server] {
            host.run(&format!("sysctl -qw net.ipv4.tcp_ecn={}", u8::from(wants)));
        }
        let mut chain = Running::start(lab.middle.chainline().arg(dir.chain_file("ecn.yaml", &spec)));
        chain.until_running();
        client.until(&format!("ping -c 1 -W 1 {}", lab.b.v4));
        for address in [lab.b.v4, lab.b.v6] {
            let _iperf = serve(server, "iperf3", &["--server", "--one-off"]);
            let bulk = format!("iperf3 --json --connect-timeout 1000 --parallel 8 --bytes 40M --client {address}");
            client.until_it_says(&bulk, |said| !said.contains("\"error\""));
        }
        let seen = ["IpExtInCEPkts", "Ip6InCEPkts"].map(|name| counter(server, name));
        let capable = ["IpExtInECT0Pkts", "Ip6InECT0Pkts"].map(|name| counter(server, name));
        let heard = counter(client, "TcpExtTCPDeliveredCE");
        let report = chain.finish();
        let marked = number(&report, "/chains/up/ecn_marked");
        if ecn && wants {
            let all = marked > 0 && seen.iter().all(|n| *n > 0) && heard > 0;
            assert!(all, "{marked}, seen {seen:?} of {capable:?}, heard {heard}: {report:#}");
            assert!(seen.iter().sum::<u64>() <= marked, "{seen:?} of {marked}: {report:#}");
        } else {
            assert_eq!((marked, seen, heard), (0, [0, 0], 0), "{report:#}");
        }
    }
}
