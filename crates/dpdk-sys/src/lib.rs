//! Raw bindings to the parts of DPDK that Chainline uses, and a logic-free C shim for its inline functions.
//!
//! Everything here is as unsafe as C. Use `chainline-dpdk`.

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, missing_docs)]
#![allow(unsafe_op_in_unsafe_fn)]
#![allow(clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]

include!(concat!(env!("OUT_DIR"), "/dpdk.rs"));
