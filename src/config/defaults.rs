//! The values that most installations leave alone.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use super::{
    Address, Audit, AuditOutput, BatchPolicy, Drain, Event, EventKind, Health, Http1, Http2, PolicyCache, RunBinding,
    Size, Span, UnsupportedKinds, Upstream, UpstreamAuth, UpstreamKind,
};

pub(super) fn connections() -> usize {
    10_000
}

pub(super) fn handshake_timeout() -> Span {
    Span::secs(10)
}

pub(super) fn body_timeout() -> Span {
    Span::secs(30)
}

pub(super) fn token_cache() -> u64 {
    10_000
}

pub(super) fn max_token() -> Size {
    Size::kib(16)
}

pub(super) fn subject_claims() -> Vec<String> {
    vec!["sub".to_owned()]
}

pub(super) fn groups_claims() -> Vec<String> {
    vec!["groups".to_owned()]
}

pub(super) fn leeway() -> Span {
    Span::secs(60)
}

pub(super) fn jwks_refresh() -> Span {
    Span::secs(300)
}

pub(super) fn jwks_stale() -> Span {
    Span::secs(86_400)
}

pub(super) fn connect_timeout() -> Span {
    Span::secs(1)
}

/// Longer than the six sendings of the Python client, five pauses included (facts: marquez and clients 3).
pub(super) fn upstream_timeout() -> Span {
    Span::secs(30)
}

pub(super) fn answer_within() -> Span {
    Span::millis(3_500)
}

pub(super) fn upstream_queue() -> usize {
    256
}

pub(super) fn deduplicate() -> Span {
    Span::secs(600)
}

pub(super) fn deduplicate_entries() -> usize {
    25_000
}

pub(super) fn run_entries() -> usize {
    50_000
}

pub(super) fn limit_keys() -> usize {
    100_000
}

pub(super) fn passthrough_methods() -> Vec<String> {
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].map(str::to_owned).to_vec()
}

/// A catalog may ask a slow system of its own.
pub(super) fn passthrough_timeout() -> Span {
    Span::secs(60)
}

/// Gravitino closes idle connections after 30 s, Marquez' Jetty after 30 s (facts: gravitino-real 7.8).
pub(super) fn upstream_idle() -> Span {
    Span::secs(20)
}

pub(super) fn upstream_idle_connections() -> usize {
    32
}

pub(super) fn gravitino_refresh() -> Span {
    Span::secs(10)
}

/// A question that is asked twice still fits into the time for an answer.
pub(super) fn gravitino_timeout() -> Span {
    Span::secs(2)
}

pub(super) fn gravitino_concurrency() -> usize {
    16
}

impl Upstream {
    /// One with every default, and neither name nor place.
    pub(super) fn of_defaults() -> Self {
        Self {
            name: String::new(),
            kind: UpstreamKind::Openlineage,
            url: None,
            path: None,
            auth: UpstreamAuth::None,
            ca_file: None,
            client_certificate: None,
            connect_timeout: connect_timeout(),
            timeout: upstream_timeout(),
            answer_within: answer_within(),
            concurrency: None,
            queue: upstream_queue(),
            deduplicate: deduplicate(),
            deduplicate_entries: deduplicate_entries(),
            run_binding: RunBinding::default(),
            run_entries: run_entries(),
            idle_timeout: upstream_idle(),
            idle_connections: upstream_idle_connections(),
            identity_headers: false,
            unsupported_kinds: UnsupportedKinds::default(),
            max_event: None,
            max_datasets: None,
            symlinks: None,
            services: BTreeMap::new(),
        }
    }
}

impl Default for Http1 {
    fn default() -> Self {
        Self { head_bytes: Size::kib(64), head_timeout: Span::secs(10), idle_timeout: Span::secs(100) }
    }
}

impl Default for Http2 {
    fn default() -> Self {
        Self {
            streams: 100,
            header_list_bytes: Size::kib(64),
            ping_interval: Span::secs(30),
            ping_timeout: Span::secs(10),
            pending_resets: 20,
            idle_timeout: Span::secs(300),
        }
    }
}

impl Default for Event {
    fn default() -> Self {
        Self {
            max_body: Size::mib(16),
            max_compressed: None,
            max_ratio: 100,
            memory: Size::mib(64),
            memory_per_caller: None,
            memory_wait: Span::millis(500),
            max_depth: 100,
            max_references: 10_000,
            max_batch: 1_000,
            batch_policy: BatchPolicy::Partial,
            event_time: None,
            kinds: vec![EventKind::Run, EventKind::Job, EventKind::Dataset],
        }
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self { output: AuditOutput::Stdout, max_datasets: 100 }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self { address: Address::Tcp(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 9902))) }
    }
}

impl Default for Drain {
    fn default() -> Self {
        Self { grace: Span::secs(5), deadline: Span::secs(30) }
    }
}

impl Default for PolicyCache {
    fn default() -> Self {
        Self {
            fresh: Span::secs(10),
            stale_if_error: Span::secs(300),
            denied: Span::secs(3),
            entries: 100_000,
            concurrency: 16,
        }
    }
}
