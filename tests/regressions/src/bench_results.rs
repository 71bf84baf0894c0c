//! `results.json` of a benchmark: refused in few words, or shown, tabled and compared.

use chainline_bench::diff::{Settings, diff, table};
use chainline_bench::report::{figures, parse, to_json, trials};

/// The target.
pub fn run(data: &[u8]) {
    match parse(data, "r") {
        Err(e) => {
            let words = e.to_string();
            assert!(words.starts_with("r:"), "{words}");
            assert!(words.len() < 20_000 && !words.contains('\u{1b}'), "{} bytes", words.len());
        }
        Ok(results) => {
            // What was taken can be written, and is then the same.
            let text = to_json(&results).unwrap();
            assert_eq!(to_json(&parse(text.as_bytes(), "r").unwrap()).unwrap(), text);
            let rows = trials(&results);
            assert!(rows.is_err() || rows.is_ok_and(|t| !t.is_empty()));
            assert!(!figures(&results).unwrap().is_empty());
            let same = diff(("a", &results), ("b", &results), false, Settings::default());
            assert_eq!((same.count.better, same.count.worse, same.count.different), (0, 0, 0), "from itself");
            assert!(!table(&same, true).is_empty());
        }
    }
}
