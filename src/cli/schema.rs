//! `lineage-gate schema`: what editors need to complete and check the files.

use super::{Exit, say};
use crate::config;
use crate::policy;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The schema of policy files instead.
    #[arg(long)]
    policy: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let schema = if args.policy { policy::file::json_schema() } else { config::schema() };
    say(format_args!("{schema:#}"))?;
    Ok(Exit::Done)
}
