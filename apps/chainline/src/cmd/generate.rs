//! `chainline generate`: what packages install besides the program.

use crate::cli::Cli;
use crate::exit::Exit;
use crate::output;
use anyhow::Context;
use clap::CommandFactory;
use std::path::PathBuf;

/// Makes shell completions and manual pages.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Generate {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Prints the completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Writes the manual pages, one for each command.
    Man {
        /// The directory to write to; made if it is not there.
        dir: PathBuf,
    },
}

const HELP: &str = "\
Examples:
  chainline generate completions bash > /etc/bash_completion.d/chainline
  chainline generate man /usr/local/share/man/man1";

impl Generate {
    pub fn run(self) -> anyhow::Result<Exit> {
        let mut command = Cli::command();
        match self.what {
            What::Completions { shell } => {
                let mut text = Vec::new();
                clap_complete::generate(shell, &mut command, "chainline", &mut text);
                output::text(&String::from_utf8_lossy(&text))?;
            }
            What::Man { dir } => {
                let cannot = || format!("cannot write manual pages to {}", dir.display());
                std::fs::create_dir_all(&dir).with_context(cannot)?;
                clap_mangen::generate_to(command, &dir).with_context(cannot)?;
            }
        }
        Ok(Exit::Ok)
    }
}
