//! See `chainline_regressions::bench_results`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chainline_regressions::bench_results::run(data));
