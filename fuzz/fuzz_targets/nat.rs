//! See `chainline_regressions::nat`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::nat::run(data));
