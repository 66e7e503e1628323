//! The command: arguments, log, one command, exit code.

use std::process::ExitCode;

use clap::Parser;
use lineage_gate::cli::{Cli, Exit};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return Exit::of_usage(&error).into(),
    };
    let _log = match cli.start_log() {
        Ok(log) => log,
        Err(error) => return Exit::of_environment(&error).into(),
    };
    cli.run().into()
}
