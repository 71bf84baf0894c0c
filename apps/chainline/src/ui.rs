//! Tables of a run: the live one and the report.

pub mod live;
pub mod summary;

use chainline_manager::report::Counters;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A table without lines, numbers to the right.
pub fn table(header: &[&str], words: usize) -> Table {
    let mut t = Table::new();
    t.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header.to_vec());
    for (i, column) in t.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if i >= words {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    t
}

/// A rate with three or four digits and a unit.
pub fn rate(value: f64, unit: &str) -> String {
    let (scaled, prefix) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let digits = if prefix.is_empty() || scaled >= 100.0 { 0 } else { 2 };
    format!("{scaled:.digits$} {prefix}{unit}")
}

/// A number with a space after each three digits.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(d);
    }
    out
}

/// A time in the unit that suits it.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// Counts by reason, the largest first.
pub fn drops(drops: &chainline_manager::report::Drops) -> String {
    let mut list: Vec<_> = drops.iter().filter(|(_, n)| **n > 0).collect();
    list.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let words: Vec<_> = list.iter().map(|(name, n)| format!("{name} {}", grouped(**n))).collect();
    if words.is_empty() { "-".into() } else { words.join(", ") }
}

/// The most of an NF's own counters that are named; JSON and YAML have all.
const NAMED: usize = 12;

/// NFs' own counters that are not zero, the largest first, a line for each NF; nothing if there are none.
pub fn counters<'a>(nfs: impl Iterator<Item = (&'a str, &'a Counters)>) -> String {
    let mut t = table(&["NF", "its own counters"], 2);
    for (name, all) in nfs {
        let mut list: Vec<_> = all.iter().filter(|(_, n)| **n > 0).collect();
        list.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        let mut words: Vec<_> = list.iter().take(NAMED).map(|(name, n)| format!("{name} {}", grouped(**n))).collect();
        match list.len().saturating_sub(NAMED) {
            _ if words.is_empty() => continue,
            0 => {}
            more => words.push(format!("and {more} more")),
        }
        t.add_row([name, &words.join(", ")]);
    }
    if t.is_empty() { String::new() } else { format!("\n{}\n", trimmed(&t.to_string())) }
}

/// Without the spaces at the ends of lines that tables leave.
pub fn trimmed(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn counters_that_are_not_zero_are_named_and_not_all_of_many() {
        let few = [("rule_1", 1200), ("rule_2", 0), ("default", 7_000_000)];
        let few = few.into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
        let many = (1..=20).map(|i| (format!("rule_{i}"), i)).collect();
        let none = [("hits".to_owned(), 0)].into();
        let text = super::counters([("fw", &few), ("quiet", &none), ("long", &many)].into_iter());
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines[0], "fw    default 7 000 000, rule_1 1 200");
        assert!(lines[1].starts_with("long  rule_20 20, ") && lines[1].ends_with(" rule_9 9, and 8 more"), "{text}");
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(super::counters([("quiet", &none)].into_iter()), "");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(super::grouped(1_234_567), "1 234 567");
        assert_eq!(super::rate(14_880_000.0, "pps"), "14.88 Mpps");
        assert_eq!(super::rate(999.0, "pps"), "999 pps");
        assert_eq!(super::time(1_500), "1.5 µs");
    }
}
