//! See `chainline_regressions::packet_parse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::packet_parse::run(data));
