//! See `chainline_regressions::routes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::routes::run(data));
