//! Measures what Chainline promises on this host: the released program with ordinary chain files, judged by its own
//! reports. Short trials in interleaved rounds; medians with their extremes; nothing is refused for being slow, since
//! hosts differ. What each figure means stands in `docs/performance.md`.

#![forbid(unsafe_code)]

mod chains;
mod figures;
mod instructions;
mod rounds;
mod table;
mod trial;
mod veth;

use chainline_bench::figures::{Repetitions, Samples};
use clap::Parser;
use rounds::{Bench, GROUPS, Times};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use trial::{Program, TrialError};

/// Measures Chainline on this host; the table goes to standard output, what is going on to standard error.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Options {
    /// Two rounds of very short trials: shows that everything works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Rounds; each does everything once.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Milliseconds of a trial under load.
    #[arg(long, value_name = "MS")]
    trial_ms: Option<u64>,
    /// Measure these alone.
    #[arg(long, value_name = "GROUP", value_delimiter = ',', value_parser = GROUPS)]
    only: Vec<String>,
    /// The program to measure.
    #[arg(long, value_name = "FILE", default_value = "target/release/chainline")]
    program: PathBuf,
    /// The yardstick for a hop over veth, built.
    #[arg(long, value_name = "FILE")]
    veth_hop: Option<PathBuf>,
    /// Instructions a packet, counted already: what `scripts/instructions.sh --json` prints.
    #[arg(long, value_name = "FILE")]
    instructions: Option<PathBuf>,
    /// Where `results.json` and the chain files go.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match bench(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> Result<(), TrialError> {
    let quick = options.quick;
    let times = Times {
        rounds: options.rounds.unwrap_or(if quick { 2 } else { 5 }),
        trial: Duration::from_millis(options.trial_ms.unwrap_or(if quick { 200 } else { 1000 })),
        idle: Duration::from_millis(if quick { 500 } else { 1000 }),
    };
    let chains = options.out.join("chains");
    trial::directory(&chains)?;
    let mut bench = Bench {
        program: Program {
            path: options.program.clone(),
            chains,
            repetitions: Repetitions::new(if quick { 5 } else { 40 }),
        },
        veth: veth::Veth { path: options.veth_hop.clone() },
        times,
        only: options.only.clone(),
        samples: Samples::default(),
    };
    bench.run()?;
    let samples = &bench.samples;
    let figures = figures::all(samples);
    let orders = figures::by_order(samples);
    let counts = instructions::read(options.instructions.as_deref());
    println!("{}", table::render(&figures, &orders, &counts));
    for warning in samples.warnings("results.json") {
        println!("{warning}");
    }

    let mut results: Map<String, Value> = figures.iter().map(|f| (f.name.clone(), json!(f.figure))).collect();
    results.insert("shared_core_ratio_by_order".into(), orders.iter().map(|(n, f)| (n.clone(), json!(f))).collect());
    results.insert("instructions_per_packet".into(), counts.iter().map(|(n, f)| (n.clone(), json!(f))).collect());
    results.insert("environment".into(), chainline_bench::host::environment(&samples.environment));
    results.insert(
        "run".into(),
        json!({
            "rounds": times.rounds, "trial_s": times.trial.as_secs_f64(), "trials": samples.trials, "quick": quick,
            "stolen_share": samples.ticks.stolen_share(), "foreign_share": samples.ticks.foreign_share(),
            "disturbed_trials": samples.spoiled,
            "iteration_cycles": samples.get("iteration_cycles").first().map(|s| s.value),
        }),
    );
    let path = options.out.join("results.json");
    let text = format!("{:#}\n", Value::Object(results));
    std::fs::write(&path, text).map_err(|source| TrialError::Io { what: path.display().to_string(), source })?;
    println!("{}", path.display());
    Ok(())
}
