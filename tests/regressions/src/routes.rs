//! Route files, native and pyasn's of `l3fwd` and those of `router`: refused at a place that is there, or read as routes
//! that fit the tables.

use crate::file::MemFile;
use crate::rig::Rig;
use crate::rules::check_place;
use chainline_nf::{Env, Error};
use serde_json::json;
use std::path::Path;

/// An IPv4 table takes 64 MiB: one input in so many is built into tables.
const BUILD_ONE_IN: usize = 64;
const IP: &[u8] = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0\x45\0\0\x14\0\0\0\0\x40\x59\x66\x8f\x0a\0\0\x01\x0a\0\0\x02";

/// The target.
pub fn run(data: &[u8]) {
    let file = MemFile::new(data);
    for format in ["native", "pyasn"] {
        let args = json!({"routes": file.path(), "format": format,
            "next_hops": [{"mac": "02:00:00:00:00:01"}, {"mac": "02:00:00:00:00:02", "src_mac": "02:00:00:00:00:03"}]});
        let read =
            nf_l3fwd::read_routes(&serde_json::from_value(args.clone()).unwrap(), &Env::new(Path::new("."), &[]));
        match read {
            Ok((v4, v6)) => {
                assert!(v4 + v6 <= data.split(|b| *b == b'\n').count());
                if data.len().is_multiple_of(BUILD_ONE_IN) {
                    build(Rig::new(&nf_l3fwd::KIND, args));
                }
            }
            Err(e) => check_place(data, &e),
        }
    }
    // Errors have identifications that go on; what matters here is that the tables hold the routes.
    let args = json!({"routes": file.path(), "icmp_errors": {"per_s": 0},
        "interfaces": [{"name": "lan", "mac": "02:00:00:00:00:02", "addresses": ["10.10.0.1/24", "2001:db8:a::1/64"]},
            {"name": "wan", "mac": "02:00:00:00:00:03", "addresses": ["10.20.0.1/24"], "chains": []}],
        "neighbours": [{"address": "10.20.0.2", "mac": "02:00:00:00:00:04"},
            {"address": "fe80::2", "mac": "02:00:00:00:00:05", "interface": "lan"}]});
    match nf_router::read_routes(&serde_json::from_value(args.clone()).unwrap(), &Env::new(Path::new("."), &[])) {
        Ok((v4, v6)) => {
            assert!(v4 + v6 <= data.split(|b| *b == b'\n').count());
            if data.len().is_multiple_of(BUILD_ONE_IN) {
                build(Rig::with_targets(&nf_router::KIND, args, &["lan", "wan"]));
            }
        }
        Err(e) => check_place(data, &e),
    }
}

fn build(rig: Result<Rig, Error>) {
    let mut rig = rig.unwrap_or_else(|e| panic!("read, but not built: {e}"));
    assert_eq!(rig.play(0, &[IP, IP], 2), rig.play(0, &[IP, IP], 1));
}
