//! Figures for the eye.

use super::{Figure, Goal};
use comfy_table::{CellAlignment, Table, presets};

/// A table of figures, without any yet.
#[must_use]
pub fn new() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["figure", "median", "min", "max", "unit", "rounds", "goal", ""]);
    for column in table.column_iter_mut().skip(1).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The line of a figure.
#[must_use]
pub fn row(name: &str, figure: &Figure, goal: Goal) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    match figure {
        Figure::Measured(m) => {
            row.extend([m.median, m.min, m.max].map(number));
            row.extend([m.unit.to_owned(), m.rounds.to_string()]);
        }
        Figure::Unavailable { unavailable } => {
            row.extend(["-", "-", "-"].map(str::to_owned));
            row.extend([format!("unavailable: {unavailable}"), String::new()]);
        }
    }
    row.push(match goal {
        Goal::AtLeast(v) => format!(">= {v}"),
        Goal::AtMost(v) => format!("<= {v}"),
        Goal::None => String::new(),
    });
    row.push(match goal.met(figure.median()) {
        Some(true) => "met".into(),
        Some(false) => "NOT MET".into(),
        None => String::new(),
    });
    row
}

/// Three or four digits that matter.
fn number(v: f64) -> String {
    let digits = match v.abs() {
        v if v == 0.0 || v >= 1000.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 4,
    };
    format!("{v:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_whether_the_goal_was_met() {
        let line = row("hop_ns", &Figure::of(vec![19.0, 21.5, 18.25], "ns"), Goal::AtMost(20.0));
        assert_eq!(line, ["hop_ns", "19.0", "18.2", "21.5", "ns", "3", "<= 20", "met"]);
        let line = row("veth_hop_ns", &Figure::unavailable("needs root"), Goal::AtMost(1.0));
        assert_eq!(line[4], "unavailable: needs root");
        assert_eq!(line[7], "");
    }
}
