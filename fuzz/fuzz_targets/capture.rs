//! See `chainline_regressions::capture`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::capture::run(data));
