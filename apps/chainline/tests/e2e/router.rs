//! The kernels of two hosts take the router for one: they find it by ARP and neighbour discovery, ping it, are told by it
//! what they cannot reach, learn from it how long packets may be, and talk through it.

use crate::command::{Dir, Running};
use crate::lab::{Lab, Namespace, serve};
use serde_json::Value;
use std::path::PathBuf;

/// The router's two interfaces are the two of the middle; the second takes shorter packets than the link does.
fn spec(dir: &Dir, isolation: &str) -> PathBuf {
    let spec = format!(
        "  defaults: {{isolation: {isolation}}}
  ports: {{a: {{af_packet: {{interface: cl-a}}}}, b: {{af_packet: {{interface: cl-b}}}}}}
  nfs:
    rt:
      kind: router
      divert: [a, b]
      args:
        interfaces:
          - {{name: a, mac: \"02:00:00:00:0a:01\", addresses: [10.10.0.1/24, \"2001:db8:a::1/64\"]}}
          - {{name: b, mac: \"02:00:00:00:0b:01\", addresses: [10.20.0.1/24, \"2001:db8:b::1/64\"], mtu: 1400}}
        neighbours:
          - {{address: 10.10.0.2, mac: \"02:00:00:00:0a:02\"}}
          - {{address: \"2001:db8:a::2\", mac: \"02:00:00:00:0a:02\"}}
          - {{address: 10.20.0.2, mac: \"02:00:00:00:0b:02\"}}
          - {{address: \"2001:db8:b::2\", mac: \"02:00:00:00:0b:02\"}}
        routes_inline: [10.30.0.0/16 via 10.20.0.2]
  chains:
    - {{name: from-a, path: [a, rt, b]}}
    - {{name: from-b, path: [b, rt, a]}}
"
    );
    dir.chain_file("router.yaml", &spec)
}

/// What ping says, whether or not there are replies.
fn ping(from: &Namespace, how: &str) -> String {
    let output = from.output(&format!("ping -c 1 -W 5 {how}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A ping gets this word from this address.
fn told(from: &Namespace, how: &str, by: &str, word: &str) {
    let said = ping(from, how);
    assert!(said.contains(&format!("From {by}")) && said.contains(word), "ping {how}: expected {word:?} in\n{said}");
}

/// None of 20 pings is lost.
fn answers(from: &Namespace, to: &str) {
    let said = from.run(&format!("ping -q -c 20 -i 0.02 -W 5 {to}"));
    assert!(said.contains("20 received, 0% packet loss"), "{said}");
}

fn hop(isolation: &str) {
    let Some(lab) = Lab::new(1500) else { return };
    let dir = Dir::new();
    let [a, b] = [&lab.a.host, &lab.b.host];
    // The laboratory tells its hosts where the gates are: here they are to find out.
    for (host, gates) in [(a, ["10.10.0.1", "2001:db8:a::1"]), (b, ["10.20.0.1", "2001:db8:b::1"])] {
        gates.iter().for_each(|gate| drop(host.run(&format!("ip neigh del {gate} dev eth0"))));
    }
    let mut chain = Running::start(lab.middle.chainline().arg(spec(&dir, isolation)));
    chain.until_running();

    // To it, from either side, and to the address of its other side.
    a.until("ping -c 1 -W 1 10.10.0.1");
    for (host, gate) in
        [(a, "10.10.0.1"), (a, "2001:db8:a::1"), (a, "10.20.0.1"), (b, "10.20.0.1"), (b, "2001:db8:b::1")]
    {
        answers(host, gate);
    }
    for (host, gate, mac) in [
        (a, "10.10.0.1", "02:00:00:00:0a:01"),
        (a, "2001:db8:a::1", "02:00:00:00:0a:01"),
        (b, "10.20.0.1", "02:00:00:00:0b:01"),
        (b, "2001:db8:b::1", "02:00:00:00:0b:01"),
    ] {
        let said = host.run(&format!("ip neigh show {gate} dev eth0"));
        assert!(said.contains(&format!("lladdr {mac}")) && !said.contains("PERMANENT"), "{gate}: {said}");
    }
    // Its link-local address, which it made itself.
    answers(a, "fe80::ff:fe00:a01%eth0");
    // A host that wants its address for itself is told that it is taken.
    a.run("sysctl -qw net.ipv6.conf.eth0.accept_dad=1");
    a.run("ip addr add 2001:db8:a::1/64 dev eth0");
    a.until_it_says("ip -6 addr show dev eth0 to 2001:db8:a::1", |said| said.contains("dadfailed"));
    a.run("ip addr del 2001:db8:a::1/64 dev eth0");

    // Through it; the other side counts one hop less.
    answers(a, lab.b.v4);
    answers(a, lab.b.v6);
    answers(b, lab.a.v4);
    let said = ping(a, lab.b.v4);
    assert!(said.contains("ttl=63"), "{said}");

    // What traceroute goes by.
    told(a, "-t 1 10.20.0.2", "10.10.0.1", "Time to live exceeded");
    told(a, "-t 1 2001:db8:b::2", "2001:db8:a::1", "Time exceeded: Hop limit");
    told(b, "-t 1 10.10.0.2", "10.20.0.1", "Time to live exceeded");
    // Nobody there; nowhere.
    told(a, "10.20.0.9", "10.10.0.1", "Destination Host Unreachable");
    told(a, "192.0.2.1", "10.10.0.1", "Destination Net Unreachable");
    told(a, "2001:db8:b::9", "2001:db8:a::1", "Destination unreachable: Address unreachable");
    told(a, "2001:db8:c::1", "2001:db8:a::1", "Destination unreachable: No route");
    // Too long for the far side; and what is just short enough is not.
    told(a, "-M do -s 1373 10.20.0.2", "10.10.0.1", "Frag needed and DF set (mtu = 1400)");
    told(a, "-M do -s 1353 2001:db8:b::2", "2001:db8:a::1", "Packet too big: mtu=1400");
    for (size, to, most) in [(1372, lab.b.v4, "1400"), (1352, lab.b.v6, "1400")] {
        let said = ping(a, &format!("-M do -s {size} {to}"));
        assert!(said.contains("1 received"), "{said}");
        let route = a.run(&format!("ip route get {to}"));
        assert!(route.contains(&format!("mtu {most}")), "the kernel has not learnt it: {route}");
    }

    // TCP with segments for 1500 bytes learns that as well: without the errors it would stand still.
    a.run("ip route flush cache");
    let _iperf = serve(b, "iperf3", &["--server", "--one-off"]);
    let bulk = format!("iperf3 --json --connect-timeout 1000 --bytes 20M --window 256K --client {}", lab.b.v4);
    // It calls a refused connection a success.
    let said = a.until_it_says(&bulk, |said| !said.contains("\"error\""));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert!(said["end"]["sum_received"]["bytes"].as_f64() > Some(0.0), "{said:#}");

    // The ledger has been judged.
    let report = chain.finish();
    // How many segments one acknowledgement is for is the receiver's business.
    for (chain, least) in [("from-a", 1000), ("from-b", 10)] {
        assert!(report["chains"][chain]["transmitted"].as_u64() > Some(least), "{chain}: {report:#}");
    }
    // What was an error went back as one and was not dropped; nothing came that nobody could read.
    let dropped = &report["ledger"]["dropped"];
    for reason in ["no_route", "no_neighbour", "ttl_expired", "too_big", "malformed", "bad_checksum", "other_host"] {
        assert_eq!(dropped[reason].as_u64().unwrap_or(0), 0, "{reason}: {report:#}");
    }
    assert_eq!(report["happenings"], Value::Array(Vec::new()));
}

#[test]
fn a_hop_between_kernels() {
    hop("process");
}

#[test]
fn a_hop_between_kernels_fused() {
    hop("fused");
}
