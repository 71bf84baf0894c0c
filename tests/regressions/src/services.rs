//! A load balancer's file of services: refused at a place that is there, or balanced by.

use crate::file::MemFile;
use crate::rig::Rig;
use crate::rules::check_place;
use serde_json::json;

/// UDP from 10.0.0.1 to 192.0.2.10 port 53.
const DNS: &[u8] =
    b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0\x45\0\0\x1c\0\0\0\0\x40\x11\xac\xc4\x0a\0\0\x01\xc0\0\x02\x0a\
    \x04\0\0\x35\0\x08\x12\x34";

/// The target.
pub fn run(data: &[u8]) {
    let file = MemFile::new(data);
    let args = json!({"services": file.path(), "flows": 64, "flows6": 64, "table_size": 31, "reload_s": 0});
    match Rig::new(&nf_lb::KIND, args) {
        Ok(mut rig) => {
            let first = rig.play(0, &[DNS, DNS], 2);
            rig.tick(10_000_000);
            // The same backend, and so the same bytes.
            assert_eq!(first, rig.play(0, &[DNS, DNS], 1));
            assert!(rig.report().is_some());
        }
        Err(e) => check_place(data, &e),
    }
}
