//! `lineage-gate run`: the server.

use std::path::PathBuf;

use super::{Exit, refuse};
use crate::config::{self, Loaded};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file.
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    match config::load(&args.config) {
        Ok(loaded) => serve(loaded),
        Err(faults) => Ok(refuse(&faults)),
    }
}

fn serve(_: Loaded) -> anyhow::Result<Exit> {
    anyhow::bail!("there is no server in this build")
}
