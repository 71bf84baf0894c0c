//! See `chainline_regressions::chain_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::chain_file::run(data));
