//! nf-abi
