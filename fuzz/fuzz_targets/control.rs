//! See `chainline_regressions::control`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::control::run(data));
