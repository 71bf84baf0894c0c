//! See `chainline_regressions::traffic::histogram`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::traffic::histogram(data));
