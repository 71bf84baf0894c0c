//! Measures the NFs on this host: rates on one core over the size of their state and the locality of the traffic. The
//! released program with ordinary chain files, steered, so that an NF's state is there before it is measured. What each
//! figure means stands in `docs/performance.md`.

#![forbid(unsafe_code)]

mod cases;
mod figures;
mod inputs;
mod page;
mod readme;
mod rounds;

use cases::{Locality, Subject};
use chainline_bench::figures::{Figure, Goal, Named, Repetitions, Samples, table};
use chainline_bench::{host, report};
use clap::Parser;
use rounds::{Bench, NfsError};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What [`Options::only`] can name.
const KINDS: [&str; 9] = ["forward", "firewall", "l3fwd", "router", "monitor", "lb", "nat", "policer", "chain4"];

/// Measures Chainline's NFs on this host; the table goes to standard output, what is going on to standard error.
#[derive(Debug, Parser)]
#[command(name = "bench-nfs")]
struct Options {
    /// One round of very short trials: shows that everything works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Rounds; each does everything once.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Milliseconds of a trial's measured window.
    #[arg(long, value_name = "MS")]
    trial_ms: Option<u64>,
    /// Ten million flows as well: some gigabytes of memory, and twice the time.
    #[arg(long)]
    full: bool,
    /// Measure these alone.
    #[arg(long, value_name = "NF", value_delimiter = ',', value_parser = KINDS)]
    only: Vec<String>,
    /// Routes of a real table instead of made ones: pyasn's form, gzip or not.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// The program to measure.
    #[arg(long, value_name = "FILE", default_value = "target/release/chainline")]
    program: PathBuf,
    /// Where `nfs.json` and `nfs.html` go, and in `nfs/` the chain files with what they read.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    out: PathBuf,
    /// Measures nothing: writes the README's table of NFs from `nfs.json` and the counted instructions.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "README.md")]
    readme: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.readme {
        Some(readme) => {
            let counted = Path::new("docs/reference/instructions.json");
            readme::update(readme, &options.out.join("nfs.json"), counted)
        }
        None => bench(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-nfs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> Result<(), NfsError> {
    let quick = options.quick;
    let dir = options.out.join("nfs");
    let io = |source| NfsError::Io { what: dir.display().to_string(), source };
    std::fs::create_dir_all(&dir).map_err(io)?;
    inputs::write(&dir, options.routes.as_deref()).map_err(io)?;
    let chosen = |s: &Subject| options.only.is_empty() || options.only.iter().any(|w| w == s.kind());
    let subjects = Subject::ALL.into_iter().filter(chosen);
    let groups: Vec<_> = subjects.map(|s| (s, cases::of(s, options.full))).collect();
    // The flows are the same in every order.
    let exact = groups.iter().filter(|(s, _)| *s == Subject::L3fwdExact).flat_map(|(_, cases)| cases);
    for case in exact.filter(|case| case.locality == Locality::Best) {
        std::fs::write(dir.join(inputs::flows_file(case.flows)), inputs::flows(case.tuples())).map_err(io)?;
    }
    let window_ms = options.trial_ms.unwrap_or(if quick { 100 } else { 600 });
    let mut bench = Bench {
        program: options.program.clone(),
        dir,
        rounds: options.rounds.unwrap_or(if quick { 1 } else { 5 }),
        window: Duration::from_millis(window_ms),
        repetitions: Repetitions::new(if quick { 0 } else { 60 }),
        groups,
        samples: Samples::default(),
    };
    bench.run()?;

    let samples = &bench.samples;
    let figures = figures::all(samples, &bench.groups);
    let mut table = table::new();
    for f in &figures {
        table.add_row(row(f));
    }
    println!("{table}");
    let warnings = samples.warnings("nfs.json");
    for warning in &warnings {
        println!("{warning}");
    }
    let environment = host::environment(&samples.environment);
    let html = page::html(&figures, &bench.groups, environment.clone(), warnings)?;
    let run = json!({
        "command": report::quoted(&std::env::args().collect::<Vec<_>>()),
        "rounds": bench.rounds, "trial_s": bench.window.as_secs_f64(), "trials": samples.trials, "quick": quick,
        "routes": options.routes,
        "stolen_share": samples.ticks.stolen_share(), "foreign_share": samples.ticks.foreign_share(),
        "disturbed_trials": samples.spoiled,
    });
    let mut results: Map<String, Value> = figures.iter().map(|f| (f.name.clone(), json!(f.figure))).collect();
    results.insert("environment".into(), environment);
    results.insert("run".into(), run);
    for (name, text) in [("nfs.json", format!("{:#}\n", Value::Object(results))), ("nfs.html", html)] {
        let path = options.out.join(name);
        std::fs::write(&path, text).map_err(|source| NfsError::Io { what: path.display().to_string(), source })?;
        println!("{}", path.display());
    }
    Ok(())
}

/// The figure's line; who bounds a rate stands at its end.
fn row(named: &Named) -> Vec<String> {
    let mut row = table::row(&named.name, &named.figure, named.goal);
    if let (Figure::Measured(m), Some(last)) = (&named.figure, row.last_mut())
        && m.notes.get("bounded_by").is_some_and(|by| by == "generator")
    {
        let space = if named.goal == Goal::None { "" } else { " " };
        *last += &format!("{space}(bounded by the generator)");
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nf_can_be_chosen() {
        let kinds: std::collections::BTreeSet<_> = Subject::ALL.iter().map(|s| s.kind()).collect();
        assert_eq!(kinds, KINDS.into_iter().collect());
    }

    #[test]
    fn a_line_says_who_bounds_it() {
        let figure = Figure::of(vec![20.0], "Mpps").note("bounded_by", "generator");
        let line = row(&Named { name: "a".into(), figure, goal: Goal::AtLeast(25.0) });
        assert_eq!(line.last().unwrap(), "NOT MET (bounded by the generator)");
    }
}
