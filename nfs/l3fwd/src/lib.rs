//! l3fwd
