//! The page in a browser: every plot draws, nothing is fetched, strangers' words stay words. Needs `chromium`
//! (`scripts/deps.sh --test`); without it the tests that open it say so and pass.
//!
//! Screenshots are kept under `target/page/`.
#![allow(clippy::unwrap_used)]

#[path = "page/browser.rs"]
mod browser;

use browser::Browser;
use chainline_bench::report::{html, synthetic};
use chainline_bench::results::{Axis, InputFile, Obtained, Point, Results, Section, Series, Unavailable, View, X};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

fn page_file(name: &str, results: &Results) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../page");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.canonicalize().unwrap().join(format!("{name}.html"));
    std::fs::write(&path, html(results).unwrap()).unwrap();
    path
}

/// Every plot of the page that is open has drawn, and nothing complained.
fn all_drew(browser: &mut Browser, plots: usize) {
    // Plots are drawn as they come into view.
    browser.eval("document.querySelectorAll('figure[data-plot]').forEach((f) => f.scrollIntoView())");
    let waiting = "[...document.querySelectorAll('figure[data-plot]')].filter((f) => !(f.dataset.drawn || f.dataset.failed)).length";
    for f in 0..plots {
        browser.eval(&format!("document.querySelectorAll('figure[data-plot]')[{f}].scrollIntoView()"));
        browser.until(&format!(
            "(() => {{ const f = document.querySelectorAll('figure[data-plot]')[{f}]; return !!(f.dataset.drawn || f.dataset.failed) }})()"
        ));
    }
    assert_eq!(browser.eval(waiting), json!(0));
    let found = browser.eval(
        "[...document.querySelectorAll('figure[data-plot]')].map((f) => ({failed: f.dataset.failed || '', drawn: Number(f.dataset.drawn || 0)}))",
    );
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), plots);
    for (i, plot) in found.iter().enumerate() {
        assert_eq!(plot["failed"], "", "plot {i}");
        assert!(plot["drawn"].as_u64().unwrap() > 3, "plot {i} has no more than axes: {plot}");
    }
    browser.quiet();
}

#[test]
fn the_vendored_files_are_those_of_their_checksums() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/vendor");
    let sums = std::fs::read_to_string(dir.join("SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), 2);
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        let digest = Sha256::digest(std::fs::read(dir.join(name)).unwrap());
        let found: String = digest.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(found, sum, "{name}: see vendor/README.md");
    }
}

#[test]
fn every_plot_draws_and_nothing_is_fetched() {
    let Some(mut browser) = Browser::start() else { return };
    let path = page_file("synthetic", &synthetic::results(1, 5, 1.0));
    browser.open(&path);
    all_drew(&mut browser, 6);
    browser.screenshot(&path.with_extension("light.png"));
    browser.dark(true);
    browser.screenshot(&path.with_extension("dark.png"));
    browser.dark(false);
    // The page itself alone, and that from a file.
    let fetched = browser.fetched();
    assert!(fetched.iter().all(|u| u.starts_with("file://") && u.ends_with("synthetic.html")), "{fetched:?}");
    assert_eq!(fetched.len(), 1, "{fetched:?}");
    // A script that came in by anybody's words would not run, nor fetch.
    browser.eval(
        "{ const s = document.createElement('script'); s.textContent = 'window.slipped = 1'; document.body.append(s) }",
    );
    assert_eq!(browser.eval("window.slipped === undefined"), json!(true));
    let refused = browser.eval("fetch('http://127.0.0.1:9/').then(() => 'fetched', () => 'refused')");
    assert_eq!(refused, json!("refused"));
}

#[test]
fn hovering_zooming_searching_and_downloading_work() {
    let Some(mut browser) = Browser::start() else { return };
    let results = synthetic::results(1, 5, 1.0);
    browser.open(&page_file("touched", &results));
    all_drew(&mut browser, 6);
    let plot = "document.querySelector('figure[data-plot=\"1\"] .plot')";
    browser.eval(&format!("{plot}.scrollIntoView({{block: 'center', behavior: 'instant'}})"));
    let at = browser.eval(&format!(
        "(() => {{ const r = {plot}.getBoundingClientRect(); return [r.x, r.y, r.width, r.height] }})()"
    ));
    let at: Vec<f64> = at.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    let inside = |fx: f64, fy: f64| (at[0] + at[2] * fx, at[1] + at[3] * fy);
    // Hover.
    browser.mouse("mouseMoved", inside(0.3, 0.4), 0);
    browser.mouse("mouseMoved", inside(0.31, 0.4), 0);
    browser.until("document.querySelector('.tip')?.textContent.includes('measured; median of 5')");
    // Drag to zoom: fewer labels from the whole range; double click brings them back.
    let labels = format!("[...{plot}.querySelectorAll('svg text')].map((t) => t.textContent).join('|')");
    let before = browser.eval(&labels);
    browser.mouse("mousePressed", inside(0.3, 0.2), 1);
    browser.mouse("mouseMoved", inside(0.4, 0.5), 1);
    browser.mouse("mouseMoved", inside(0.5, 0.6), 1);
    browser.mouse("mouseReleased", inside(0.5, 0.6), 1);
    browser.until(&format!("{labels} !== {before}"));
    browser.eval("document.querySelector('figure[data-plot=\"1\"] [data-do=reset]').click()");
    browser.until(&format!("{labels} === {before}"));
    // Keys move from point to point.
    browser.eval(&format!(
        "{plot}.focus(); {plot}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'End', bubbles: true}}))"
    ));
    browser.until("document.querySelector('.tip')?.textContent.includes('frame size 1518 B')");
    // The raw trials, searched.
    browser.eval("document.getElementById('raw').open = true");
    browser.until("document.querySelectorAll('#raw tbody tr').length === 100");
    browser.eval("{ const s = document.querySelector('#raw input[type=search]'); s.value = 'stolen latency'; s.dispatchEvent(new Event('input')) }");
    let stolen = results.trials.iter().filter(|t| t.purpose == "latency" && !t.invalid.is_empty()).count();
    assert!(stolen > 0);
    browser.until(&format!("document.querySelectorAll('#raw tbody tr').length === {stolen}"));
    browser.eval("document.querySelector('#raw tbody th button').click()");
    browser.until("document.querySelector('#raw pre').textContent.includes('\"p99_999\"')");
    // What is inside is the whole of it.
    let inside = browser.eval(
        "new Response(new Blob([Uint8Array.from(atob(document.getElementById('results').textContent), (c) => c.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream('gzip'))).text()",
    );
    let again = chainline_bench::report::parse(inside.as_str().unwrap().as_bytes(), "page").unwrap();
    assert_eq!(again, results);
    browser.quiet();
}

/// Words that would end an element, an attribute, a script or a comment, in every place that takes words.
fn hostile() -> Results {
    let bad =
        "</script><script>window.slipped = 1</script><img src=x onerror='window.slipped = 1'>\"'`${1}{{ 7 * 7 }}<!--";
    let mut r = synthetic::results(1, 3, 1.0);
    for s in &mut r.sections {
        for text in [&mut s.title, &mut s.definition, &mut s.x.label, &mut s.y.label, &mut s.y.unit, &mut s.x.unit] {
            *text = bad.into();
        }
        s.id = format!("{} {bad}", s.id);
        s.source = Some(bad.into());
        s.unavailable = vec![Unavailable { what: bad.into(), why: bad.into() }];
        s.series.iter_mut().for_each(|s| s.name = format!("{} {bad}", s.name));
        s.series.iter_mut().flat_map(|s| &mut s.points).for_each(|p| {
            if let X::Word(w) = &mut p.x {
                *w += bad;
            }
        });
    }
    for t in &mut r.trials {
        t.dataplane = bad.into();
        t.purpose = bad.into();
        t.factors = [(bad.to_owned(), json!(bad))].into();
        t.invalid = vec![bad.into()];
    }
    r.title = bad.into();
    r.started = bad.into();
    r.command = vec![bad.into()];
    r.file = Some(InputFile { name: bad.into(), text: bad.into() });
    r.environment = json!({ bad: { bad: [bad] } });
    r.remarks = vec![bad.into(), "\u{202e}right to left, 漢字, \u{0}".into()];
    r
}

#[test]
fn strangers_words_stay_words() {
    let page = html(&hostile()).unwrap();
    assert!(!page.contains("<img src=x") && !page.contains("<script>window") && !page.contains("49<!--"));
    assert_eq!(page.matches("</script>").count(), 4);
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&page_file("hostile", &hostile()));
    all_drew(&mut browser, 6);
    browser.eval("document.getElementById('raw').open = true");
    browser.until("document.querySelectorAll('#raw tbody tr').length > 0");
    assert_eq!(browser.eval("window.slipped === undefined && document.images.length === 0"), json!(true));
    assert_eq!(browser.fetched().len(), 1, "{:?}", browser.fetched());
}

#[test]
fn results_at_their_limits_are_drawn() {
    let section = |id: &str, view, log, points: Vec<Point>, obtained| Section {
        id: id.into(),
        view,
        title: format!("{id} {}", "long ".repeat(300)),
        x: Axis { log, ..Axis::default() },
        y: Axis { log, ..Axis::default() },
        series: vec![Series { name: "漢字 ".repeat(200), obtained, points }],
        ..Section::default()
    };
    let at = |x: f64, samples: &[f64]| Point { x: X::Number(x), samples: samples.to_vec(), trials: vec![] };
    let many = (0..5_000).map(|i| at(f64::from(i), &[f64::from(i % 97)])).collect();
    let strange = vec![at(-1.0, &[0.0]), at(0.0, &[-5.0, 1e300]), at(1e-300, &[1e-300]), at(1e9, &[])];
    let mut r = Results { format: "chainline.bench/v1".into(), ..Results::default() };
    let (measured, modelled) = (Obtained::Measured, Obtained::Modelled);
    r.sections = vec![
        Section { id: "empty".into(), view: View::Lines, ..Section::default() },
        section("one", View::Percentiles, true, vec![at(1.0, &[3.0])], measured),
        section("many", View::Lines, true, many, measured),
        section("strange", View::Lines, true, strange.clone(), modelled),
        section("bars", View::Bars, false, strange.clone(), Obtained::Quoted),
        section("heat", View::HeatMap, false, strange, modelled),
    ];
    let Some(mut browser) = Browser::start() else { return };
    let path = page_file("limits", &r);
    browser.open(&path);
    all_drew(&mut browser, 5);
    browser.screenshot(&path.with_extension("png"));
}
