//! The health listener: `/livez`, `/readyz`, `/metrics`. Open, read-only, and without any configuration.

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use tokio_util::sync::CancellationToken;

use super::bind::{self, Bound, Error};
use super::readiness::{self, CheckState, Described, Readiness};
use super::serve::{self, Answer, method_not_allowed, not_found, page, text};
use crate::config;
use crate::observe::metrics::{CONTENT_TYPE, Metrics};

/// What the health listener tells.
#[derive(Debug)]
pub struct State {
    /// For `/readyz`.
    pub readiness: Arc<Readiness>,
    /// For `/metrics`.
    pub metrics: Arc<Metrics>,
    /// For `/readyz?verbose`.
    pub described: Vec<Described>,
}

/// Listens; [`Bound::address`] tells the port.
///
/// # Errors
/// The address cannot be listened on.
pub async fn bind(config: &config::Health) -> Result<Bound, Error> {
    bind::bind(&config.address).await
}

/// Serves until `shutdown`: the last thing to end, so that a draining process can say so.
pub async fn serve(bound: Bound, state: Arc<State>, metrics: serve::Metrics, shutdown: CancellationToken) {
    serve::serve(bound, "health", metrics, shutdown, move |request| answer(&state, request)).await;
}

fn answer<B>(state: &State, request: &Request<B>) -> Answer {
    let allowed = request.method() == Method::GET || request.method() == Method::HEAD;
    match request.uri().path() {
        "/livez" | "/readyz" | "/metrics" if !allowed => method_not_allowed("GET, HEAD"),
        "/livez" => text(StatusCode::OK, "ok\n"),
        "/readyz" => readyz(state, wants_all(request.uri().query())),
        "/metrics" => metrics(&state.metrics),
        _ => not_found(),
    }
}

fn readyz(state: &State, all: bool) -> Answer {
    let report = state.readiness.report();
    let ready = report.is_ready();
    let checks = report.checks.iter().filter(|check| all || !check.ready);
    let line = |check: &CheckState| readiness::line(&check.name, if check.ready { "ready" } else { "missing" });
    let mut lines: String = checks.map(line).collect();
    lines.extend(state.described.iter().filter(|_| all).map(Described::line));
    if report.draining {
        lines.push_str("draining\n");
    } else if ready {
        lines.push_str("ok\n");
    }
    text(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, lines)
}

/// `?verbose`, as Kubernetes' own endpoints take it, with or without a value.
fn wants_all(query: Option<&str>) -> bool {
    query.into_iter().flat_map(|query| query.split('&')).any(|pair| pair.split('=').next() == Some("verbose"))
}

fn metrics(metrics: &Metrics) -> Answer {
    match metrics.encode() {
        Ok(text) => page(StatusCode::OK, CONTENT_TYPE, text),
        Err(error) => {
            tracing::error!(%error, "metrics cannot be written");
            text(StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be written; see the log\n")
        }
    }
}

#[cfg(test)]
mod tests;
