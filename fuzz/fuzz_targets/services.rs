//! See `chainline_regressions::services`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::services::run(data));
