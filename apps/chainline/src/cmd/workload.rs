//! `chainline workload`: what a generator sends, without running a chain.

use crate::exit::{Exit, WrongInput};
use crate::output::{self, Format};
use crate::{kinds, report};
use anyhow::Context;
use chainline_chain::model::{File, Generator, Port};
use chainline_chain::{Host, load_bytes};
use chainline_manager::traffic;
use std::path::{Path, PathBuf};

/// Makes the packets of a generator, and says what its mixes are.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Workload {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Writes a capture of what a generator sends: the same packets, byte for byte, at the same times.
    ///
    /// Times begin at 0 and come from the generator's schedule; with `rate: max` there is none, and packets are 1 µs apart.
    #[command(after_help = HELP)]
    Make(Make),
    /// Lists the mixes of frame sizes that have a name, and what each is.
    Mixes {
        /// The form of the list.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
}

#[derive(Debug, clap::Args)]
struct Make {
    /// The chain file with the generator, YAML or JSON; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present = "generator")]
    file: Option<PathBuf>,
    /// The generator, as a chain file has it behind `generator:`; instead of a file.
    #[arg(short, long, value_name = "YAML", conflicts_with_all = ["file", "port"])]
    generator: Option<String>,
    /// The port, if the file has several generators.
    #[arg(short, long, value_name = "NAME")]
    port: Option<String>,
    /// The capture to write (pcap, times in nanoseconds); overwritten.
    #[arg(short, long, value_name = "CAPTURE")]
    output: PathBuf,
    /// How many packets; by default the generator's own `count`.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

const HELP: &str = "\
Examples:
  chainline workload make examples/traffic.yaml --port web -n 10000 -o web.pcap
  chainline workload make -g '{mix: csit-imix, flows: 1000, order: {zipf: 1.1}}' -n 100000 -o zipf.pcap
  chainline workload make -g '{rate: 1Mpps, schedule: poisson}' -n 1000 -o poisson.pcap
  chainline workload mixes

What can be said of a generator stands in docs/workload.md.";

impl Workload {
    pub fn run(self) -> anyhow::Result<Exit> {
        match self.what {
            What::Make(make) => make.run(),
            What::Mixes { output } => mixes(output),
        }
    }
}

/// A mix with a name, as machines read it.
#[derive(serde::Serialize)]
struct NamedMix {
    name: &'static str,
    definition: &'static str,
    parts: Vec<Part>,
}

#[derive(serde::Serialize)]
struct Part {
    frame_bytes: u16,
    weight: u32,
}

fn mixes(format: Format) -> anyhow::Result<Exit> {
    let all: Vec<_> = chainline_workload::NAMED
        .iter()
        .map(|m| NamedMix {
            name: m.name,
            definition: m.definition,
            parts: m.parts.iter().map(|&(frame_bytes, weight)| Part { frame_bytes, weight }).collect(),
        })
        .collect();
    output::value(format, &all, |all| all.iter().map(|m| format!("{:18} {}\n", m.name, m.definition)).collect())?;
    Ok(Exit::Ok)
}

impl Make {
    fn run(self) -> anyhow::Result<Exit> {
        let (file, dir) = self.load()?;
        let (name, generator) = self.pick(&file)?;
        let Some(count) = self.count.or(generator.count) else {
            return Err(WrongInput(format!("how many packets? `{name}` has no `count`: give -n N")).into());
        };
        let loaded = traffic::load(generator, &dir).with_context(|| format!("port `{name}`"))?;
        for remark in &loaded.remarks {
            report::note(remark);
        }
        let made = traffic::write_capture(&loaded, count, &self.output)?;
        let s = if made.packets == 1 { "" } else { "s" };
        report::note(&format!(
            "{}: {} packet{s} of {} in {:.6} s: {}; temporal locality {:.4}",
            self.output.display(),
            made.packets,
            if made.flows == 1 { "1 flow".into() } else { format!("{} flows", made.flows) },
            made.ns as f64 / 1e9,
            loaded.spec.mix,
            made.temporal_locality,
        ));
        Ok(Exit::Ok)
    }

    fn load(&self) -> anyhow::Result<(File, PathBuf)> {
        if let Some(generator) = &self.generator {
            // A chain file around it, so that it is read and refused as in one.
            let text = format!(
                "apiVersion: chainline/v1alpha1\nkind: ServiceChain\nmetadata: {{name: workload}}\nspec:\n  ports:\n    \
                 out: {{sink: {{}}}}\n    generator:\n      generator: {}\n  chains:\n    - {{name: workload, path: \
                 [generator, out]}}\n",
                generator.replace('\n', "\n        ")
            );
            let file = load_bytes(text.as_bytes(), Path::new("--generator"), &host(&[]))?;
            return Ok((file, PathBuf::new()));
        }
        let path = self.file.as_deref().unwrap_or(Path::new("-"));
        let registry = kinds::registry();
        let names: Vec<&str> = registry.iter().map(|kind| kind.name).collect();
        let file = load_bytes(&crate::input::read(path)?, path, &host(&names))?;
        Ok((file, path.parent().unwrap_or(Path::new("")).to_owned()))
    }

    fn pick<'f>(&self, file: &'f File) -> anyhow::Result<(&'f str, &'f Generator)> {
        let generators: Vec<_> = file
            .spec
            .ports
            .iter()
            .filter_map(|(name, port)| match port {
                Port::Generator(g) => Some((name.as_str(), g)),
                _ => None,
            })
            .collect();
        let names = generators.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let found = match &self.port {
            Some(port) => generators.iter().find(|(name, _)| name == port),
            None if generators.len() == 1 => generators.first(),
            None => None,
        };
        found.copied().ok_or_else(|| {
            let what = match (&self.port, generators.len()) {
                (_, 0) => "the file has no generator, expected one".to_owned(),
                (Some(port), _) => format!("`{port}` is no generator of the file, expected {names}"),
                (None, _) => format!("the file has several generators: name one of {names} with --port"),
            };
            WrongInput(what).into()
        })
    }
}

/// Cores are of no concern here: nothing runs.
fn host<'a>(kinds: &'a [&'a str]) -> Host<'a> {
    Host { cores: None, kinds: if kinds.is_empty() { None } else { Some(kinds) } }
}
