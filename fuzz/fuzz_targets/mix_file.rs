//! See `chainline_regressions::traffic::mix_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::traffic::mix_file(data));
