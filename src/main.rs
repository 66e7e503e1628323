//! The command: arguments, log, one command, exit code.

use std::process::ExitCode;

use clap::Parser;
use lineage_gate::cli::{Cli, Exit};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return Exit::of_usage(&error).into(),
    };
    cli.start_log();
    cli.run().into()
}
