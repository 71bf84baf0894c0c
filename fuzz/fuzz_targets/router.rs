//! See `chainline_regressions::router`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::router::run(data));
