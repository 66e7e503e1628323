//! The command line: one file a command.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::config::Fault;

mod check;
mod explain;
mod run;
mod schema;
pub mod token;

/// A policy-enforcing proxy for OpenLineage events.
#[derive(Debug, Parser)]
#[command(name = "lineage-gate", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve: accept events, judge them and forward what passes.
    Run(run::Args),
    /// Check a configuration and everything that it names.
    Check(check::Args),
    /// Print the JSON Schema of the configuration, or of policy files.
    Schema(schema::Args),
    /// Say what the policy decides about each reference of an event, and by which rule.
    Explain(explain::Args),
}

/// How the process ends. The numbers of usage and invalid input are those of `sysexits.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All went well: 0.
    Done,
    /// Something else failed: 1.
    Failed,
    /// The command line is wrong: 64.
    Usage,
    /// A configuration, policy or event is wrong: 65.
    Invalid,
}

impl Cli {
    /// Starts the log on standard error: JSON lines for the server, text for people.
    pub fn start_log(&self) {
        let filter = EnvFilter::try_from_env("LINEAGE_GATE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
        match &self.command {
            Command::Run(_) => log.json().init(),
            Command::Check(_) | Command::Schema(_) | Command::Explain(_) => log.init(),
        }
    }

    /// Runs the command to its end. What fails is told on standard error.
    pub fn run(self) -> Exit {
        let end = match self.command {
            Command::Run(args) => run::run(&args),
            Command::Check(args) => check::run(&args),
            Command::Schema(args) => schema::run(&args),
            Command::Explain(args) => explain::run(&args),
        };
        end.unwrap_or_else(|error| {
            complain([format!("{error:#}")]);
            Exit::Failed
        })
    }
}

impl Exit {
    /// Tells what clap has to say: help and version on standard output, else the error on standard error.
    pub fn of_usage(error: &clap::Error) -> Self {
        let shown = error.print();
        match (error.exit_code(), shown) {
            (0, Ok(())) => Self::Done,
            (0, Err(_)) => Self::Failed,
            _ => Self::Usage,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 64,
            Exit::Invalid => 65,
        })
    }
}

/// Writes to standard output what a command is asked for.
fn say(text: impl Display) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").map_err(|error| anyhow::anyhow!("standard output: {error}"))
}

/// Writes one line each to standard error. When that is gone too, the exit code is all that is left to tell.
fn complain(lines: impl IntoIterator<Item = impl Display>) {
    let mut error = io::stderr().lock();
    for line in lines {
        if writeln!(error, "{line}").is_err() {
            return;
        }
    }
}

/// Tells faults, one a line.
fn refuse(faults: &[Fault]) -> Exit {
    complain(faults);
    Exit::Invalid
}
