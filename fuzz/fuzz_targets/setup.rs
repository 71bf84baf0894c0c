//! See `chainline_regressions::setup`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::setup::run(data));
