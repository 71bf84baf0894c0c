//! Memory that several processes share: packet regions, queues, doorbells, instance pages.
//!
//! Everything here is written so that the *other* side may be hostile: nothing read from shared memory is used
//! before it was copied and checked, no reference is taken to memory whose content decides about safety, and
//! shared structures hold offsets and indexes, never pointers. What the other side can do is waste its own
//! packets and its own time.
//!
//! Threads: a [`ring::Producer`] or [`ring::Consumer`] belongs to one thread. [`bell::Bell`] may be rung by any.
//!
//! Deliberately absent: policy. Who may hold which buffer, and what happens when an instance dies, is the
//! manager's business.

pub mod bell;
pub mod clock;
pub mod counts;
pub mod desc;
pub mod handover;
pub mod mapping;
pub mod os;
pub mod page;
pub mod prefetch;
pub mod region;
pub mod ring;
mod sync;

pub use bell::Bell;
pub use clock::Clock;
#[cfg(not(loom))]
pub use counts::Counts;
pub use desc::{BufId, Desc};
pub use mapping::{Mapping, PageKind};
pub use page::{Page, PageLayout};
pub use region::{HEADROOM, Region, Slots};
pub use ring::{Consumer, Producer, Ring};
