//! `chainline ctl watch`

use super::{ask, show};
use crate::exit::{Exit, WrongInput};
use crate::output::{self, Format};
use chainline_ctl::{Call, Client, Stats};
use std::io::{IsTerminal, stdout};
use std::time::Duration;

/// Shows the numbers again and again until the run ends, or Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
On a terminal each table takes the place of the last one. With -o json each is one line.

Example:
  chainline ctl watch -o json --count 10 | jq .ledger.received")]
pub struct Watch {
    /// Time between two looks.
    #[arg(long, value_name = "TIME", value_parser = crate::cmd::run::parse_time, default_value = "1s")]
    interval: Duration,
    /// End after so many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

impl Watch {
    pub fn run(self, client: &mut Client, format: Format) -> anyhow::Result<Exit> {
        if format == Format::Yaml {
            return Err(WrongInput("watch prints tables or lines of JSON: -o table or -o json".into()).into());
        }
        let mut drawn = 0;
        for n in 0.. {
            let stats: Stats = match ask(client, &Call::Stats) {
                Ok(stats) => stats,
                // A run that was there and is over now is what was waited for.
                Err(_) if n > 0 => return Ok(Exit::Ok),
                Err(e) => return Err(e),
            };
            if format == Format::Json {
                output::text(&(serde_json::to_string(&stats)? + "\n"))?;
            } else {
                let text = show::numbers(&stats);
                let up =
                    if drawn > 0 && stdout().is_terminal() { format!("\x1b[{drawn}A\x1b[J") } else { String::new() };
                drawn = text.lines().count();
                output::text(&(up + &text))?;
            }
            if self.count.is_some_and(|count| n + 1 >= count) {
                break;
            }
            std::thread::sleep(self.interval);
        }
        Ok(Exit::Ok)
    }
}
