//! `chainline run`

mod steer;

use crate::exit::Exit;
use crate::input::{self, ChainFile};
use crate::output::{self, Format};
use crate::{args, kinds, ui};
use anyhow::Context;
use chainline_chain::model::{File, Mechanisms, Port};
use chainline_chain::plan::{Plan, PortPlan};
use chainline_ctl::SocketPath;
use chainline_manager::{Options, Remote, RunError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Runs the chains of a file: opens ports, starts NFs, moves packets, and reports what became of each.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Run {
    #[command(flatten)]
    file: ChainFile,
    /// End after this long, such as 10s, 500ms or 2m; by default when all sources are exhausted, or at Ctrl-C.
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
    /// Time between two drawings of the live table.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "1s")]
    interval: Duration,
    /// Time that packets inside have to leave when the run ends.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "2s")]
    drain: Duration,
    /// Which mechanisms against wasted work are in force: default (none, as a stock platform), weights, backpressure or
    /// all; whatever the file says.
    #[arg(long, value_name = "WHICH")]
    mechanisms: Option<Mechanisms>,
    /// Where the control socket is, for `chainline ctl`, or `none` [default: in $XDG_RUNTIME_DIR/chainline or
    /// /run/chainline, by the chain file's name; none with --steer].
    #[arg(long, value_name = "PATH|none")]
    control: Option<PathBuf>,
    /// No live table.
    #[arg(short, long)]
    quiet: bool,
    /// The form of the report.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Make trials as they are ordered, one a line of JSON on standard input, instead of a report what became of each
    /// on standard output (docs/reference/steer-protocol.md).
    #[arg(long, conflicts_with_all = ["duration", "output", "interval"])]
    steer: bool,
}

const HELP: &str = r#"The live table goes to standard error, the report to standard output. Ctrl-C (or SIGTERM) stops receiving, lets the
packets inside leave, and reports; a second one ends at once. An NF that dies is started again.

Examples:
  chainline run examples/quickstart.yaml
  chainline run edge.yaml --duration 10s -o json | jq .ledger
  sudo chainline run two-ports.yaml
  chainline run edge.yaml & chainline ctl watch
  echo '{"load": {"pps": 1e6}, "duration_ms": 1000}' | chainline run --steer generated.yaml

Exit code 0 if the chains ran and every packet is accounted for, else 1; 2 if the file is wrong."#;

/// How often the operator asked to stop.
static STOPS: AtomicUsize = AtomicUsize::new(0);

impl Run {
    pub fn run(self) -> anyhow::Result<Exit> {
        let (file, cores) = self.file.load()?;
        args::check(&file)?;
        let mut plan = Plan::build(&file, &cores)?;
        plan.mechanisms = self.mechanisms.unwrap_or(plan.mechanisms);
        let device = |p: &PortPlan| !matches!(p.spec, Port::Generator(_) | Port::Sink(_) | Port::Pcap(_));
        if !plan.ports.iter().any(device) {
            // This process runs one plan and no other: DPDK starts faster without its drivers.
            chainline_dpdk::eal::tables_alone();
        }
        let mut signals =
            signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])?;
        std::thread::spawn(move || {
            for _ in signals.forever() {
                STOPS.fetch_add(1, Ordering::Relaxed);
            }
        });
        let remote = self.remote(&file, &cores);
        let options = Options {
            remote,
            dir: self.file.path.parent().unwrap_or(Path::new("")).to_owned(),
            program: std::env::current_exe().context("cannot find this program")?,
            builder: Arc::new(kinds::build),
            duration: self.duration,
            interval: self.interval,
            drain: self.drain,
            stop: || STOPS.load(Ordering::Relaxed),
        };
        let mut live = ui::live::Live::new(!self.quiet);
        if self.steer {
            return steer::run(plan, &options, &mut live).map_err(explain);
        }
        let report = chainline_manager::run(plan, &options, &mut live).map_err(explain)?;
        output::value(self.output, &report, ui::summary::text)?;
        let sound = report.ledger.balanced;
        Ok(if sound { Exit::Ok } else { Exit::Failed })
    }
}

impl Run {
    /// How the run is asked and changed.
    fn remote(&self, file: &File, cores: &[usize]) -> Option<Remote> {
        let at = match &self.control {
            Some(path) if path.as_os_str() == "none" => return None,
            Some(path) => SocketPath::At(path.clone()),
            None if self.steer => return None,
            None => SocketPath::Usual,
        };
        let cores = cores.to_vec();
        let known = cores.clone();
        let load = move |bytes: &[u8], name: &Path| {
            let file = input::load_text(bytes, name, &known).map_err(|e| format!("{e:#}"))?;
            args::check(&file).map_err(|e| format!("{e:#}"))?;
            Ok(file)
        };
        let mut file = file.clone();
        file.spec.defaults.mechanisms = self.mechanisms.unwrap_or(file.spec.defaults.mechanisms);
        Some(Remote { at, file, cores, mechanisms: self.mechanisms, load: Arc::new(load) })
    }
}

/// What to do, where there is something to do.
fn explain(error: RunError) -> anyhow::Error {
    let needs_root = matches!(&error, RunError::Port { error, .. } if error.to_string().contains("ermi"))
        && !rustix::process::geteuid().is_root();
    let error = anyhow::Error::from(error);
    if needs_root { error.context("kernel interfaces need CAP_NET_RAW and CAP_NET_ADMIN: run as root") } else { error }
}

/// `10s`, `500ms`, `2m`
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("found \"{text}\", expected a time such as 10s, 500ms or 2m");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let value: f64 = digits.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(value * scale).ok().filter(|d| !d.is_zero()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::parse_time;
    use std::time::Duration;

    #[test]
    fn times() {
        assert_eq!(parse_time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_time("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "-1s", "1y", "1e400s", "0s", "nan"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
