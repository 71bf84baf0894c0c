//! Descriptions for people.

use super::{Description, Line, MEASURED};
use chainline_nf::{Field, Footprint};
use std::fmt::Write;

/// All kinds.
pub fn list(all: &[Line]) -> String {
    let rows = all.iter().map(|l| [l.kind.to_owned(), l.about.to_owned()]).collect::<Vec<_>>();
    columns("", &rows)
}

/// One kind.
pub fn of(d: &Description) -> String {
    let mut text = format!("{}: {}\n", d.kind, d.about);
    let mut section = |head: &str, body: String| {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{head}\n{}", if body.is_empty() { "  none\n".into() } else { body });
    };
    section("ARGUMENTS", arguments(d));
    match &d.footprint {
        Some(footprint) => {
            section("READS", fields(footprint.reads));
            section("WRITES", fields(footprint.writes));
            section("STATE", state(footprint));
        }
        None => section("READS, WRITES, STATE", "  unknown: the kind does not say\n".into()),
    }
    match &d.declared {
        Some(declared) => {
            let counters = declared.counters.iter().map(|c| [c.name.clone(), c.unit.clone(), c.help.clone()]);
            section("COUNTERS", columns("  ", &counters.collect::<Vec<_>>()));
            section("DROP REASONS", declared.drop_reasons.iter().map(|r| format!("  {r}\n")).collect());
            section("COUNTERS AND DROP REASONS ARE THOSE WITH", format!("  {}\n", declared.sample));
        }
        None => section("COUNTERS, DROP REASONS", "  known once it is built with arguments\n".into()),
    }
    let measured = d.measured.iter().flatten();
    let numbers: String = measured.map(|(name, value)| format!("  {value} {}\n", name.replace('_', " "))).collect();
    let numbers = if numbers.is_empty() { format!("  not measured here ({MEASURED}, --measured)\n") } else { numbers };
    section("MEASURED COST", numbers);
    text
}

fn arguments(d: &Description) -> String {
    let row = |a: &super::arguments::Argument| {
        let default = match &a.default {
            Some(default) => default.to_string(),
            None if a.required => "required".into(),
            None => "optional".into(),
        };
        [a.name.clone(), a.form.clone(), default, a.about.clone()]
    };
    columns("  ", &d.arguments.iter().map(row).collect::<Vec<_>>())
}

fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(|s| s.replace('_', " "))).unwrap_or_default()
}

fn fields(fields: &[Field]) -> String {
    if fields.is_empty() {
        return String::new();
    }
    format!("  {}\n", fields.iter().map(word).collect::<Vec<_>>().join(", "))
}

fn state(footprint: &Footprint) -> String {
    let row = |s: &chainline_nf::State| {
        let bytes = if s.entry_bytes == 0 { String::new() } else { format!("{} bytes", s.entry_bytes) };
        let with = if s.with.is_empty() { String::new() } else { format!("with `{}`", s.with) };
        let shared = if s.shareable { "replicas can share it".to_owned() } else { String::new() };
        [s.name.to_owned(), format!("by {}", word(&s.scope)), bytes, with, shared]
    };
    columns("  ", &footprint.state.iter().map(row).collect::<Vec<_>>())
}

/// Rows with their columns under each other.
fn columns<const N: usize>(before: &str, rows: &[[String; N]]) -> String {
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = before.to_owned();
        for (cell, width) in row.iter().zip(widths) {
            line += &format!("{cell:<width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}
