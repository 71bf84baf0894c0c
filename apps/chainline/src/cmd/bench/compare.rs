//! `chainline bench compare`

use super::quick::figures;
use super::session::{Common, stop};
use crate::exit::{Exit, WrongInput};
use crate::{output, report};
use anyhow::Context;
use chainline_bench::results::InputFile;
use chainline_bench::rivals::adapter::{PortKind, Spec};
use chainline_bench::rivals::compare::{Comparison, FLOWS, FRAME_BYTES, LATENCY_PPS, choose};
use chainline_bench::rivals::rival::Cores;
use chainline_bench::rivals::started::{apt_line, check};
use chainline_bench::rivals::{self, builtin, load};
use chainline_bench::run::{Bench, Measure, Protocol};
use std::path::PathBuf;

/// Measures Chainline and other dataplanes side by side: same packets, same cores, same search.
///
/// Each dataplane runs in a network namespace of its own, pinned to one core; a generator and a checking sink, on
/// another core, send through it and back over veth pairs or memif. The cost of the port alone, with nothing between,
/// is measured beside them. Each dataplane's own counters are held against ours in every trial.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Compare {
    /// Only these built-in dataplanes, such as testpmd-io,ovs.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    with: Vec<String>,
    /// A dataplane file (docs/reference/dataplane-file.md) to be measured as well; may be given again.
    #[arg(long, value_name = "FILE")]
    dataplane: Vec<PathBuf>,
    /// Ports between tester and dataplane: of veth, af_xdp (the same veth pairs through AF_XDP sockets) and memif.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_ports, default_value = "veth,memif")]
    ports: Vec<PortKind>,
    /// Frame sizes in bytes, with FCS; 64,512,1518 if not given, with --quick 64 alone.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(64..=1518))]
    frame_bytes: Vec<u16>,
    /// Number of flows.
    #[arg(long, value_name = "N", default_value_t = FLOWS, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flows: u32,
    /// Core of the tester; by default the first one.
    #[arg(long, value_name = "CORE")]
    tester_core: Option<usize>,
    /// Core of the dataplane; by default the second one.
    #[arg(long, value_name = "CORE")]
    dataplane_core: Option<usize>,
    /// Install what is missing with apt-get first, as root.
    #[arg(long)]
    install: bool,
    /// List what would be measured, and what of it this host lacks.
    #[arg(long = "list")]
    listing: bool,
    /// Print the file of a built-in dataplane: a beginning for one's own.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["listing", "install", "dataplane"])]
    print: Option<String>,
    #[command(flatten)]
    common: Common,
}

const HELP: &str = "\
Needs root: it makes network namespaces, and removes them again. A dataplane file runs programs as root.

Examples:
  sudo chainline bench compare --quick
  sudo chainline bench compare --with testpmd-io,ovs --frame-bytes 64
  sudo chainline bench compare --with chainline --dataplane mine.yaml --ports memif
  sudo chainline bench compare --install --list     what is there, after installing what Debian has
  chainline bench compare --print testpmd-io > mine.yaml

Exit code 0 if all was measured, 1 if not; 2 if a name or a file is wrong.";

fn parse_ports(text: &str) -> Result<PortKind, String> {
    let known = PortKind::WORDS.iter().map(|(w, _)| *w).collect::<Vec<_>>().join(", ");
    let found = PortKind::WORDS.iter().find(|(w, _)| *w == text).map(|(_, k)| *k);
    found.ok_or_else(|| format!("found \"{text}\", expected one of {known}"))
}

impl Compare {
    pub fn run(self) -> anyhow::Result<Exit> {
        if let Some(name) = &self.print {
            let Some((_, text)) = builtin::FILES.iter().find(|(n, _)| n == name) else {
                // The same words as for a name that is to be measured.
                choose(std::slice::from_ref(name), Vec::new()).map_err(wrong)?;
                return Ok(Exit::Usage);
            };
            output::text(text)?;
            return Ok(Exit::Ok);
        }
        let files = self.files()?;
        let input = InputFile {
            name: files.iter().map(|f| f.name.clone()).collect::<Vec<_>>().join(", "),
            text: files.iter().map(|f| f.text.clone()).collect::<Vec<_>>().join("---\n"),
        };
        let contestants = choose(&self.with, files.into_iter().map(|f| (f.title, f.spec)).collect()).map_err(wrong)?;
        let cores = self.common.cores()?;
        let first = cores.first().copied().context("this process may run on no core")?;
        let comparison = Comparison {
            contestants,
            ports: self.ports.clone(),
            frame_bytes: match self.frame_bytes.as_slice() {
                [] if self.common.quick() => FRAME_BYTES[..1].to_vec(),
                [] => FRAME_BYTES.to_vec(),
                given => given.to_vec(),
            },
            flows: self.flows,
            cores: Cores {
                tester: self.tester_core.unwrap_or(first),
                dataplane: vec![self.dataplane_core.unwrap_or(cores.get(1).copied().unwrap_or(first))],
            },
            chainline: std::env::current_exe().context("cannot find this program")?,
            stop,
        };
        if self.install {
            install(&comparison)?;
        }
        let cases = comparison.cases().map_err(wrong)?;
        if self.listing {
            let line = |c: &chainline_bench::run::Case| match &c.unavailable {
                Some(why) => format!("{}: not on this host: {why}\n", c.name),
                None => format!("{}\n", c.name),
            };
            output::text(&cases.iter().map(line).collect::<String>())?;
            return Ok(Exit::Ok);
        }
        if !rustix::process::geteuid().is_root() {
            return Err(anyhow::anyhow!("network namespaces need root: run as root"));
        }
        let mut protocol = Protocol { latency_pps: Some(LATENCY_PPS), ..Protocol::default() };
        if self.common.quick() {
            protocol.hurry();
        }
        let measures = [Measure::Mrr, Measure::Ndr, Measure::Pdr, Measure::Latency];
        let bench = Bench {
            title: "Dataplanes side by side".into(),
            file: (!input.text.is_empty()).then_some(input),
            cases,
            rounds: 1,
            protocol: Protocol { measures: measures.to_vec(), ..protocol },
            views: comparison.views(&measures.map(Measure::word)),
            ..Bench::default()
        };
        let versions = comparison.versions();
        let mut lab = comparison;
        let (exit, results) = self.common.measure("compare", bench, &mut lab, ("dataplanes", versions))?;
        output::text(&figures(&results))?;
        let all = results.sections.iter().all(|s| s.unavailable.is_empty());
        Ok(if exit == Exit::Ok && !all { Exit::Failed } else { exit })
    }

    fn files(&self) -> anyhow::Result<Vec<File>> {
        let read = |path: &PathBuf| {
            let bytes = std::fs::read(path).map_err(|e| WrongInput(format!("cannot read {}: {e}", path.display())))?;
            let read = load(&bytes, path)?;
            let text = read.source.text().to_owned();
            Ok(File { name: path.display().to_string(), text, title: read.name, spec: read.spec })
        };
        self.dataplane.iter().map(read).collect()
    }
}

struct File {
    name: String,
    text: String,
    title: String,
    spec: Spec,
}

fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    WrongInput(error.to_string()).into()
}

/// Installs the packages of the dataplanes that are not there.
fn install(comparison: &Comparison) -> anyhow::Result<()> {
    let specs = comparison.contestants.iter().filter_map(|c| c.spec.as_ref().map(|s| (c, s)));
    let missing = specs.filter(|(c, s)| check(&c.name, s).is_err());
    let mut packages: Vec<String> = missing.flat_map(|(_, s)| s.needs.debian.clone()).collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        report::note("nothing is to be installed");
        return Ok(());
    }
    report::note(&apt_line(&packages));
    rivals::install::install(&packages)?;
    Ok(())
}
