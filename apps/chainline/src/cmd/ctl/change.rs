//! The verbs that change something, as requests.

use super::{ask, target};
use crate::exit::WrongInput;
use crate::input;
use chainline_chain::model::{Mechanisms, Policy};
use chainline_ctl::{Call, Client, Overview, Target};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Schedules NFs otherwise: all of it is replaced; what is not given is as in a chain file that leaves it out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chainline ctl set-policy fw batch --nice -5
  chainline ctl set-policy chain:voice fifo --priority 10
  chainline ctl set-policy core:1 other --slice-us 500
  chainline ctl set-policy fw deadline --runtime-us 1000 --period-us 10000")]
pub struct SetPolicy {
    /// An NF, chain:NAME or core:NUMBER.
    #[arg(value_parser = target)]
    target: Target,
    /// The policy of sched(7).
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(Policy::WORDS.iter().map(|(w, _)| *w)))]
    policy: String,
    /// -20 (favoured) to 19.
    #[arg(long, allow_negative_numbers = true)]
    nice: Option<i8>,
    /// The factor of the share, or the static priority of fifo and rr: 1 to 99.
    #[arg(long)]
    priority: Option<u8>,
    /// A fixed weight instead of `auto`.
    #[arg(long)]
    weight: Option<u32>,
    /// Slice in microseconds.
    #[arg(long)]
    slice_us: Option<u32>,
    /// Time per period in microseconds; deadline.
    #[arg(long)]
    runtime_us: Option<u32>,
    /// Deadline in microseconds from the period's start; deadline.
    #[arg(long)]
    deadline_us: Option<u32>,
    /// Period in microseconds; deadline.
    #[arg(long)]
    period_us: Option<u32>,
}

impl SetPolicy {
    pub fn call(self) -> Call {
        let mut sched = Map::from_iter([("policy".to_owned(), json!(self.policy))]);
        let fields = [
            ("nice", self.nice.map(Value::from)),
            ("priority", self.priority.map(Value::from)),
            ("weight", self.weight.map(Value::from)),
            ("slice_us", self.slice_us.map(Value::from)),
            ("runtime_us", self.runtime_us.map(Value::from)),
            ("deadline_us", self.deadline_us.map(Value::from)),
            ("period_us", self.period_us.map(Value::from)),
        ];
        sched.extend(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        Call::SetPolicy { of: self.target, sched: Value::Object(sched) }
    }
}

/// Changes the factor of NFs' shares, or their static priority under fifo and rr.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  chainline ctl set-priority fw 4        four times the share that its load alone gives it")]
pub struct SetPriority {
    /// An NF, chain:NAME or core:NUMBER.
    #[arg(value_parser = target)]
    target: Target,
    /// 1 to 99.
    #[arg(value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: u8,
}

impl SetPriority {
    pub fn call(self) -> Call {
        Call::SetPriority { of: self.target, priority: self.priority }
    }
}

/// Moves NFs to other cores.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  chainline ctl set-cores chain:bulk 2-3")]
pub struct SetCores {
    /// An NF, chain:NAME or core:NUMBER.
    #[arg(value_parser = target)]
    target: Target,
    /// The cores that they may run on, such as 0-3,8.
    #[arg(value_name = "LIST", value_parser = input::parse_cores)]
    cores: input::CoreList,
}

impl SetCores {
    pub fn call(self) -> Call {
        Call::SetCores { of: self.target, cores: self.cores.0 }
    }
}

/// Changes when overloaded chains shed at their entry; what is not given stays as it is.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Example:
  chainline ctl set-watermarks --high 0.9 --low 0.5"
)]
pub struct SetWatermarks {
    /// The part of a queue from which on it is overloaded, 0 to 1.
    #[arg(long)]
    high: Option<f64>,
    /// The part down to which its chains shed then.
    #[arg(long)]
    low: Option<f64>,
    /// Microseconds that packets may wait in a long queue.
    #[arg(long)]
    threshold_us: Option<f64>,
    /// Microseconds that packets should spend inside a chain under overload.
    #[arg(long)]
    target_us: Option<f64>,
    /// Whether packets are marked \"congestion experienced\".
    #[arg(long)]
    ecn: Option<bool>,
}

impl SetWatermarks {
    pub fn call(self) -> Call {
        let fields = [
            ("high", self.high.map(Value::from)),
            ("low", self.low.map(Value::from)),
            ("threshold_us", self.threshold_us.map(Value::from)),
            ("target_us", self.target_us.map(Value::from)),
            ("ecn", self.ecn.map(Value::from)),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Call::SetWatermarks { backpressure: fields.collect() }
    }
}

/// Changes which mechanisms against wasted work are in force.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Where credit comes or goes (from `all` to `weights`, for example), all NFs are started anew and begin without their state.

Example:
  chainline ctl set-mechanisms default      as a stock platform has it")]
pub struct SetMechanisms {
    /// Which.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(Mechanisms::WORDS.iter().map(|(w, _)| *w)))]
    mechanisms: String,
}

impl SetMechanisms {
    pub fn call(self) -> Call {
        Call::SetMechanisms { mechanisms: self.mechanisms }
    }
}

/// Changes the NFs that a chain's packets visit.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
New NFs and queues come up first; then the chain runs empty, and goes on on the new path. NFs that also serve other chains
are started anew with them, as their queues change.

Example:
  chainline ctl set-path web in,fw,nat,out")]
pub struct SetPath {
    /// The chain.
    chain: String,
    /// The ingress port, the NFs in order, the egress port, with commas between.
    #[arg(value_delimiter = ',', required = true)]
    path: Vec<String>,
}

impl SetPath {
    pub fn call(self) -> Call {
        Call::SetPath { chain: self.chain, path: self.path }
    }
}

/// Adds NFs and chains, and ports that need no device.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file has `ports`, `nfs` and `chains` as under `spec` of a chain file:

  nfs: {log: {kind: monitor}}
  chains: [{name: dns, match: {dst_port: 53}, path: [in, log, out]}]

Examples:
  chainline ctl add dns.yaml --before web
  echo '{chains: [{name: rest, path: [in, fw, out]}]}' | chainline ctl add -")]
pub struct Add {
    /// What to add, YAML or JSON; `-` is standard input.
    file: PathBuf,
    /// The chain that new chains come before; a packet belongs to the first that matches. Default: after all others.
    #[arg(long, value_name = "CHAIN")]
    before: Option<String>,
}

impl Add {
    pub fn call(self) -> anyhow::Result<Call> {
        let bytes = input::read(&self.file)?;
        let wrong = |what: String| WrongInput(format!("{}: {what}", self.file.display()));
        let mut value: Value = serde_saphyr::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
        if let (Some(map), Some(before)) = (value.as_object_mut(), &self.before) {
            map.insert("before".into(), json!(before));
        }
        Ok(Call::Add(serde_json::from_value(value).map_err(|e| wrong(format!("{e}; expected ports, nfs, chains")))?))
    }
}

/// Removes chains and NFs by name. An NF leaves every path that it is on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The chains concerned run empty first. What still comes and matches no other chain is counted as no_match.

Examples:
  chainline ctl remove dns
  chainline ctl remove chain:dns nf:log")]
pub struct Remove {
    /// Names of chains and NFs; chain:NAME or nf:NAME where both have the name.
    #[arg(required = true)]
    names: Vec<String>,
}

impl Remove {
    pub fn call(self, client: &mut Client) -> anyhow::Result<Call> {
        let there: Overview = ask(client, &Call::List)?;
        let mut remove = chainline_ctl::Remove::default();
        for name in self.names {
            let (word, bare) = name.split_once(':').unwrap_or(("", &name));
            let chain = there.chains.iter().any(|c| c.name == bare);
            match (word, chain, there.nfs.iter().any(|n| n.name == bare)) {
                ("chain", ..) | ("", true, false) => remove.chains.push(bare.to_owned()),
                ("nf", ..) | ("", false, _) => remove.nfs.push(bare.to_owned()),
                ("", true, true) => {
                    let what = format!("`{bare}` is a chain and an NF, expected chain:{bare} or nf:{bare}");
                    return Err(WrongInput(what).into());
                }
                _ => return Err(WrongInput(format!("found \"{name}\", expected NAME, chain:NAME or nf:NAME")).into()),
            }
        }
        Ok(Call::Remove(remove))
    }
}

/// Makes the run what another chain file says, changing only what differs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  chainline ctl file -o yaml > now.yaml && $EDITOR now.yaml && chainline ctl apply now.yaml")]
pub struct Apply {
    /// The chain file, YAML or JSON; `-` is standard input. Relative paths in it start where those of the run's file do.
    file: PathBuf,
}

impl Apply {
    pub fn call(self) -> anyhow::Result<Call> {
        let bytes = input::read(&self.file)?;
        let text = String::from_utf8(bytes).map_err(|e| WrongInput(format!("{}: {e}", self.file.display())))?;
        Ok(Call::Apply { file: Value::String(text), name: Some(self.file.display().to_string()) })
    }
}
