//! What the listeners count.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counters and gauges of all listeners. A clone counts into the same ones.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    connections: Family<Labels, Gauge>,
    accepted: Family<Labels, Counter>,
    accept_errors: Family<Labels, Counter>,
    full: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
    streams: Family<Labels, Gauge>,
    handshake_failures: Family<KindLabels, Counter>,
    violations: Family<KindLabels, Counter>,
    timeouts: Family<KindLabels, Counter>,
    floods: Family<Labels, Counter>,
    panics: Family<Labels, Counter>,
    certificate: Family<Labels, Gauge>,
    lingering: Gauge,
    lingering_refused: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    listener: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    listener: Arc<str>,
    kind: &'static str,
}

/// The metrics of one listener.
#[derive(Debug, Clone)]
pub(super) struct ListenerMetrics {
    all: Metrics,
    labels: Labels,
}

/// A bound on time that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timeout {
    Handshake,
    Head,
    Idle,
    Write,
    Ping,
}

impl Metrics {
    /// Makes the metrics known to `registry`. The only labels are the listener's configured name, and fixed words.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("listen_connections", "Open connections", metrics.connections.clone());
        registry.register("listen_accepted", "Connections accepted", metrics.accepted.clone());
        registry.register(
            "listen_accept_errors",
            "Connections that the system could not hand over, such as for want of file descriptors",
            metrics.accept_errors.clone(),
        );
        registry.register(
            "listen_connections_full",
            "Times that all connections which a listener allows were open, so that further ones had to wait",
            metrics.full.clone(),
        );
        registry.register(
            "listen_connections_refused",
            "Connections closed at once because their address had too many open",
            metrics.refused.clone(),
        );
        registry.register("listen_http2_streams", "Requests at work on HTTP/2 connections", metrics.streams.clone());
        registry.register(
            "listen_handshake_failures",
            "TLS handshakes that failed, by reason",
            metrics.handshake_failures.clone(),
        );
        registry.register(
            "listen_violations",
            "Requests refused because they broke a rule of HTTP, by rule",
            metrics.violations.clone(),
        );
        registry.register("listen_timeouts", "Connections closed by a time bound", metrics.timeouts.clone());
        registry.register(
            "listen_http2_floods",
            "HTTP/2 connections closed because of a flood of resets or other frames",
            metrics.floods.clone(),
        );
        registry.register("listen_panics", "Requests ended by a panic", metrics.panics.clone());
        registry.register(
            "listen_certificate_not_after",
            "End of the served certificate, in seconds since 1970",
            metrics.certificate.clone(),
        );
        registry.register(
            "listen_lingering",
            "Request bodies that are read and dropped after an early answer",
            metrics.lingering.clone(),
        );
        registry.register(
            "listen_lingering_refused",
            "Request bodies cut off after an early answer because too many others were lingering",
            metrics.lingering_refused.clone(),
        );
        metrics
    }

    pub(super) fn listener(&self, name: &Arc<str>) -> ListenerMetrics {
        ListenerMetrics { all: self.clone(), labels: Labels { listener: Arc::clone(name) } }
    }

    pub(super) fn lingering(&self) -> &Gauge {
        &self.lingering
    }

    pub(super) fn lingering_refused(&self) -> &Counter {
        &self.lingering_refused
    }
}

impl ListenerMetrics {
    /// Counts a connection; it is open until the guard is dropped.
    pub(super) fn connection(&self) -> Open {
        self.all.accepted.get_or_create(&self.labels).inc();
        let gauge = self.all.connections.get_or_create_owned(&self.labels);
        gauge.inc();
        Open(gauge)
    }

    pub(super) fn accept_error(&self) {
        self.all.accept_errors.get_or_create(&self.labels).inc();
    }

    pub(super) fn full(&self) {
        self.all.full.get_or_create(&self.labels).inc();
    }

    pub(super) fn refused(&self) {
        self.all.refused.get_or_create(&self.labels).inc();
    }

    /// Counts an HTTP/2 request; it is at work until the guard is dropped.
    pub(super) fn stream(&self) -> Open {
        let gauge = self.all.streams.get_or_create_owned(&self.labels);
        gauge.inc();
        Open(gauge)
    }

    pub(super) fn handshake_failure(&self, reason: &'static str) {
        self.all.handshake_failures.get_or_create(&self.kind(reason)).inc();
    }

    pub(super) fn violation(&self, rule: &'static str) {
        self.all.violations.get_or_create(&self.kind(rule)).inc();
    }

    pub(super) fn timeout(&self, timeout: Timeout) {
        self.all.timeouts.get_or_create(&self.kind(timeout.word())).inc();
    }

    pub(super) fn flood(&self) {
        self.all.floods.get_or_create(&self.labels).inc();
    }

    pub(super) fn panic(&self) {
        self.all.panics.get_or_create(&self.labels).inc();
    }

    pub(super) fn certificate(&self) -> Gauge {
        self.all.certificate.get_or_create_owned(&self.labels)
    }

    fn kind(&self, kind: &'static str) -> KindLabels {
        KindLabels { listener: Arc::clone(&self.labels.listener), kind }
    }
}

impl Timeout {
    const fn word(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Head => "head",
            Self::Idle => "idle",
            Self::Write => "write",
            Self::Ping => "ping",
        }
    }
}

/// One open connection or request in its gauge.
#[derive(Debug)]
pub(super) struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
