//! For tests that call an NF themselves. [`crate::golden`] (feature `golden`) is the way for most; this is for what a file
//! of packets and verdicts cannot say.
//!
//! ```
//! use chainline_nf::{Burst, Ctx, Env, Kind, Packet, PacketMeta, Verdict, testing::NoHolds};
//! use std::{path::Path, sync::atomic::AtomicU64};
//!
//! fn first_verdict(kind: &Kind, args: serde_json::Value, frame: &mut [u8]) -> Verdict {
//!     let mut env = Env::new(Path::new("."), &[]);
//!     let mut nf = (kind.build)(args, &mut env).unwrap();
//!     let counters: Vec<_> = env.into_declared().counters.iter().map(|_| AtomicU64::new(0)).collect();
//!     let mut burst = Burst::new();
//!     let len = frame.len() as u16;
//!     burst.push(Packet::new(frame, 0, len, PacketMeta::default()).unwrap()).unwrap();
//!     nf.process(&mut burst, &mut Ctx::new(0, &counters, &mut NoHolds));
//!     burst.verdicts()[0]
//! }
//! ```

use crate::{HoldId, Holds, Packet, Verdict};

/// A host without places: nothing can be held.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHolds;

impl Holds for NoHolds {
    fn reserve(&mut self) -> Option<HoldId> {
        None
    }
    fn with(&mut self, _: HoldId, _: &mut dyn FnMut(&mut Packet<'_>)) -> bool {
        false
    }
    fn release(&mut self, _: HoldId, _: Verdict) -> bool {
        false
    }
}
