//! The page, put together. Escaping is on for everything but our own style and scripts; the browser runs those two
//! scripts alone (by their hashes) and may fetch nothing.

use super::page::{Page, plots};
use super::{ReportError, to_json, without_nonsense};
use crate::results::Results;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use minijinja::{AutoEscape, Environment, Value, context};
use sha2::{Digest, Sha256};
use std::io::Write;

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
/// Apache ECharts, see `vendor/README.md`.
const CHARTS: &str = include_str!("vendor/echarts.min.js");
const SCRIPT: &str = concat!(
    "\"use strict\";(() => {\n",
    include_str!("page/plots.js"),
    include_str!("page/trials.js"),
    include_str!("page/page.js"),
    "})();\n"
);

/// The page as one text.
///
/// # Errors
/// Only for a fault of this program.
pub fn html(results: &Results) -> Result<String, ReportError> {
    let results = without_nonsense(results);
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("page.html", TEMPLATE).map_err(made)?;
    let template = environment.get_template("page.html").map_err(made)?;
    let own = |text: &str| Value::from_safe_string(text.to_owned());
    // Hashes instead of 'unsafe-inline': a script that slipped in with somebody's words would not run.
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}' 'sha256-{}'; style-src 'unsafe-inline'; img-src data:; \
         base-uri 'none'; form-action 'none'",
        hash(CHARTS),
        hash(SCRIPT)
    );
    let filled = template.render(context! {
        page => Value::from(minijinja::value::Serde(Page::of(&results))),
        policy => policy,
        style => own(STYLE),
        charts => own(CHARTS),
        script => own(SCRIPT),
        plots => own(&inert(&plots(&results))?),
        // base64 has no character that HTML knows.
        results => own(&packed(&to_json(&results)?)?),
    });
    filled.map_err(made)
}

/// JSON that cannot end the script element it stands in.
fn inert(value: &serde_json::Value) -> Result<String, ReportError> {
    let text = serde_json::to_string(value).map_err(made)?;
    Ok(text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
}

/// Small: a histogram in each trial makes results large. gzip, in base64.
fn packed(text: &str) -> Result<String, ReportError> {
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    out.write_all(text.as_bytes()).map_err(made)?;
    Ok(STANDARD.encode(out.finish().map_err(made)?))
}

fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

fn made(e: impl std::fmt::Display) -> ReportError {
    ReportError::Made { what: "the page", why: e.to_string() }
}
