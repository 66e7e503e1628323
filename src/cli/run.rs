//! `lineage-gate run`: the server.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Exit, refuse};
use crate::app::App;
use crate::config::{self, Loaded};
use crate::reload;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file.
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    match config::load(&args.config) {
        Ok(loaded) => serve(loaded, &args.config),
        Err(faults) => Ok(refuse(&faults)),
    }
}

fn serve(loaded: Loaded, file: &Path) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    let end = runtime.block_on(until_signal(loaded, file));
    // Work that a thread has begun is waited for otherwise, also after a second signal.
    runtime.shutdown_background();
    end
}

async fn until_signal(loaded: Loaded, file: &Path) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen().context("listening to signals")?;
    let app = match App::start(&loaded.config, loaded.redacted).await {
        Ok(app) => app,
        Err(faults) => {
            let faults: Vec<_> = faults.into_iter().map(|fault| fault.within(file)).collect();
            return Ok(refuse(&faults));
        }
    };
    announce(&app, &loaded.path);
    let hangups = tokio::spawn(reload::on_hangup(app.trigger().clone(), CancellationToken::new()));
    let signal = signals.next().await;
    tracing::info!(signal, "ending: in-flight requests are finished; another signal ends at once");
    let end = tokio::select! {
        cut_off = app.end() => cut_off,
        signal = signals.next() => {
            tracing::warn!(signal, "second signal: ending at once");
            return Ok(Exit::Failed);
        }
    };
    hangups.abort();
    if end > 0 {
        tracing::error!(connections = end, "drain.deadline was over first: connections were cut off");
    }
    tracing::info!("ended");
    Ok(Exit::Done)
}

fn announce(app: &App, file: &Path) {
    let addresses = app.addresses();
    for address in &addresses.listeners {
        tracing::info!(%address, "listening for events");
    }
    if let Some(address) = &addresses.admin {
        tracing::info!(%address, "listening for control");
    }
    tracing::info!(address = %addresses.health, "listening for health");
    tracing::info!(version = env!("CARGO_PKG_VERSION"), configuration = %file.display(), "started");
}

/// SIGTERM and SIGINT.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
