//! Packets in; verdicts, bytes and counters out.

#[test]
fn golden() {
    chainline_nf::golden::run_dir(&nf_router::KIND, "tests/golden");
}
