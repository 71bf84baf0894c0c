//! See `chainline_regressions::answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::answer::run(data));
