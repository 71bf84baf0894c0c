//! Files for the NF under measurement: real ones, to a device that takes everything. What the host does about them comes
//! after the burst and is not measured.

#[path = "../../../forward/benches/support/mod.rs"]
pub mod support;

use chainline_storage::{Choice, Storage};
use std::sync::Arc;
use support::{BURST, Files, Rig};

pub fn args() -> serde_json::Value {
    serde_json::json!({"file": "/dev/null"})
}

pub fn rig(flows: usize) -> Rig {
    Rig::new(&nf_logger::KIND, args(), flows).with_files(|specs| {
        // Io_uring is not there under valgrind.
        let storage = Storage::open(&[specs], Choice::Thread, Arc::new(|| {}));
        Box::new(Null(storage.unwrap_or_else(|(_, e)| panic!("{e}")), 0))
    })
}

/// The files, and the time, which goes on while they are waited for: what is old enough is written.
struct Null(Storage, u64);

impl Files for Null {
    fn lend(&mut self) -> Option<&mut dyn chainline_nf::Storage> {
        self.0.files(0, self.1)
    }
    fn after(&mut self) {
        while self.0.room(0) < BURST as u32 {
            self.1 += 1_000_000_000;
            self.0.submit(self.1);
            self.0.complete(self.1, &mut |_, _, _| {});
            std::thread::yield_now();
        }
    }
}
