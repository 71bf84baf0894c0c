//! Both sides of the C ABI: loading NFs from shared objects, and exporting Rust NFs as such.
//!
//! [`load`] opens a shared object and checks what it says of itself; the [`LoadedKind`] builds NFs that a host
//! drives like any other. What such an NF returns is checked: a frame outside its buffer or a verdict that does not
//! exist drops that packet under the reasons `bad_frame` and `bad_verdict`. An NF that returns an error, or panics,
//! has failed for good: the adapter panics with its message, and the host treats the instance as dead.
//!
//! [`export_nf!`] makes a `cdylib` crate such a shared object. It catches panics at every entry.
//!
//! Threads: a [`LoadedKind`] may be used by several; each instance by one at a time. A shared object stays loaded
//! until the process ends, since nobody can tell whether it left a thread or a destructor behind.
//! Deliberately absent: protection from the object's code. It runs in this process with all its rights; hosts that
//! do not trust it load it in the NF's own process.

#![allow(unsafe_code)] // It is what the crate is for: every C boundary of the workspace's NFs is here.

pub mod export;
mod footprint;

#[cfg(feature = "host")]
mod env;
#[cfg(feature = "host")]
mod files;
#[cfg(feature = "host")]
mod instance;
#[cfg(feature = "host")]
mod load;
#[cfg(feature = "host")]
mod text;

#[cfg(feature = "host")]
pub use load::{LoadError, LoadedKind, load};

pub use chainline_nf_abi as abi;

// The two crates say the same in their own words.
const _: () = {
    use chainline_nf::{HoldId, MAX_BURST, Verdict};
    assert!(MAX_BURST == abi::MAX_BURST as usize);
    assert!(Verdict::NEXT.to_bits() == abi::VERDICT_NEXT);
    assert!(Verdict::hold(HoldId::from_bits(5)).to_bits() == abi::VERDICT_HOLD << abi::VERDICT_SHIFT | 5);
};
