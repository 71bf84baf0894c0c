//! See `chainline_regressions::golden`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::golden::run(data));
