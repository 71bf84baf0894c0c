//! The README's table of NFs: what each does and what it costs, from `nfs.json` and the counted instructions. Written
//! between two markers, so that nobody types figures.

use crate::rounds::NfsError;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

const BEGIN: &str = "<!-- nfs: written by `target/release/bench-nfs --readme` -->";
const END: &str = "<!-- nfs: end -->";

/// A row: its kind, the figures' first words, what it does.
const ROWS: [(&str, &str, &str); 9] = [
    ("firewall", "firewall.rules10", "allows or denies by rules (10 of them)"),
    ("firewall", "firewall.rules10000", "the same with 10,000 rules"),
    ("l3fwd", "l3fwd.full", "forwards by a table of 500,000 prefixes"),
    ("l3fwd", "l3fwd.exact", "forwards by exact match, a next hop for each flow"),
    ("router", "router.full", "a whole hop: checks, ICMP errors, ARP, neighbours; the same table"),
    ("monitor", "monitor.hosts", "counts packets and bytes by host"),
    ("lb", "lb.nat", "balances over 100 backends (Maglev), flows keep theirs"),
    ("nat", "nat.pool16", "translates addresses and ports, 16 external addresses"),
    ("policer", "policer.flow", "meters each flow (RFC 2697)"),
];

/// Puts the table into a README.
///
/// # Errors
/// When a file cannot be read or written, or the README has no place for the table.
pub fn update(readme: &Path, figures: &Path, instructions: &Path) -> Result<(), NfsError> {
    let io = |path: &Path| {
        let what = path.display().to_string();
        move |source| NfsError::Io { what, source }
    };
    let json = |path: &Path| -> Result<Value, NfsError> {
        let text = std::fs::read_to_string(path).map_err(io(path))?;
        serde_json::from_str(&text).map_err(|e| NfsError::Made(format!("{}: {e}", path.display())))
    };
    let old = std::fs::read_to_string(readme).map_err(io(readme))?;
    let new = with_table(&old, &table(&json(figures)?, &json(instructions)?))
        .ok_or_else(|| NfsError::Made(format!("{}: expected lines '{BEGIN}' and '{END}'", readme.display())))?;
    std::fs::write(readme, new).map_err(io(readme))
}

fn with_table(readme: &str, table: &str) -> Option<String> {
    let (before, rest) = readme.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

fn table(figures: &Value, instructions: &Value) -> String {
    let of = |name: String| {
        let figure = &figures[&name];
        let bound = if figure["bounded_by"] == "generator" { "≥ " } else { "" };
        (figure["median"].as_f64().map_or("–".into(), |m| format!("{bound}{m:.1}")), figure["nf_cost_ns"].clone())
    };
    let mut out = String::from(
        "| NF | does | Mpps, 10 flows | Mpps, 1,000,000 flows | ns a packet | instructions a packet |\n\
         |---|---|---|---|---|---|\n",
    );
    for (kind, name, does) in ROWS {
        let (few, few_ns) = of(format!("{name}.10.random.mpps"));
        let (many, many_ns) = of(format!("{name}.1000000.random.mpps"));
        let ns = |v: Value| v.as_f64().map_or("–".into(), |ns| format!("{ns:.0}"));
        let counted = match name {
            // Nothing is counted with its arguments.
            "firewall.rules10000" => None,
            "l3fwd.exact" => instructions["instructions_per_packet"]["l3fwd-exact"].as_f64(),
            _ => instructions["instructions_per_packet"][kind].as_f64(),
        };
        let counted = counted.map_or("–".into(), |n| format!("{n:.0}"));
        let _ = writeln!(
            out,
            "| [{kind}](nfs/{kind}/) | {does} | {few} | {many} | {} – {} | {counted} |",
            ns(few_ns),
            ns(many_ns)
        );
    }
    let (few, many) = (of("chain4.10.mpps".into()).0, of("chain4.1000000.mpps".into()).0);
    let _ = writeln!(out, "| firewall → monitor → lb → l3fwd | fused | {few} | {many} | | |");
    let word = |v: &Value| v.as_str().map(str::to_owned).unwrap_or_else(|| "unknown".into());
    let (run, environment) = (&figures["run"], &figures["environment"]);
    let (commit, cpu) = (word(&environment["commit"]), word(&environment["cpu"]));
    let distance = figures["core_to_core_ns"]["median"].as_f64().map_or("unknown".into(), |ns| format!("{ns:.0} ns"));
    let _ = writeln!(
        out,
        "\nOne core, 64-byte frames, random order of flows; medians of {} rounds; ≥: the generator's core bounds it. ns: \
         inside the NF, with 10 and 1,000,000 flows. {cpu}, cache line from core to core and back {distance}. \
         `{}`, commit {commit:.12}; instructions: `scripts/instructions.sh`.",
        run["rounds"],
        word(&run["command"]),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_goes_between_the_markers() {
        let old = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(with_table(&old, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(with_table("a\n", "new\n"), None);
    }

    #[test]
    fn a_row_says_who_bounds_it() {
        let figures =
            json!({"lb.nat.10.random.mpps": {"median": 18.04, "bounded_by": "generator", "nf_cost_ns": 31.0}});
        let table = table(&figures, &json!({"instructions_per_packet": {"lb": 530.6}}));
        assert!(table.contains("| ≥ 18.0 | – | 31 – – | 531 |"), "{table}");
    }
}
