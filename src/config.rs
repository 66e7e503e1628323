//! The shape of the configuration file: one YAML document, unknown keys refused, a default for everything that most
//! installations leave alone.
//!
//! What stands here is shape only. [`read`] reads a file and reports a wrong shape with file, line and column; [`check`]
//! reports faults of meaning, all together; [`load`] does both. Paths are relative to the file that holds them, and are
//! absolute once loaded. The doc comments of the types are the descriptions in the JSON Schema.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::check::check;
pub use self::edits::{Facets, Rewrite, RewriteOf, Symlinks};
pub use self::fault::Fault;
pub use self::gravitino::{Gravitino, GravitinoFallback, GravitinoMode, Metalakes};
pub use self::listener::{
    Address, DialectName, Http1, Http2, Listener, OpenmetadataRelease, Passthrough, Plaintext, Tls,
};
pub use self::load::{Loaded, load, read};
pub use self::schema::schema;
pub use self::units::{Rate, Size, Span, UnitError};
pub use self::upstream::{
    ClientCertificate, HeaderFile, RunBinding, UnsupportedKinds, Upstream, UpstreamAuth, UpstreamKind,
};

mod check;
mod credential;
mod defaults;
mod edits;
mod fault;
pub mod files;
mod gravitino;
mod listener;
mod load;
mod paths;
mod schema;
mod text;
mod units;
mod upstream;
pub mod yaml;

/// The whole configuration file.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where events are accepted.
    pub listeners: Vec<Listener>,
    /// Who may call: token issuers and their keys.
    pub auth: Auth,
    /// What callers may name.
    pub policy: Policy,
    /// Rate limits. All that match a request are charged together, or none is.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// Bounds and rules for the body of a request.
    #[serde(default)]
    pub event: Event,
    /// Rules that map names before the policy sees them, in order.
    #[serde(default)]
    pub rewrite: Vec<Rewrite>,
    /// What is taken out of facets before the policy sees them.
    #[serde(default)]
    pub facets: Facets,
    /// The lineage backend. Exactly one.
    pub upstreams: Vec<Upstream>,
    /// One record a request.
    #[serde(default)]
    pub audit: Audit,
    /// The health listener: `/livez`, `/readyz`, `/metrics`, open and read-only.
    #[serde(default)]
    pub health: Health,
    /// The control listener. Off unless given.
    #[serde(default)]
    pub admin: Option<Admin>,
    /// How the process ends after SIGTERM or SIGINT.
    #[serde(default)]
    pub drain: Drain,
}

/// Who may call.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// Token issuers. With several, each needs a `prefix`.
    pub issuers: Vec<Issuer>,
    /// Verified tokens that are remembered, so that a second request costs no signature check.
    #[serde(default = "defaults::token_cache")]
    pub token_cache: u64,
    /// Longest token that is looked at.
    #[serde(default = "defaults::max_token")]
    pub max_token: Size,
}

/// One token issuer. Exactly one of `jwks`, `jwks_file`, `public_key_file` and `secret_file` names its keys.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// The `iss` claim, compared exactly.
    pub issuer: String,
    /// Accepted `aud` values; a token needs one of them.
    pub audiences: Vec<String>,
    /// Put before subjects and groups of this issuer, so that two issuers cannot speak for each other's callers.
    #[serde(default)]
    pub prefix: Option<String>,
    /// URL of a JSON Web Key Set.
    #[serde(default)]
    pub jwks: Option<String>,
    /// CA certificates for `jwks`, PEM, instead of the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Bearer token sent to `jwks`, read anew for each fetch.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// A JSON Web Key Set in a file.
    #[serde(default)]
    pub jwks_file: Option<PathBuf>,
    /// One public key, PEM (SPKI).
    #[serde(default)]
    pub public_key_file: Option<PathBuf>,
    /// A shared secret of at least 32 bytes, for HS256 only.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// Accepted signature algorithms: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA; HS256 only with
    /// `secret_file`, and then alone. Default: RS256 and ES256, or HS256 with `secret_file`.
    #[serde(default)]
    pub algorithms: Option<Vec<String>>,
    /// The caller's name: the first of these claims that is there.
    #[serde(default = "defaults::subject_claims")]
    pub subject_claims: Vec<String>,
    /// Regular expression that the whole name must match; with a capture group, the group is the name.
    #[serde(default)]
    pub subject_pattern: Option<String>,
    /// The caller's groups: the first of these claims that is there, a list of strings.
    #[serde(default = "defaults::groups_claims")]
    pub groups_claims: Vec<String>,
    /// Accepted `typ` headers, compared without case and without `application/`; empty: any but those of ID, logout and
    /// security event tokens. `[at+jwt]` demands RFC 9068.
    #[serde(default)]
    pub token_types: Vec<String>,
    /// Claims that a token must carry, with the value that each must have or contain (RFC 6749 scopes: one word of the
    /// text). A token without them is answered 403.
    #[serde(default)]
    pub required_claims: BTreeMap<String, String>,
    /// Clock difference that is forgiven for `exp`, `nbf` and `iat`.
    #[serde(default = "defaults::leeway")]
    pub leeway: Span,
    /// Longest time between `iat` and `exp`. Tokens without `iat` are then refused.
    #[serde(default)]
    pub max_lifetime: Option<Span>,
    /// Whether tokens bound to a key of their owner (`cnf`, RFC 7800) are taken without proof of that key.
    #[serde(default)]
    pub accept_bound_tokens: bool,
    /// Pause between two fetches of `jwks` while all is well.
    #[serde(default = "defaults::jwks_refresh")]
    pub refresh: Span,
    /// How long the last good keys serve while `jwks` cannot be fetched.
    #[serde(default = "defaults::jwks_stale")]
    pub max_stale: Span,
}

/// What callers may name.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// A policy file, or a directory whose `.yaml`, `.yml` and `.json` files are read as one policy.
    #[serde(default)]
    pub files: Option<PathBuf>,
    /// Whether the policy decides, only reports, or is not asked.
    #[serde(default)]
    pub mode: PolicyMode,
    /// An Apache Gravitino server that is asked, beside the files or instead of them.
    #[serde(default)]
    pub gravitino: Option<Gravitino>,
    /// Which references inside facets are judged.
    #[serde(default)]
    pub facet_references: FacetReferences,
    /// How long the answers of a policy source that is asked over the network are used.
    #[serde(default)]
    pub cache: PolicyCache,
}

/// How long the answers of a policy source that is asked over the network are used.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyCache {
    /// How long an allow is used before the source is asked again. Answers in use are asked for ahead of that.
    pub fresh: Span,
    /// How old an allow may become while the source fails. Never used when the source says no.
    pub stale_if_error: Span,
    /// How long a denial is used.
    pub denied: Span,
    /// Allows that are kept; of denials a tenth of it.
    pub entries: u64,
    /// Questions to the source at once, for all callers. One caller gets half of it.
    pub concurrency: usize,
}

/// Whether the policy decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyMode {
    /// What the policy does not allow is refused.
    #[default]
    Enforce,
    /// What the policy does not allow passes, and is marked in audit and metrics. So does what cannot be judged.
    Shadow,
    /// Nothing is judged: any namespace passes. Authentication, validation and limits still hold.
    Off,
}

/// Which references inside facets are judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FacetReferences {
    /// None, as Gravitino does.
    Ignore,
    /// Those whose namespace the policy knows.
    #[default]
    Governed,
    /// All: one into a namespace that no rule names is refused.
    All,
}

/// One rate limit.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Name in answers, metrics and `RateLimit` fields: letters, digits, `-` and `_`.
    pub name: String,
    /// What has a bucket of its own.
    pub per: LimitScope,
    /// What is counted.
    #[serde(default)]
    pub unit: LimitUnit,
    /// `100/s`, `6000/m`, `100000/h`; for bytes `10MiB/s`.
    pub rate: Rate,
    /// Size of the bucket: what may come at once. Default: one second's worth, at least 1.
    #[serde(default)]
    pub burst: Option<Size>,
    /// Other rates for some callers. A user's own beats a group's; of several groups the largest counts.
    #[serde(default)]
    pub overrides: LimitOverrides,
    /// Buckets that are kept at once, full ones not counted. Once all are taken, those without one share a single bucket
    /// of the limit's rate.
    #[serde(default = "defaults::limit_keys")]
    pub max_keys: usize,
}

/// What has a bucket of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitScope {
    /// The address of the connection (an IPv6 /64), before any token is looked at.
    Peer,
    /// The verified caller.
    Caller,
    /// The metalake that an allowed event belongs to.
    Metalake,
    /// The job namespace of an allowed event outside any metalake.
    Namespace,
}

/// What a limit counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitUnit {
    /// Requests, before their body is read.
    #[default]
    Requests,
    /// Events, after they were parsed.
    Events,
    /// Decoded bytes of the body, after it was parsed.
    Bytes,
}

/// Other rates for some callers.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitOverrides {
    /// By user name, with the issuer's prefix.
    pub users: BTreeMap<String, LimitRate>,
    /// By group name, with the issuer's prefix.
    pub groups: BTreeMap<String, LimitRate>,
}

/// The rate of an override.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitRate {
    /// As `limits[].rate`.
    pub rate: Rate,
    /// As `limits[].burst`.
    #[serde(default)]
    pub burst: Option<Size>,
}

/// Bounds and rules for the body of a request.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Event {
    /// Bytes of a body, decoded.
    pub max_body: Size,
    /// Bytes of a body as sent. Default: `max_body`.
    pub max_compressed: Option<Size>,
    /// How many times larger a body may become by decoding, once it is over 1 MiB.
    pub max_ratio: u32,
    /// Bytes of all bodies in memory together.
    pub memory: Size,
    /// Bytes of all bodies of one caller in memory together, so that nobody alone takes all of `memory`. Default: half of
    /// it, but at least `max_body`.
    pub memory_per_caller: Option<Size>,
    /// How long a body waits for room in `memory`, before 503.
    pub memory_wait: Span,
    /// Depth of nesting.
    pub max_depth: usize,
    /// References that one event may hold, facets included. All events of a batch together may hold ten times as many.
    pub max_references: usize,
    /// Events that one batch may hold. Each has an audit record: of far more than 1,000 at once, some may be lost where
    /// the audit's output is slow.
    pub max_batch: usize,
    /// What becomes of a batch of which some events are refused.
    pub batch_policy: BatchPolicy,
    /// What becomes of an `eventTime` without offset. Default: by upstream kind.
    pub event_time: Option<EventTime>,
    /// Kinds of event that are accepted. Gravitino's contract takes run events only, whatever stands here.
    pub kinds: Vec<EventKind>,
}

/// What becomes of a batch of which some events are refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchPolicy {
    /// The others are delivered, and the answer names those that are refused.
    #[default]
    Partial,
    /// Nothing is delivered.
    AllOrNothing,
}

/// What becomes of an `eventTime` without offset. It is forwarded unchanged in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventTime {
    /// Refused.
    RequireOffset,
    /// Taken as UTC.
    AssumeUtc,
}

/// A kind of OpenLineage event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// RunEvent.
    Run,
    /// JobEvent.
    Job,
    /// DatasetEvent.
    Dataset,
}

/// One record a request.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// `stdout`, `off`, or a file that is appended to.
    pub output: AuditOutput,
    /// Datasets that a record lists; the rest is counted.
    pub max_datasets: usize,
}

/// Where audit records go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AuditOutput {
    /// Standard output, one JSON object a line.
    #[default]
    Stdout,
    /// Nowhere.
    Off,
    /// Appended to a file.
    File(PathBuf),
}

/// The health listener.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Health {
    /// `IP:PORT`, or `unix:PATH`.
    pub address: Address,
}

/// The control listener. A TCP address wants `token_file`; a Unix socket is made with mode 0600.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// A loopback `IP:PORT`, or `unix:PATH`.
    pub address: Address,
    /// File with the bearer token that every request must carry. Mandatory for TCP, also on loopback: the containers of
    /// a pod share it.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
}

/// How the process ends.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Drain {
    /// How long new connections are accepted after the signal, while readiness fails.
    pub grace: Span,
    /// When requests in flight are given up, from the signal on.
    pub deadline: Span,
}
