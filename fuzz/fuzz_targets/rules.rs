//! See `chainline_regressions::rules`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::rules::run(data));
