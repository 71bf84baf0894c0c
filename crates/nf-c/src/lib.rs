//! nf-c
