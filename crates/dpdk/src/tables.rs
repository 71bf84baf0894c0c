//! Look-up tables: access lists ([`Acl`]), longest prefix match ([`Fib4`], [`Fib6`]) and exact match ([`struct@Hash`], with
//! what belongs to its keys in an [`Array`]).
//!
//! A table belongs to its process. Look-ups take `&self` and may run in several threads at once; changes take
//! `&mut self`. The first table starts EAL (see [`crate::eal::private`]).

mod acl;
mod array;
mod fib;
mod hash;

pub use crate::memory::MemoryError;
pub use acl::{Acl, AclError, FieldDef, FieldKind, FieldValue, MAX_PRIORITY, Rule};
pub use array::Array;
pub use fib::{Fib4, Fib6, FibError, NONE};
pub use hash::{Hash, HashError};

use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};

/// DPDK finds its tables by name, so each needs one of its own in the process.
pub(crate) fn unique_name(kind: &str) -> CString {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Kinds have no NUL, so the default never comes.
    CString::new(format!("cl_{kind}_{}", NEXT.fetch_add(1, Ordering::Relaxed))).unwrap_or_default()
}
