//! `lineage-gate check`: everything that `run` would refuse, found before it runs.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;

use super::{Exit, refuse, say};
use crate::auth::{self, Authenticator};
use crate::config::{self, Config, Fault, PolicyMode};
use crate::{admin, app};
use crate::{source, upstream};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file.
    #[arg(value_name = "FILE")]
    config: PathBuf,
    /// Also connect to each issuer, policy source and upstream, with TLS and harmless GETs. Nothing is posted. In snapshot
    /// mode the policy source is read once, as the gate would, and what it does not show is told.
    #[arg(long)]
    online: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let loaded = match config::read(&args.config) {
        Ok(loaded) => loaded,
        Err(fault) => return Ok(refuse(&[fault])),
    };
    let config = &loaded.config;
    let mut faults = faults(config);
    if args.online && faults.is_empty() {
        faults.extend(online(config)?);
    }
    if !faults.is_empty() {
        let faults: Vec<Fault> = faults.into_iter().map(|fault| fault.within(&args.config)).collect();
        return Ok(refuse(&faults));
    }
    say(format_args!("ok: {}: {}", args.config.display(), summary(config)))?;
    Ok(Exit::Done)
}

/// What is wrong with what stands in the configuration, with the files that it names, and with what they hold.
fn faults(config: &Config) -> Vec<Fault> {
    let mut faults = config::check(config);
    let missing = config::files::check(config);
    // A stage would tell a second time that its file cannot be read.
    let same = |missing: &Fault, place: &str| missing.place.starts_with(place) || missing.message.starts_with(place);
    let told = |fault: &Fault| !fault.place.is_empty() && missing.iter().any(|missing| same(missing, &fault.place));
    let held: Vec<Fault> = app::check(config).into_iter().filter(|fault| !told(fault)).collect();
    faults.extend(missing);
    faults.extend(held);
    faults
}

/// What is wrong at the other ends.
fn online(config: &Config) -> anyhow::Result<Vec<Fault>> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    runtime.block_on(reach(config))
}

async fn reach(config: &Config) -> anyhow::Result<Vec<Fault>> {
    let mut faults = Vec::new();
    let authenticator = Authenticator::new(&config.auth, Arc::new(auth::Metrics::default()));
    let authenticator = authenticator.map_err(super::in_one)?;
    for (issuer, reached) in authenticator.probe().await {
        match reached {
            Ok(()) => say(format_args!("reached: keys of {issuer}"))?,
            Err(trouble) => faults.push(Fault::new(format!("keys of {issuer}"), trouble)),
        }
    }
    if let Some(settings) = &config.policy.gravitino {
        faults.extend(policy_source(settings, config.policy.mode).await?);
    }
    for settings in &config.upstreams {
        match upstream::probe(settings).await {
            Ok(found) => say(format_args!("reached: upstream {}: {found}", settings.name))?,
            Err(trouble) => faults.push(Fault::new(format!("upstream {}", settings.name), trouble)),
        }
    }
    Ok(faults)
}

async fn policy_source(settings: &config::Gravitino, mode: PolicyMode) -> anyhow::Result<Vec<Fault>> {
    if mode == PolicyMode::Off {
        say("not asked: policy.gravitino, since policy.mode is off")?;
        return Ok(Vec::new());
    }
    match source::gravitino::probe(settings).await {
        Ok(found) => say(format_args!("reached: policy.gravitino: {found}")).map(|()| Vec::new()),
        // Some of it are names that the server gave.
        Err(trouble) => Ok(trouble.iter().map(|text| Fault::new("policy.gravitino", admin::printable(text))).collect()),
    }
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
