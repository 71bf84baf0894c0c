//! `chainline describe`

mod arguments;
mod measured;
mod table;

use crate::exit::{Exit, WrongInput};
use crate::kinds;
use crate::output::{self, Format};
use anyhow::Context;
use chainline_nf::{CounterSpec, Env, Footprint, Kind};
use std::path::{Path, PathBuf};

/// Says what there is: kinds of NF.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP, arg_required_else_help = true)]
pub struct Describe {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Describes a kind of NF, or lists all: arguments, counters, drop reasons, which parts of packets it reads and writes,
    /// what its state belongs to, and what a packet costs if that was measured.
    #[command(after_help = HELP)]
    Nf(Nf),
}

#[derive(Debug, clap::Args)]
struct Nf {
    /// A built-in kind, or the path of a shared object; without it all built-in kinds are listed.
    kind: Option<String>,
    /// Where measured costs are: JSON with an object of numbers for each kind, `{"firewall": {"ns_per_packet": 15.2}}`, or
    /// numbers with one for each kind, as docs/reference/instructions.json has them.
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const HELP: &str = "\
Examples:
  chainline describe nf
  chainline describe nf firewall
  chainline describe nf ./libmine.so
  chainline describe nf lb -o json | jq .footprint.state
  chainline describe nf firewall --measured docs/reference/instructions.json

Counters and drop reasons are those that the kind declares with the arguments shown as sample; others may declare others.
Costs are looked for in target/bench/nfs.json unless --measured names a file.";

/// Where costs are looked for.
const MEASURED: &str = "target/bench/nfs.json";

/// A kind, for people and machines.
#[derive(Debug, serde::Serialize)]
struct Description {
    kind: String,
    about: String,
    /// Absent: the kind does not say.
    footprint: Option<Footprint>,
    arguments: Vec<arguments::Argument>,
    declared: Option<Declared>,
    /// Absent: not measured here.
    measured: Option<serde_json::Map<String, serde_json::Value>>,
}

/// What the kind declares with some arguments.
#[derive(Debug, serde::Serialize)]
struct Declared {
    sample: serde_json::Value,
    counters: Vec<CounterSpec>,
    drop_reasons: Vec<String>,
}

/// A line of the list.
#[derive(Debug, serde::Serialize)]
struct Line {
    kind: &'static str,
    about: &'static str,
}

impl Describe {
    pub fn run(self) -> anyhow::Result<Exit> {
        let What::Nf(nf) = self.what;
        let registry = kinds::registry();
        let Some(name) = nf.kind else {
            let all: Vec<_> = registry.iter().map(|k| Line { kind: k.name, about: k.about }).collect();
            output::value(nf.output, &all, |all| table::list(all))?;
            return Ok(Exit::Ok);
        };
        let mut found = if name.contains('/') || name.ends_with(".so") {
            loaded(&name)?
        } else if let Some(kind) = registry.get(&name) {
            built_in(kind)?
        } else {
            let known: Vec<_> = registry.iter().map(|k| k.name).collect();
            let known = known.join(", ");
            let message = format!("no kind \"{name}\"; expected one of {known}, or a path such as ./libmine.so");
            return Err(WrongInput(message).into());
        };
        found.measured = measured::of(&found.kind, nf.measured.as_deref())?;
        output::value(nf.output, &found, table::of)?;
        Ok(Exit::Ok)
    }
}

fn built_in(kind: &Kind) -> anyhow::Result<Description> {
    Ok(Description {
        kind: kind.name.to_owned(),
        about: kind.about.to_owned(),
        footprint: kind.footprint,
        arguments: arguments::of(&(kind.args_schema)()),
        declared: Some(declared(kind).with_context(|| format!("the sample of kind {}", kind.name))?),
        measured: None,
    })
}

/// The C ABI tells of name, purpose, arguments and footprint.
fn loaded(path: &str) -> anyhow::Result<Description> {
    let kind = chainline_nf_c::load(path).map_err(|e| WrongInput(e.to_string()))?;
    Ok(Description {
        kind: kind.name().to_owned(),
        about: kind.about().to_owned(),
        footprint: kind.footprint(),
        arguments: arguments::of(kind.args_schema()),
        declared: None,
        measured: None,
    })
}

/// Builds the kind with its sample, in a directory that goes afterwards.
fn declared(kind: &Kind) -> anyhow::Result<Declared> {
    struct Dir(PathBuf);
    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
    let sample: serde_json::Value = serde_json::from_str(kind.sample.args)?;
    let dir = Dir(std::env::temp_dir().join(format!("chainline-describe-{}", std::process::id())));
    std::fs::create_dir_all(&dir.0)?;
    for (name, text) in kind.sample.files {
        std::fs::write(dir.0.join(name), text)?;
    }
    let declared = declare(kind, sample.clone(), &dir.0)?;
    Ok(Declared { sample, counters: declared.counters, drop_reasons: declared.drop_reasons })
}

fn declare(kind: &Kind, args: serde_json::Value, dir: &Path) -> Result<chainline_nf::Declared, chainline_nf::Error> {
    let mut env = Env::new(dir, &[]);
    (kind.build)(args, &mut env)?;
    Ok(env.into_declared())
}
