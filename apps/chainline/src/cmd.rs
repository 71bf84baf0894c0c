//! The subcommands. A new one is a file under `cmd/` with a `clap::Args` type that has
//! `run(self) -> anyhow::Result<Exit>`, a `mod` line and a line in the list below; its help comes from the type's
//! documentation.

mod bench;
mod ctl;
mod describe;
mod doctor;
mod generate;
mod golden;
mod graph;
mod new_nf;
mod nf_host;
mod plan;
mod run;
mod schema;
mod validate;
mod workload;

/// The enum of a list of subcommands, each with the type of its arguments, whose `run` does the work.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($args:ty),)*) => {
        #[derive(Debug, clap::Subcommand)]
        pub enum Command {
            $($(#[$attribute])* $name($args),)*
        }

        impl Command {
            pub fn run(self) -> anyhow::Result<$crate::exit::Exit> {
                match self {
                    $(Self::$name(args) => args.run(),)*
                }
            }
        }
    };
}
use commands;

commands! {
    Run(run::Run),
    Ctl(ctl::Ctl),
    Validate(validate::Validate),
    Plan(plan::Plan),
    Graph(graph::Graph),
    Doctor(doctor::Doctor),
    Describe(describe::Describe),
    Bench(bench::Bench),
    Schema(schema::Schema),
    Golden(golden::Golden),
    NewNf(new_nf::NewNf),
    Workload(workload::Workload),
    #[command(hide = true)]
    NfHost(nf_host::NfHost),
    #[command(hide = true)]
    Generate(generate::Generate),
}
