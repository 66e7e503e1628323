//! The shape of a listener.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Size, Span, defaults, text};

/// One listening socket for events.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// `IP:PORT`, or `unix:PATH`.
    pub address: Address,
    /// Name in logs and metrics. Default: the address.
    #[serde(default)]
    pub name: Option<String>,
    /// Certificate and key. Without it the listener speaks plain HTTP, which is allowed on a loopback address or a Unix
    /// socket, elsewhere only with `plaintext: allow`.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// Whether plain HTTP is allowed on an address that others can reach.
    #[serde(default)]
    pub plaintext: Plaintext,
    /// The dialect of paths that do not tell it: `/`, and `path_prefix` alone.
    #[serde(default)]
    pub dialect: DialectName,
    /// The release of OpenMetadata whose answers its clients get.
    #[serde(default)]
    pub openmetadata: OpenmetadataRelease,
    /// A path before the paths of all dialects, such as `/team`. They are served without it too, since some clients drop
    /// it: it cannot keep tenants apart.
    #[serde(default)]
    pub path_prefix: Option<String>,
    /// Proxies whose `X-Forwarded-For` is believed, as networks in CIDR form.
    #[serde(default, deserialize_with = "text::networks")]
    #[schemars(with = "Vec<String>")]
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// Open connections at once; further ones wait in the kernel's queue.
    #[serde(default = "defaults::connections")]
    pub connections: usize,
    /// Open connections at once from one address (an IPv6 /64), so that nobody alone takes all of them; further ones are
    /// closed. `trusted_proxies` and Unix sockets have no such bound. Default: half of `connections`.
    #[serde(default)]
    pub connections_per_peer: Option<usize>,
    /// Time for a TLS handshake.
    #[serde(default = "defaults::handshake_timeout")]
    pub handshake_timeout: Span,
    /// Time for the body of a request, from its head to its last byte.
    #[serde(default = "defaults::body_timeout")]
    pub body_timeout: Span,
    /// HTTP/1.1.
    #[serde(default)]
    pub http1: Http1,
    /// HTTP/2.
    #[serde(default)]
    pub http2: Http2,
    /// Other requests than those for events that this listener passes on, to stand before a whole catalog. Off unless
    /// given.
    #[serde(default)]
    pub passthrough: Option<Passthrough>,
}

/// Requests that are passed on with the caller's own token: authenticated and limited, their bodies not looked at, their
/// answers as they are.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Passthrough {
    /// Patterns that the whole path must match: `*` is any run of characters within a segment, `**` any run at all. A path
    /// of lineage, however it is spelled, is never passed on.
    pub paths: Vec<String>,
    /// Methods that are passed on, in capitals.
    #[serde(default = "defaults::passthrough_methods")]
    pub methods: Vec<String>,
    /// Base URL of the catalog, `https` unless it is on this machine. Default: that of the lineage backend, which must then
    /// be of kind `gravitino`.
    #[serde(default)]
    pub url: Option<String>,
    /// Time for the head of an answer, from the end of the request's body on, and for each next part of the answer's.
    #[serde(default = "defaults::passthrough_timeout")]
    pub timeout: Span,
}

/// A place to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// `IP:PORT`.
    Tcp(std::net::SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}

/// The certificate of a listener.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate chain, PEM, the server's own first.
    pub certificate: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
    /// CA certificates, PEM: callers must then show a certificate that one of them signed.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

/// Whether plain HTTP is allowed where others can reach it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Plaintext {
    /// Only on loopback and Unix sockets.
    #[default]
    Loopback,
    /// Anywhere: tokens then cross the network readable.
    Allow,
}

/// The contract that a client speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DialectName {
    /// Apache Gravitino: `/api/lineage`.
    Gravitino,
    /// OpenMetadata: `/api/v1/openlineage/lineage`, batches at `/api/v1/openlineage/lineage/batch`.
    Openmetadata,
    /// Plain OpenLineage, as Marquez takes it: `/api/v1/lineage`, batches at `/api/v1/lineage/batch`.
    #[default]
    Openlineage,
}

/// A release of OpenMetadata. They answer an event without effect, and a batch that failed, differently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum OpenmetadataRelease {
    /// 200 for every event that was processed, also one that wrote no edge.
    #[default]
    #[serde(rename = "2.0")]
    V2_0,
    /// 400 for an event whose datasets it does not know, and for a batch of which every event failed.
    #[serde(rename = "2.1")]
    V2_1,
}

/// Bounds of HTTP/1.1 connections.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Http1 {
    /// Bytes of a request's head.
    pub head_bytes: Size,
    /// Time for a head, from its first byte.
    pub head_timeout: Span,
    /// Time that a connection may stay idle between requests. At least 95 s: clients keep connections up to 90 s, and
    /// the Java client loses the event that it sends on a connection that was just closed.
    pub idle_timeout: Span,
}

/// Bounds of HTTP/2 connections.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Http2 {
    /// Requests at once on one connection.
    pub streams: u32,
    /// Bytes of a request's header list.
    pub header_list_bytes: Size,
    /// Pause between keep-alive pings.
    pub ping_interval: Span,
    /// Time for a ping's answer, before the connection is closed.
    pub ping_timeout: Span,
    /// Streams that a client may open and reset before they are worked on; more close the connection.
    pub pending_resets: usize,
    /// Time that a connection may stay without a request.
    pub idle_timeout: Span,
}
