//! `results.json` and the tables: what is written is read again, and what is not to be relied upon is refused.
//!
//! `UPDATE=1 cargo test -p chainline-bench --test results` rewrites the schema under `docs/reference`.
#![allow(clippy::unwrap_used)]

use chainline_bench::report::{
    ReadError, faults, figures, html, parse, read, save, schema, synthetic, to_json, trials, without_nonsense,
};
use chainline_bench::results::{FORMAT, Point, Results, Section, Series, Trial, View, X};
use chainline_trial::Load;
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;

fn sample() -> Results {
    synthetic::results(3, 4, 1.0)
}

#[test]
fn the_schema_is_current_and_describes_what_is_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/bench-results.schema.json");
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == text,
        "{} is not current: UPDATE=1 cargo test -p chainline-bench --test results",
        path.display()
    );
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let written: serde_json::Value = serde_json::from_str(&to_json(&sample()).unwrap()).unwrap();
    validator.validate(&written).unwrap();
    assert!(!validator.is_valid(&json!({ "format": FORMAT })));
}

#[test]
fn the_schema_of_the_summary_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/nfvnice.schema.json");
    let text = serde_json::to_string_pretty(&chainline_bench::nfvnice::summary::schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == text,
        "{} is not current: UPDATE=1 cargo test -p chainline-bench --test results",
        path.display()
    );
}

#[test]
fn what_is_written_is_read_again() {
    let results = sample();
    let text = to_json(&results).unwrap();
    assert_eq!(parse(text.as_bytes(), "r").unwrap(), results);
    let dir = std::env::temp_dir().join(format!("chainline-results-{}", std::process::id()));
    let files = save(&dir, &results).unwrap();
    assert_eq!(read(&dir).unwrap(), results, "by the directory");
    assert_eq!(read(&files.json).unwrap(), results, "by the file");
    for file in [&files.trials, &files.figures, &files.html] {
        assert!(std::fs::metadata(file).unwrap().len() > 100, "{}", file.display());
    }
    let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "nothing else is left: {names:?}");
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(matches!(read(&dir), Err(ReadError::Io { .. })));
    assert!(matches!(
        save(Path::new("/proc/no/such"), &results),
        Err(chainline_bench::report::ReportError::Write { .. })
    ));
}

#[test]
fn a_file_that_cannot_be_relied_upon_is_refused_with_its_place() {
    let text = to_json(&sample()).unwrap();
    let refused = |text: &str| parse(text.as_bytes(), "r.json").unwrap_err().to_string();
    assert_eq!(
        refused(&text.replacen(FORMAT, "chainline.bench/v2", 1)),
        "r.json: found the format \"chainline.bench/v2\", expected \"chainline.bench/v1\": read it with the release \
         that wrote it"
    );
    assert!(refused("{}").starts_with("r.json: found the format (none), expected"));
    assert!(refused("").starts_with("r.json:1:1: EOF while parsing a value"), "{}", refused(""));
    let cut = refused(&text[..text.len() / 2]);
    assert!(cut.contains("the file ends too early") && cut.starts_with("r.json:"), "{cut}");
    let word = refused(&text.replacen("\"complete\": true", "\"complete\": \"yes\"", 1));
    assert!(word.contains("complete: invalid type: string \"yes\", expected a boolean"), "{word}");
    let line = text[..text.find("\"complete\"").unwrap()].lines().count();
    assert!(word.starts_with(&format!("r.json:{line}:")), "{word}");
    // What serde makes of NaN, should somebody else write one.
    let null = refused(&text.replacen("\"samples\": [", "\"samples\": [null,", 1));
    assert!(null.contains("sections[0].series[0].points[0].samples[0]: invalid type: null"), "{null}");
    assert!(refused(&text.replacen("\"samples\": [", "\"samples\": [1e999,", 1)).contains("number out of range"));
    assert!(refused(&"[".repeat(100_000)).contains("recursion limit"));
    let huge = text.replacen("\"complete\": true", &format!("\"complete\": \"{}\"", "\u{1b}[31m".repeat(10_000)), 1);
    assert!(refused(&huge).len() < 1000 && !refused(&huge).contains('\u{1b}'), "strangers' words are kept short");
}

#[test]
fn contradictions_are_named() {
    let mut r = sample();
    r.sections[1].id = r.sections[0].id.clone();
    r.sections[2].series[0].points[0].x = X::Number(1.5);
    r.sections[3].series[0].points[2].trials = vec![1_000_000];
    r.sections[4].id.clear();
    let all = faults(&r).join("\n");
    for want in [
        "sections[1].id: found \"throughput-by-size\" a second time",
        "sections[2].series[0].points[0].x: found 1.5, expected a share from 0 to 1",
        "sections[3].series[0].points[2].trials: found 1000000, expected an index below",
        "sections[4].id: found nothing",
    ] {
        assert!(all.contains(want), "{want} in\n{all}");
    }
    let text = serde_json::to_string(&r).unwrap();
    assert!(matches!(parse(text.as_bytes(), "r"), Err(ReadError::Wrong { faults, .. }) if faults.len() == 4));
}

#[test]
fn values_that_are_no_numbers_are_taken_out_and_told() {
    let mut r = sample();
    assert!(matches!(without_nonsense(&r), std::borrow::Cow::Borrowed(_)), "nothing to do, nothing copied");
    r.sections[0].series[0].points[0].samples = vec![f64::NAN, 1.0, f64::INFINITY];
    r.sections[0].series[1].points[0].x = X::Number(f64::NAN);
    r.trials[3].load = Load::Pps(f64::NEG_INFINITY);
    r.trials[3].outcome.jitter_ns = Some(f64::NAN);
    let again = parse(to_json(&r).unwrap().as_bytes(), "r").unwrap();
    assert_eq!(again.sections[0].series[0].points[0].samples, [1.0]);
    assert_eq!(again.sections[0].series[1].points.len(), 6, "a point without a place is gone");
    assert_eq!(again.remarks[1], "throughput-by-size, ours: 2 samples were no numbers and were left out");
    assert_eq!(again.trials[3].invalid, ["a value was no number; 0 stands for it"]);
    assert!(html(&r).unwrap().contains("2 samples were no numbers"));
    assert!(!figures(&r).unwrap().contains("NaN") && !trials(&r).unwrap().contains("NaN"));
}

#[test]
fn tables_have_every_field_of_every_trial() {
    let mut r = sample();
    // A field that a late trial has alone goes beside its siblings; words that a table could trip over.
    r.trials[9].factors.insert("late, \"quoted\"\nfactor".into(), json!(["a", 1]));
    r.trials[9].outcome.drops.insert("fw: verdict".into(), 7);
    r.trials[9].invalid = vec!["one".into(), "two, and more".into()];
    let text = trials(&r).unwrap();
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let head = rows.headers().unwrap().clone();
    let column = |name: &str| head.iter().position(|h| h == name).unwrap_or_else(|| panic!("{name} in {head:?}"));
    let rows: Vec<_> = rows.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), r.trials.len());
    assert_eq!(&rows[9][column("factors.late, \"quoted\"\nfactor")], "a; 1");
    assert_eq!(&rows[8][column("factors.late, \"quoted\"\nfactor")], "");
    assert_eq!(&rows[9][column("outcome.drops.fw: verdict")], "7");
    assert_eq!(&rows[9][column("invalid")], "one; two, and more");
    assert_eq!(
        rows[5][column("outcome.latency.p99_99")],
        r.trials[5].outcome.latency.as_ref().unwrap().p99_99.to_string()
    );
    assert_eq!(&rows[5][column("trial")], "5");
    let factors: Vec<_> = head.iter().enumerate().filter(|(_, h)| h.starts_with("factors.")).map(|(i, _)| i).collect();
    assert!(factors.windows(2).all(|w| w[1] == w[0] + 1), "columns of one object lie side by side: {head:?}");

    let text = figures(&r).unwrap();
    let samples: usize =
        r.sections.iter().flat_map(|s| &s.series).flat_map(|s| &s.points).map(|p| p.samples.len()).sum();
    assert_eq!(csv::Reader::from_reader(text.as_bytes()).records().count(), samples);
    assert!(text.starts_with("section,series,x,x_unit,round,value,unit,obtained\n"));

    let many =
        (0..17_000).map(|i| Trial { factors: [(format!("f{i}"), json!(i))].into(), ..r.trials[0].clone() }).collect();
    let e = trials(&Results { trials: many, ..r }).unwrap_err().to_string();
    assert!(e.contains("different fields in the trials, expected at most 16384"), "{e}");
}

#[test]
fn a_hundred_thousand_trials_are_a_page() {
    let mut r = sample();
    let mut one = r.trials[0].clone();
    one.invalid = vec!["disturbed".into()];
    r.trials = (0..100_000).map(|i| Trial { round: i, ..one.clone() }).collect();
    let page = html(&r).unwrap();
    assert!(page.contains("100000 trials, also those that do not count"));
    assert!(page.contains("The first 200:"), "the page does not list each of them");
    assert!(page.len() < 30_000_000, "{}", page.len());
    assert_eq!(trials(&r).unwrap().lines().count(), 100_001);
}

/// Any text at all, and numbers at their limits.
fn strange() -> impl Strategy<Value = Results> {
    let number = prop_oneof![any::<f64>(), Just(f64::NAN), Just(f64::INFINITY), Just(-0.0), Just(f64::MIN_POSITIVE)];
    let x = prop_oneof![number.clone().prop_map(X::Number), any::<String>().prop_map(X::Word)];
    let point = (x, prop::collection::vec(number, 0..4)).prop_map(|(x, samples)| Point { x, samples, trials: vec![] });
    let series = (any::<String>(), prop::collection::vec(point, 0..5)).prop_map(|(name, points)| Series {
        name,
        points,
        ..Series::default()
    });
    let view = prop_oneof![
        Just(View::Table),
        Just(View::Lines),
        Just(View::Bars),
        Just(View::HeatMap),
        Just(View::Percentiles)
    ];
    let section = (any::<String>(), any::<String>(), view, prop::collection::vec(series, 0..4))
        .prop_map(|(id, title, view, series)| Section { id, title, view, series, ..Section::default() });
    let words = prop::collection::vec(any::<String>(), 0..3);
    (prop::collection::vec(section, 0..4), words.clone(), words).prop_map(|(sections, command, remarks)| Results {
        format: FORMAT.into(),
        command,
        sections,
        remarks,
        ..Results::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_results_have_files(results in strange()) {
        let page = html(&results).unwrap();
        prop_assert!(page.matches("</script>").count() == 4, "nothing ends a script but its own end");
        let text = to_json(&results).unwrap();
        trials(&results).unwrap();
        figures(&results).unwrap();
        // Refused for contradictions, or read as it was cleaned.
        if let Ok(again) = parse(text.as_bytes(), "r") {
            prop_assert_eq!(to_json(&again).unwrap(), text);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes, "r");
    }
}
