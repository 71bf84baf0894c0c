//! `chainline ctl`

mod change;
mod rules;
mod show;
mod watch;

use crate::exit::{Exit, WrongInput};
use crate::output::{self, Format};
use chainline_ctl::{Call, Changed, Client, ClientError, Fault, Run, Target, Word};
use std::path::{Path, PathBuf};

/// Asks and changes a run while packets flow, over its control socket (docs/reference/control-protocol.md).
#[derive(Debug, clap::Args)]
#[command(after_help = HELP, arg_required_else_help = true)]
pub struct Ctl {
    /// Which run: its name, its process id, or its socket's path. Not needed if there is only one on this host.
    #[arg(long, global = true, value_name = "NAME|PID|PATH")]
    run: Option<String>,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t, global = true)]
    output: Format,
    #[command(subcommand)]
    verb: Verb,
}

const HELP: &str = "\
A TARGET is an NF (fw), the NFs of a chain (chain:web), or those of a core (core:1).

Examples:
  chainline ctl list
  chainline ctl watch
  chainline ctl set-priority fw 4
  chainline ctl set-policy chain:web rr --priority 10
  chainline ctl rules web proto=tcp dst_port=80,443,8000-8999
  chainline ctl apply edge.yaml
  chainline ctl --run edge stats -o json | jq .ledger

Exit codes: 0 done; 1 no such run, or it refused; 2 the command line, a name in it or the chain file is wrong: nothing was
changed.";

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Shows the runs of this host that can be asked.
    Runs,
    /// Shows what runs: chains, NFs, instances.
    List,
    /// Shows the numbers: totals since the run began, rates over the last interval.
    Stats,
    Watch(watch::Watch),
    /// Prints the chain file in force, with all changes: `-o yaml` is a file that `run` takes.
    File,
    SetPolicy(change::SetPolicy),
    SetPriority(change::SetPriority),
    SetCores(change::SetCores),
    SetMechanisms(change::SetMechanisms),
    SetWatermarks(change::SetWatermarks),
    Rules(rules::Rules),
    SetPath(change::SetPath),
    Add(change::Add),
    Remove(change::Remove),
    Apply(change::Apply),
    /// Makes the run what its own chain file says now; the manager reads it again.
    Reload,
}

impl Ctl {
    pub fn run(self) -> anyhow::Result<Exit> {
        if let Verb::Runs = self.verb {
            return show::runs(self.output);
        }
        let mut client = connect(self.run.as_deref())?;
        let call = match self.verb {
            Verb::Runs => return Ok(Exit::Ok),
            Verb::List => return show::overview(&mut client, self.output),
            Verb::Stats => return show::stats(&mut client, self.output),
            Verb::Watch(watch) => return watch.run(&mut client, self.output),
            Verb::File => return show::file(&mut client, self.output),
            Verb::Rules(rules) => match rules.call()? {
                Some(call) => call,
                None => return rules.show(&mut client, self.output),
            },
            Verb::SetPolicy(v) => v.call(),
            Verb::SetPriority(v) => v.call(),
            Verb::SetCores(v) => v.call(),
            Verb::SetMechanisms(v) => v.call(),
            Verb::SetWatermarks(v) => v.call(),
            Verb::SetPath(v) => v.call(),
            Verb::Add(v) => v.call()?,
            Verb::Remove(v) => v.call(&mut client)?,
            Verb::Apply(v) => v.call()?,
            Verb::Reload => Call::Reload,
        };
        let changed: Changed = ask(&mut client, &call)?;
        changed.warnings.iter().for_each(|w| crate::report::note(&format!("warning: {w}")));
        output::value(self.output, &changed, show::changed)?;
        Ok(Exit::Ok)
    }
}

/// Asks, and gives what is refused the exit code that it should have.
fn ask<T: serde::de::DeserializeOwned>(client: &mut Client, call: &Call) -> anyhow::Result<T> {
    chainline_ctl::answer(client, call).map_err(|e| match e {
        ClientError::Refused(fault) => refused(&fault),
        other => other.into(),
    })
}

fn refused(fault: &Fault) -> anyhow::Error {
    let text = fault.hint.as_ref().map_or_else(|| fault.message.clone(), |hint| format!("{}; {hint}", fault.message));
    match fault.code {
        Word::Wrong | Word::InvalidParams | Word::Malformed | Word::TooLong | Word::UnknownMethod => {
            WrongInput(text).into()
        }
        Word::TooMany | Word::Refused | Word::Busy | Word::Unsupported => anyhow::anyhow!(text),
    }
}

/// Connects to the run that is meant.
fn connect(which: Option<&str>) -> anyhow::Result<Client> {
    if let Some(path) = which.filter(|w| w.contains('/')) {
        return Ok(Client::connect(Path::new(path))?);
    }
    Ok(Client::connect(&choose(which, &chainline_ctl::runs())?)?)
}

/// The socket of the run that is meant.
fn choose(which: Option<&str>, runs: &[Run]) -> anyhow::Result<PathBuf> {
    let fits = |r: &&Run| which.is_none_or(|w| r.name == w || r.pid.to_string() == w);
    let found: Vec<&Run> = runs.iter().filter(fits).collect();
    let list = |runs: &[&Run]| runs.iter().map(|r| format!("{} ({})", r.name, r.pid)).collect::<Vec<_>>().join(", ");
    match (found.as_slice(), which) {
        ([run], _) => Ok(run.path.clone()),
        ([], None) => anyhow::bail!("no run of this user listens on this host; `chainline run FILE` starts one"),
        ([], Some(which)) => {
            let all: Vec<&Run> = runs.iter().collect();
            let there = if all.is_empty() { "there is none".to_owned() } else { format!("there is {}", list(&all)) };
            anyhow::bail!("found no run `{which}` on this host; {there}")
        }
        (several, None) => {
            Err(WrongInput(format!("several runs listen, say which with --run: {}", list(several))).into())
        }
        (several, Some(which)) => {
            let what = format!("several runs are called `{which}`, say which with --run PID: {}", list(several));
            Err(WrongInput(what).into())
        }
    }
}

/// `fw`, `chain:web`, `core:1`
fn target(text: &str) -> Result<Target, String> {
    match text.split_once(':') {
        None if text.is_empty() => Err("found nothing, expected an NF, chain:NAME or core:NUMBER".into()),
        None => Ok(Target::Nf(text.to_owned())),
        Some(("nf", name)) => Ok(Target::Nf(name.to_owned())),
        Some(("chain", name)) => Ok(Target::Chain(name.to_owned())),
        Some(("core", number)) => match number.parse() {
            Ok(core) => Ok(Target::Core(core)),
            Err(_) => Err(format!("found the core \"{number}\", expected a number")),
        },
        Some((word, _)) => Err(format!("found \"{word}:\", expected an NF, chain:NAME or core:NUMBER")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        assert_eq!(target("fw"), Ok(Target::Nf("fw".into())));
        assert_eq!(target("chain:web"), Ok(Target::Chain("web".into())));
        assert_eq!(target("core:12"), Ok(Target::Core(12)));
        for bad in ["", "core:", "core:x", "port:in"] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_run_is_chosen_by_name_or_number_or_as_the_only_one() {
        let run = |name: &str, pid| Run { name: name.into(), pid, path: format!("/x/{name}-{pid}.sock").into() };
        let runs = [run("a", 1), run("b", 2), run("b", 3)];
        let of = |which, runs: &[Run]| choose(which, runs).map(|p| p.display().to_string()).map_err(|e| e.to_string());
        assert_eq!(of(None, &runs[..1]), Ok("/x/a-1.sock".into()));
        assert_eq!(of(Some("a"), &runs), Ok("/x/a-1.sock".into()));
        assert_eq!(of(Some("3"), &runs), Ok("/x/b-3.sock".into()));
        for (which, runs, words) in [
            (None, &runs[..], "--run"),
            (None, &[], "chainline run"),
            (Some("b"), &runs[..], "--run PID"),
            (Some("c"), &runs[..], "a (1), b (2)"),
        ] {
            let e = of(which, runs).unwrap_err();
            assert!(e.contains(words), "{which:?}: {e}");
        }
    }
}
