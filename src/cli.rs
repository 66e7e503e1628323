//! The command line: one file a command.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::Fault;
use crate::observe::log::{self, Format, Log};

mod check;
mod demo;
mod explain;
mod parity;
mod run;
mod schema;
mod token;

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
    /// Compare the gate's verdicts with those of a live Gravitino server.
    Parity(parity::Args),
    /// Show the whole gate at work, with keys made on the spot.
    Demo(demo::Args),
    /// Make a development key and print a token signed with it.
    Token(token::Token),
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
    /// Nothing wrong was found, and not all could be looked at: 69.
    Undecided,
}

impl Cli {
    /// Starts the log on standard error: JSON lines for the server, text for people.
    ///
    /// # Errors
    /// The filter in the environment cannot be read.
    pub fn start_log(&self) -> Result<Log, log::Error> {
        match &self.command {
            Command::Run(_) => log::init(Format::Json),
            Command::Check(_)
            | Command::Schema(_)
            | Command::Explain(_)
            | Command::Parity(_)
            | Command::Demo(_)
            | Command::Token(_) => log::init(Format::Text),
        }
    }

    /// Runs the command to its end. What fails is told on standard error.
    pub fn run(self) -> Exit {
        let end = match self.command {
            Command::Run(args) => run::run(&args),
            Command::Check(args) => check::run(&args),
            Command::Schema(args) => schema::run(&args),
            Command::Explain(args) => explain::run(&args),
            Command::Parity(args) => parity::run(&args),
            Command::Demo(args) => demo::run(&args),
            Command::Token(args) => args.run().map(|()| Exit::Done),
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

    /// Tells what is wrong with the environment.
    pub fn of_environment(error: &impl Display) -> Self {
        complain([error]);
        Self::Usage
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 64,
            Exit::Invalid => 65,
            Exit::Undecided => 69,
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

/// Many faults as one error, each on a line of its own.
fn in_one(faults: Vec<impl Display>) -> anyhow::Error {
    anyhow::anyhow!(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}
