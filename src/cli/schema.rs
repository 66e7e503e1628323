//! `lineage-gate schema`: what editors need to complete and check the files.

use super::{Exit, say};
use crate::config;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The schema of policy files instead.
    #[arg(long)]
    policy: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let schema = if args.policy { of_policies()? } else { config::schema() };
    say(format_args!("{schema:#}"))?;
    Ok(Exit::Done)
}

fn of_policies() -> anyhow::Result<serde_json::Value> {
    anyhow::bail!("policy files have no schema in this build")
}
