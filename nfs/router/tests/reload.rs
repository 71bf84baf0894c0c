//! Changed route files: the next burst goes by them, interfaces stay, and a wrong one changes nothing.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use serde_json::json;
use support::{Folder, Host, ipv4, l4};

const MS: u64 = 1_000_000;

fn router(folder: &Folder) -> Host {
    let neighbour = |n: u8| json!({"address": format!("192.0.2.{n}"), "mac": format!("02:00:00:00:01:{n:02x}")});
    let args = json!({
        "interfaces": [
            {"name": "lan", "mac": "02:00:00:00:00:02", "addresses": ["10.0.0.1/24"]},
            {"name": "wan", "mac": "02:00:00:00:00:03", "addresses": ["192.0.2.1/24"]},
        ],
        "neighbours": [neighbour(2), neighbour(3)],
        "routes": "routes",
        "icmp_errors": {"per_s": 0},
    });
    folder.host_with_targets(&nf_router::KIND, args, &["lan", "wan"])
}

/// What becomes of packets to 20.0.0.1, 30.0.0.1 and the neighbour 192.0.2.3: the last byte of the hardware address, or
/// why not.
fn ways(host: &mut Host, now_ms: u64) -> Vec<Result<u8, String>> {
    let frame = |dst| ipv4(0x0a00_0007, dst, 17, 9, &l4(17, 1, 2));
    let mut frames = [frame(20 << 24 | 1), frame(30 << 24 | 1), frame(0xc000_0203)];
    let verdicts: Vec<String> = host.play(now_ms * MS, &mut frames).iter().map(|v| (*v).to_owned()).collect();
    verdicts.into_iter().zip(&frames).map(|(v, f)| if v == "wan" { Ok(f[5]) } else { Err(v) }).collect()
}

fn no(why: &str) -> Result<u8, String> {
    Err(why.to_owned())
}

#[test]
fn new_routes_take_the_place_of_old_ones() {
    let folder = Folder::new();
    folder.write("routes", "20.0.0.0/8 via 192.0.2.2\n");
    let mut host = router(&folder);
    assert_eq!(ways(&mut host, 0), [Ok(2), no("no_route"), Ok(3)]);
    folder.write("routes", "20.0.0.0/8 blackhole\n30.0.0.0/8 via 192.0.2.3\n::/0 unreachable\n");
    let now_ms = host.until_reloaded(0);
    assert_eq!(ways(&mut host, now_ms), [no("blackhole"), Ok(3), Ok(3)]);
    assert_eq!((host.counter("reloads"), host.counter("reloads_failed")), (1, 0));
    assert!(host.report().unwrap().ends_with("\n2 IPv4 and 1 IPv6 routes besides those of the interfaces\n"));
}

#[test]
fn a_wrong_file_leaves_the_old_one_in_force() {
    let folder = Folder::new();
    folder.write("routes", "20.0.0.0/8 via 192.0.2.2\n");
    let mut host = router(&folder);
    folder.write("routes", "30.0.0.0/8 via 192.0.2.3\n\n20.0.0.0/8 via 192.0.2.4\n");
    let now_ms = host.until_reloaded(0);
    assert_eq!((host.counter("reloads"), host.counter("reloads_failed")), (0, 1));
    let report = host.report().unwrap();
    assert!(report.starts_with("the file of routes has changed and is wrong, the last right one is in force: "));
    assert!(report.contains("routes:3:16: found 192.0.2.4, expected an address of args.neighbours at wan"), "{report}");
    assert_eq!(ways(&mut host, now_ms), [Ok(2), no("no_route"), Ok(3)]);
    // What interfaces and neighbours give cannot be given again.
    folder.write("routes", "192.0.2.3/32 via 192.0.2.2\n");
    let now_ms = host.until_reloaded(now_ms);
    assert!(host.report().unwrap().contains("routes:1:1: 192.0.2.3/32 is there already, in neighbours"));
    assert_eq!(ways(&mut host, now_ms), [Ok(2), no("no_route"), Ok(3)]);
}
