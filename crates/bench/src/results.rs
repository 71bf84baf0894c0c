//! What a benchmark leaves behind: every raw trial, and the figures that were made from them. This is the file that
//! `chainline bench diff` reads and that the HTML page shows; its JSON Schema is generated from these types.

use chainline_trial::{Load, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The form of this file. A reader refuses another one.
pub const FORMAT: &str = "chainline.bench/v1";

/// A whole benchmark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// [`FORMAT`].
    pub format: String,
    /// What was measured, in a line.
    pub title: String,
    /// The command that repeats it, word by word.
    pub command: Vec<String>,
    /// The file that described it, if one did: its name and its text.
    pub file: Option<InputFile>,
    /// When it began, by RFC 3339.
    pub started: String,
    /// Whether all of it was done; `false` after Ctrl-C or a crash.
    pub complete: bool,
    /// Where it ran: processor, caches, kernel, mitigations, governor, huge pages, cgroups, DPDK, commit.
    pub environment: Value,
    /// Figures and tables, in the order of the page.
    pub sections: Vec<Section>,
    /// Every trial, also the ones that do not count.
    pub trials: Vec<Trial>,
    /// What a reader must know of the whole.
    pub remarks: Vec<String>,
}

/// A file that described a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputFile {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// One figure or table of the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Section {
    /// A word for links and for `diff`, unique in the file: `niu-fig2`.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What is shown, how it was measured and computed, and by which definition.
    pub definition: String,
    /// Where the experiment comes from: paper, section, figure; RFC.
    pub source: Option<String>,
    /// How it is drawn.
    pub view: View,
    /// What lies to the right.
    pub x: Axis,
    /// What lies upwards; for a heat map, the colour.
    pub y: Axis,
    /// The lines, groups of bars, or rows.
    pub series: Vec<Series>,
    /// What could not be measured here, and why.
    pub unavailable: Vec<Unavailable>,
}

/// How a section is drawn. A table of its numbers stands below each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Only the table.
    #[default]
    Table,
    /// A line for each series, whiskers from smallest to largest sample.
    Lines,
    /// A group of bars for each x.
    Bars,
    /// A row for each series, a column for each x.
    HeatMap,
    /// A line for each series over percentiles, where x is the share below (0.5, 0.99, …) on the scale of nines.
    Percentiles,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// What it shows: `throughput`.
    pub label: String,
    /// Its unit: `Mpps`; empty for a number without one.
    pub unit: String,
    /// Whether its scale is logarithmic.
    pub log: bool,
}

/// How a number was obtained. Every number says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Obtained {
    /// On this host, in this run.
    #[default]
    Measured,
    /// Computed, by theory or by a fit; the section's definition says how.
    Modelled,
    /// Somebody else's figure, from elsewhere; the section's source says whose.
    Quoted,
}

/// One line of a plot, or one column of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How its numbers were obtained.
    pub obtained: Obtained,
    /// Its points.
    pub points: Vec<Point>,
}

/// One point, with everything that it was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Where it stands on the x axis.
    pub x: X,
    /// One value of each round, in the order of the rounds; the median is what is drawn.
    pub samples: Vec<f64>,
    /// The trials behind it, as indexes into [`Results::trials`].
    pub trials: Vec<usize>,
}

/// A place on the x axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum X {
    /// A number.
    Number(f64),
    /// A category.
    Word(String),
}

/// Something that this host or this run cannot show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unavailable {
    /// What.
    pub what: String,
    /// Why, and what would be needed.
    pub why: String,
}

/// One trial, valid or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The dataplane that was measured.
    pub dataplane: String,
    /// What was varied: frame size, chain length, policy … with its value.
    pub factors: BTreeMap<String, Value>,
    /// The round that it belongs to, from 0.
    pub round: u32,
    /// 0 for the first attempt; a trial that was not valid is repeated.
    pub attempt: u32,
    /// What was asked for.
    pub load: Load,
    /// What it was made for: `ndr`, `pdr`, `latency`, `loss-curve`.
    pub purpose: String,
    /// What came out.
    pub outcome: Outcome,
    /// Share of the host's time that the hypervisor gave to others meanwhile, 0 to 1.
    pub stolen_share: f64,
    /// Share that other programs had.
    pub foreign_share: f64,
    /// Why it does not count; empty if it does.
    pub invalid: Vec<String>,
}

impl Point {
    /// Median, smallest and largest sample; `None` without samples.
    #[must_use]
    pub fn spread(&self) -> Option<Spread> {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let (first, last) = (sorted.first()?, sorted.last()?);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Spread { median, min: *first, max: *last })
    }
}

/// What samples say together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}
