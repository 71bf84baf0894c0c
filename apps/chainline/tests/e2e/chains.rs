//! Which chain a packet goes through: the classifier, tenants, and NFs that divert. The judge is libpcap's filter.

use crate::capture::{self, matching};
use crate::command::{Dir, repository, run};
use crate::isolation::ISOLATIONS;
use std::path::PathBuf;
use std::process::Command;

fn quickstart() -> PathBuf {
    repository().join("examples/captures/quickstart.pcap").canonicalize().unwrap()
}

/// Each output holds exactly those packets of the capture that its filter matches, unchanged and in order.
fn assert_apart(dir: &Dir, outputs: &[(&str, &str)]) {
    let mut all = 0;
    for (output, filter) in outputs {
        let expected = matching(&quickstart(), filter);
        assert!(!expected.is_empty(), "the capture has nothing for {filter}");
        let found = capture::read(&dir.path(&format!("{output}.pcap"))).frames;
        assert!(found == expected, "{output}: {} packets, expected {}: {filter}", found.len(), expected.len());
        all += found.len();
    }
    assert_eq!(all, capture::read(&quickstart()).frames.len(), "the filters part the capture");
}

#[test]
fn the_first_chain_that_matches_gets_the_packet() {
    let dir = Dir::new();
    let chains = [
        ("names", "proto: udp, dst_port: 53", "udp dst port 53"),
        ("web", "proto: tcp, dst_port: [80-81, 443]", "tcp and (dst port 80 or dst port 81 or dst port 443)"),
        ("back", "src: 10.20.0.0/24, src_port: 80", "src net 10.20.0.0/24 and src port 80"),
        (
            "pings",
            "proto: icmp, dst: [10.20.0.2/32, 192.0.2.0/24]",
            "icmp and (dst host 10.20.0.2 or dst net 192.0.2.0/24)",
        ),
        ("six", "src: \"2001:db8:b::/48\"", "src net 2001:db8:b::/48"),
    ];
    let (mut ports, mut files, mut outputs) = (String::new(), String::new(), Vec::new());
    let mut before = String::from("less 1");
    for (name, matches, filter) in chains {
        ports += &format!("    {name}: {{pcap: {{write: {:?}}}}}\n", dir.path(&format!("{name}.pcap")));
        files += &format!("    - {{name: {name}, match: {{{matches}}}, path: [in, mon, {name}]}}\n");
        outputs.push((name, format!("({filter}) and not ({before})")));
        before += &format!(" or ({filter})");
    }
    outputs.push(("rest", format!("not ({before})")));
    let spec = format!(
        "  ports:
    in: {{pcap: {{read: {:?}}}}}
    rest: {{pcap: {{write: {:?}}}}}
{ports}  nfs: {{mon: {{kind: monitor}}}}
  chains:
{files}    - {{name: rest, path: [in, mon, rest]}}
",
        quickstart(),
        dir.path("rest.pcap")
    );
    let file = dir.chain_file("classes.yaml", &spec);
    let report = run(&file, &[]);
    let outputs: Vec<(&str, &str)> = outputs.iter().map(|(name, filter)| (*name, filter.as_str())).collect();
    assert_apart(&dir, &outputs);
    for (name, filter) in outputs {
        assert_eq!(report["chains"][name]["transmitted"], matching(&quickstart(), filter).len(), "{name}: {report:#}");
    }
}

#[test]
fn what_matches_no_chain_is_counted() {
    let dir = Dir::new();
    let spec = format!(
        "  ports: {{in: {{pcap: {{read: {:?}}}}}, udp: {{pcap: {{write: {:?}}}}}}}
  chains: [{{name: udp, match: {{proto: udp}}, path: [in, udp]}}]\n",
        quickstart(),
        dir.path("udp.pcap")
    );
    let report = run(&dir.chain_file("udp.yaml", &spec), &[]);
    assert!(capture::read(&dir.path("udp.pcap")).frames == matching(&quickstart(), "udp"));
    assert_eq!(report["ledger"]["dropped"]["no_match"], matching(&quickstart(), "not udp").len(), "{report:#}");
}

#[test]
fn tenants_get_their_own_packets_from_one_port() {
    // Threads could reach every tenant's buffers, so they are refused here.
    for isolation in ["process", "fused"] {
        let dir = Dir::new();
        let spec = format!(
            "  defaults: {{isolation: {isolation}}}
  ports:
    in: {{pcap: {{read: {:?}}}}}
    alpha: {{pcap: {{write: {:?}}}}}
    beta: {{pcap: {{write: {:?}}}}}
  nfs: {{mon-a: {{kind: monitor}}, mon-b: {{kind: monitor}}}}
  chains:
    - {{name: alpha, tenant: alpha, match: {{proto: tcp}}, path: [in, mon-a, alpha]}}
    - {{name: beta, tenant: beta, path: [in, mon-b, beta]}}
",
            quickstart(),
            dir.path("alpha.pcap"),
            dir.path("beta.pcap")
        );
        run(&dir.chain_file("tenants.yaml", &spec), &[]);
        assert_apart(&dir, &[("alpha", "tcp"), ("beta", "not tcp")]);
    }
}

#[test]
fn tenants_at_their_own_ports_keep_apart() {
    let dir = Dir::new();
    let spec = format!(
        "  ports:
    in-a: {{generator: {{frame_bytes: 64, flows: 100, count: 20000, src: 10.1.0.0/16, seed: 1}}}}
    in-b: {{generator: {{mix: csit-imix, flows: 100, count: 10000, src: 10.2.0.0/16, seed: 2}}}}
    out-a: {{pcap: {{write: {:?}}}}}
    out-b: {{pcap: {{write: {:?}}}}}
  nfs:
    a: {{kind: forward}}
    b: {{kind: monitor}}
  chains:
    - {{name: a, tenant: alpha, path: [in-a, a, out-a]}}
    - {{name: b, tenant: beta, path: [in-b, b, out-b]}}
",
        dir.path("a.pcap"),
        dir.path("b.pcap")
    );
    let report = run(&dir.chain_file("tenants.yaml", &spec), &[]);
    for (name, count, net) in [("a", 20_000, "10.1.0.0/16"), ("b", 10_000, "10.2.0.0/16")] {
        let path = dir.path(&format!("{name}.pcap"));
        assert_eq!(matching(&path, &format!("src net {net}")).len(), count, "{report:#}");
        assert_eq!(capture::read(&path).frames.len(), count, "{name} has packets of others");
    }
}

#[test]
fn diverted_packets_come_out_where_they_were_sent() {
    let here = repository().canonicalize().unwrap();
    let dir = Dir::new();
    let object = dir.path("sort.so");
    let built = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-I"])
        .arg(here.join("crates/nf-abi/include"))
        .arg("-o")
        .arg(&object)
        .arg(here.join("apps/chainline/tests/e2e/sort.c"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for isolation in ISOLATIONS {
        let [names, rest, out] = ["names", "rest", "out"].map(|name| dir.path(&format!("{name}.pcap")));
        // The wall denies pings, so that those that come out were not before it.
        let spec = format!(
            "  defaults: {{isolation: {isolation}}}
  ports:
    in: {{pcap: {{read: {:?}}}}}
    dns: {{pcap: {{write: {names:?}}}}}
    rest: {{pcap: {{write: {rest:?}}}}}
    out: {{pcap: {{write: {out:?}}}}}
  nfs:
    sort: {{kind: ./sort.so, divert: [names, last, rest]}}
    wall: {{kind: firewall, args: {{rules_inline: [deny icmp, deny icmp6], default: allow}}}}
    last: {{kind: monitor}}
    mon: {{kind: monitor}}
  chains:
    - {{name: names, match: {{vlan: 99}}, path: [in, mon, dns]}}
    - {{name: all, path: [in, sort, wall, last, out]}}
",
            quickstart()
        );
        let report = run(&dir.chain_file("divert.yaml", &spec), &[]);
        let here = |name: &str| {
            let mut frames = capture::read(&dir.path(&format!("{name}.pcap"))).frames;
            frames.sort();
            frames
        };
        // ICMPv6 behind hop-by-hop options looks like another protocol to this NF, so it meets the wall.
        let out = "not udp and not arp and not ip6[6] = 0";
        for (name, filter) in [("names", "udp"), ("rest", "arp"), ("out", out)] {
            let mut expected = matching(&quickstart(), filter);
            expected.sort();
            assert_eq!(here(name).len(), expected.len(), "{isolation}: {name}: {report:#}");
            assert!(here(name) == expected, "{isolation}: {name}");
        }
        assert_eq!(report["nfs"]["last"]["received"], matching(&quickstart(), out).len());
        let met = "not udp and not arp and not icmp and not ip6[6] = 58";
        let wall = &report["nfs"]["wall"];
        assert_eq!(wall["received"], matching(&quickstart(), met).len(), "{report:#}");
        assert_eq!(wall["dropped"]["denied"], matching(&quickstart(), "ip6[6] = 0").len(), "{report:#}");
    }
}
