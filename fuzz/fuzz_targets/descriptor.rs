//! See `chainline_regressions::descriptor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::descriptor::run(data));
