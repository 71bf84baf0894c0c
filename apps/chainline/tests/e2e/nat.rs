//! Real programs on real kernels through address translation: who is inside talks to who is outside and is seen under an
//! address of the pool, errors find their way back, and nobody outside begins.

use crate::command::{Dir, Running};
use crate::lab::{Lab, ROUTES, serve};
use serde_json::Value;

/// An external address that is neither network's own: both sides reach it through the middle.
const EXTERNAL: &str = "198.51.100.7";

const REFUSED: &str = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
s.connect(('10.20.0.2', 9))
s.send(b'anybody there?')
try:
    s.recv(1)
except ConnectionRefusedError:
    print('refused')
";

fn translated(isolation: &str) {
    let Some(lab) = Lab::new(1500) else { return };
    let dir = Dir::new();
    let spec = format!(
        "  defaults: {{isolation: {isolation}}}
  ports: {{a: {{af_packet: {{interface: cl-a}}}}, b: {{af_packet: {{interface: cl-b}}}}}}
  nfs:
    nat: {{kind: nat, args: {{inside: [10.10.0.0/24], pool: [{EXTERNAL}], inside_chains: [0], flows: 4096}}}}
    rt: {{kind: l3fwd, args: {{routes_inline: {ROUTES}}}}}
  chains:
    - {{name: out, path: [a, nat, rt, b]}}
    - {{name: in, path: [b, nat, rt, a]}}
"
    );
    let file = dir.chain_file("nat.yaml", &spec);
    let [a, b] = [&lab.a.host, &lab.b.host];
    let mut chain = Running::start(lab.middle.chainline().arg(file));
    chain.until_running();

    // Identifiers of ICMP are translated as ports are.
    a.until("ping -c 1 -W 1 10.20.0.2");
    let said = a.run("ping -q -c 20 -i 0.02 -W 5 10.20.0.2");
    assert!(said.contains("20 received, 0% packet loss"), "{said}");

    // The error quotes what left the NAT; the program is told of what it sent itself.
    let said = a.run(&format!("python3 {}", dir.write("refused.py", REFUSED).display()));
    assert_eq!(said, "refused\n");

    // A web server and curl.
    std::fs::create_dir(dir.path("www")).unwrap();
    dir.write("www/page", vec![b'x'; 300_000]);
    let www = dir.path("www").display().to_string();
    let _web = serve(b, "python3", &["-m", "http.server", "--directory", &www, "8000"]);
    let page = a.until("curl --silent --fail --connect-timeout 1 http://10.20.0.2:8000/page");
    assert_eq!(page.len(), 300_000);

    // Several connections at once, and whom the server sees.
    let server = serve(b, "iperf3", &["--server", "--one-off", "--json"]);
    let bulk = "iperf3 --json --connect-timeout 1000 --bytes 20M --parallel 4 --client 10.20.0.2";
    let said = a.until_it_says(bulk, |said| !said.contains("\"error\""));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert!(said["end"]["sum_received"]["bytes"].as_f64() > Some(0.0), "{said:#}");
    let seen: Value = serde_json::from_str(&server.end().stdout).unwrap();
    let peers = seen["start"]["connected"].as_array().unwrap();
    assert_eq!(peers.len(), 4, "{seen:#}");
    for peer in peers {
        assert_eq!(peer["remote_host"], EXTERNAL, "{seen:#}");
    }

    // Nobody answers who has not been asked from inside, by the external address or past it.
    for stranger in [EXTERNAL, "10.10.0.2"] {
        let said = b.output(&format!("ping -c 1 -W 1 {stranger}"));
        assert!(!said.status.success(), "{stranger} answers");
    }

    // The ledger has been judged.
    let report = chain.finish();
    let dropped = &report["ledger"]["dropped"];
    assert_eq!(dropped["destination"], 1, "straight to a host inside: {report:#}");
    for reason in ["malformed", "source", "no_port", "table_full"] {
        assert_eq!(dropped[reason].as_u64().unwrap_or(0), 0, "{reason}: {report:#}");
    }
    assert_eq!(report["happenings"], Value::Array(Vec::new()));
}

#[test]
fn programs_talk_through_nat() {
    translated("process");
}

#[test]
fn programs_talk_through_nat_fused() {
    translated("fused");
}
