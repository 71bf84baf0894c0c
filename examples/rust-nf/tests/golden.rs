//! Plays `golden/*.golden` through the shared object, as a host would.

use chainline_nf::golden;

#[test]
fn golden_files() -> Result<(), Box<dyn std::error::Error>> {
    // Cargo builds the shared object next to this test.
    let object = std::env::current_exe()?.with_file_name("libttl_guard.so");
    golden::run_dir(&chainline_nf_c::load(object)?, "tests/golden");
    Ok(())
}
