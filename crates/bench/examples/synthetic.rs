//! Writes a synthetic report into a folder, for work on the page: `cargo run -p chainline-bench --example synthetic DIR`.

use chainline_bench::report::{save, synthetic};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args_os().nth(1).ok_or("expected a folder to write into")?;
    let files = save(dir.as_ref(), &synthetic::results(1, 5, 1.0))?;
    println!("{}", files.html.display());
    Ok(())
}
