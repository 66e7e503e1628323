//! The shape of the lineage backend.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Size, Span, Symlinks, defaults};

/// The lineage backend.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// Name in logs, metrics and audit.
    pub name: String,
    /// What it is.
    pub kind: UpstreamKind,
    /// Base URL, `http` or `https`, without `/api`. The path of the kind is appended; for `openlineage` a URL with a path
    /// of its own is used as it is.
    #[serde(default)]
    pub url: Option<String>,
    /// For `file`: where accepted events are appended, one JSON document a line.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// The credential that the backend is given.
    #[serde(default)]
    pub auth: UpstreamAuth,
    /// CA certificates for `url`, PEM, instead of the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Certificate shown to the backend.
    #[serde(default)]
    pub client_certificate: Option<ClientCertificate>,
    /// Time for a connection, TLS included.
    #[serde(default = "defaults::connect_timeout")]
    pub connect_timeout: Span,
    /// Time for the whole exchange with the backend, which goes on after its client was answered: longer than a client
    /// sends an event again, so that a slow backend does not get it twice.
    #[serde(default = "defaults::upstream_timeout")]
    pub timeout: Span,
    /// Time within which a client is answered, from the last byte of its body; at most 3500ms.
    #[serde(default = "defaults::answer_within")]
    pub answer_within: Span,
    /// Exchanges with the backend at once. No caller has more than three quarters of them. Default: by kind.
    #[serde(default)]
    pub concurrency: Option<usize>,
    /// Events that wait for one of them, at most for `answer_within`. No caller has more than a quarter of it.
    #[serde(default = "defaults::upstream_queue")]
    pub queue: usize,
    /// How long the identical event of the same caller is answered from memory once it was delivered. `0s`: never, and
    /// it does not join one that is on its way either.
    #[serde(default = "defaults::deduplicate")]
    pub deduplicate: Span,
    /// Deliveries remembered for `deduplicate`.
    #[serde(default = "defaults::deduplicate_entries")]
    pub deduplicate_entries: usize,
    /// What becomes of an event for a run that another caller began.
    #[serde(default)]
    pub run_binding: RunBinding,
    /// Runs remembered for `run_binding`, each for a day after its last event.
    #[serde(default = "defaults::run_entries")]
    pub run_entries: usize,
    /// How long an idle connection to the backend is kept: shorter than the backend keeps it.
    #[serde(default = "defaults::upstream_idle")]
    pub idle_timeout: Span,
    /// Idle connections kept.
    #[serde(default = "defaults::upstream_idle_connections")]
    pub idle_connections: usize,
    /// Whether the backend is told who called, in `X-Lineage-Caller` and `X-Lineage-Groups`.
    #[serde(default)]
    pub identity_headers: bool,
    /// What becomes of events of a kind that the backend cannot take: `gravitino`, `openmetadata` and `datahub` take run
    /// events only.
    #[serde(default)]
    pub unsupported_kinds: UnsupportedKinds,
    /// Bytes of an event that the backend takes, such as 300000B for AWS; larger ones are refused. Default: none but
    /// `event.max_body`.
    #[serde(default)]
    pub max_event: Option<Size>,
    /// Datasets of an event that the backend takes, those that it makes of symlinks included; events with more are
    /// refused. Default: for `marquez` as many as it writes within `answer_within`, at 7 ms each; for others any number.
    #[serde(default)]
    pub max_datasets: Option<usize>,
    /// What becomes of symlinks and `dataSource` facets that the caller may not name. Default: `drop_unseen` for kinds
    /// that look datasets up by them, else `keep`.
    #[serde(default)]
    pub symlinks: Option<Symlinks>,
    /// Which service of the backend each dataset namespace means. Where this is given, events with a dataset in any
    /// other namespace are refused.
    #[serde(default)]
    pub services: BTreeMap<String, String>,
}

/// What becomes of events of a kind that the backend cannot take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnsupportedKinds {
    /// Refused.
    #[default]
    Refuse,
    /// Answered as taken, with the header `X-Lineage-Result: skipped`, and not sent.
    Drop,
}

/// What becomes of an event for a run that another caller began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunBinding {
    /// Nothing: runs are not remembered.
    Off,
    /// It passes, and is marked in audit and metrics.
    #[default]
    Shadow,
    /// It is refused, in the words for all that is not visible.
    Enforce,
}

/// What a lineage backend is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamKind {
    /// Events appended to a file, each durable before its answer.
    File,
    /// Any OpenLineage endpoint.
    Openlineage,
    /// An Apache Gravitino server.
    Gravitino,
    /// Marquez.
    Marquez,
    /// OpenMetadata, 2.0 or later.
    Openmetadata,
    /// DataHub's metadata service.
    Datahub,
    /// Apache Polaris.
    Polaris,
}

/// The credential that a backend is given.
///
/// Written as `none`, `forward`, `{ bearer_file: FILE }` or `{ header: NAME, file: FILE }`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum UpstreamAuth {
    /// None.
    #[default]
    None,
    /// The caller's own token.
    Forward,
    /// `Authorization: Bearer` with the content of a file, read anew when it changes.
    BearerFile(PathBuf),
    /// A header of any name with the content of a file, read anew when it changes.
    Header(HeaderFile),
}

/// A header whose value stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderFile {
    /// The header's name.
    pub name: String,
    /// The file that holds its value; white space around it is dropped.
    pub file: PathBuf,
}

/// A certificate shown to a backend.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// Certificate chain, PEM.
    pub certificate: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
}
