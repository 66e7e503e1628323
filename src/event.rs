//! Body → bytes → [`Event`]: content coding, one scan for depth, duplicates, NUL and references, required fields.
//!
//! What is judged is what is sent: an [`Event`] holds the very bytes that the scan read, and everything that it says of
//! them was found by that scan.

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

pub use self::minify::minified;
use crate::answer::Refusal;
pub use crate::config::EventKind as Kind;
use crate::config::{self, EventTime};

pub mod batch;
pub mod body;
mod check;
pub mod edit;
mod minify;
mod scan;
mod violations;

/// The deepest nesting that `event.max_depth` can allow: serde_json itself gives up at 128.
pub const DEPTH_CAP: usize = 120;

/// One checked OpenLineage event.
#[derive(Debug, Clone)]
pub struct Event {
    /// What its members make it.
    pub kind: Kind,
    /// The decoded bytes.
    pub body: Bytes,
    /// The job, for run and job events.
    pub job: Option<JobName>,
    /// `run.runId`, for run events.
    pub run_id: Option<String>,
    /// `eventType` as sent.
    pub event_type: Option<String>,
    /// `eventTime` as sent.
    pub event_time: String,
    /// `producer` as sent.
    pub producer: String,
    /// `schemaURL` as sent.
    pub schema_url: String,
    /// Every place that names a dataset or a job, in document order; `references[i].role` tells which.
    pub references: Vec<Reference>,
    /// Where facets stand that delete a stored facet (`_deleted: true`), such as `outputs[0].facets.documentation`.
    pub deleted_facets: Vec<String>,
    /// The `dataSource` facets that have a `uri`.
    pub data_sources: Vec<DataSource>,
}

/// The `dataSource` facet of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSource {
    /// Its `uri`, as sent.
    pub uri: String,
    /// Where it stands, such as `outputs[0].facets.dataSource`.
    pub path: String,
}

/// A job's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobName {
    /// `job.namespace`.
    pub namespace: String,
    /// `job.name`.
    pub name: String,
}

/// A place in an event that names a dataset or a job (facts: openlineage 2.3 A).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// What the place means.
    pub role: Role,
    /// The `namespace` member.
    pub namespace: String,
    /// The `name` member.
    pub name: String,
    /// The `datasetType` facet, for inputs, outputs and the dataset of a dataset event.
    pub dataset_type: DatasetType,
    /// Where it stands, such as `inputs[0].facets.symlinks.identifiers[1]`.
    pub path: String,
}

/// What a place that names something means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The event's own job.
    Job,
    /// An input.
    Input,
    /// An output, or the dataset of a dataset event.
    Output,
    /// A job that a facet names.
    FacetJob,
    /// A dataset that a facet names, or anything in an unknown place that has `namespace` and `name`.
    FacetDataset,
}

/// The `datasetType` facet of a dataset (facts: gravitino 0.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatasetType {
    /// No such facet, or null: a table.
    Absent,
    /// A non-blank text, as sent.
    Named(String),
    /// The facet is there, its value missing, blank or no text.
    Blank,
}

/// What an event must be, beyond JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What becomes of an `eventTime` without offset.
    pub event_time: EventTime,
    /// The kinds that the configuration accepts.
    pub kinds: Vec<Kind>,
    /// Whether the contract takes run events only (Gravitino's): whatever an event is, it is checked as one.
    pub runs_only: bool,
    /// Depth of nesting, at most [`DEPTH_CAP`].
    pub max_depth: usize,
    /// References and deleted facets together.
    pub max_references: usize,
}

/// Why a body is no event.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Over a bound; the text says which.
    #[error("{0}")]
    TooLarge(String),
    /// `Content-Type` is not JSON in UTF-8.
    #[error("the content type is not JSON: send application/json")]
    UnsupportedMediaType,
    /// `Content-Encoding` is neither gzip nor identity.
    #[error("the content encoding is not supported: send gzip or none")]
    UnsupportedEncoding,
    /// The body did not arrive in time.
    #[error("the body did not arrive in time")]
    BodyTimeout,
    /// The body ended before it should: the caller left, or its framing is wrong.
    #[error("the body broke off before its end")]
    BrokenOff(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The body is not what its encoding says.
    #[error("{0}")]
    BadBody(&'static str),
    /// No room for the body.
    #[error("all memory for bodies is taken (event.memory)")]
    MemoryFull,
    /// Not JSON, or JSON of the wrong shape. The text holds names of fields and positions, never a value.
    #[error("{0}")]
    Malformed(String),
    /// Required members are missing, or have a value that cannot be. The text holds all violations, never a value.
    #[error("{0}")]
    Invalid(String),
}

/// What the stage counts.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    body_bytes: Gauge,
    memory_waits: Counter,
}

/// Checks a whole, decoded body and makes it an event.
///
/// Works without a pause, for a time linear in the bytes: a body of many MiB belongs on a thread that may block.
///
/// # Errors
///
/// [`Error::Malformed`], [`Error::Invalid`], or [`Error::TooLarge`] for too many references.
pub fn parse(body: Bytes, rules: &Rules) -> Result<Event, Error> {
    let document = scan::scan(&body, rules.max_depth, rules.max_references)?;
    check::check(document, body, rules)
}

impl Event {
    /// The namespace that the event belongs to: its job's, or its dataset's for a dataset event.
    pub fn namespace(&self) -> &str {
        let job = self.job.as_ref().map(|job| job.namespace.as_str());
        let dataset = || self.references.iter().find(|reference| reference.path == "dataset");
        job.or_else(|| dataset().map(|reference| reference.namespace.as_str())).unwrap_or_default()
    }
}

impl Rules {
    /// The configured rules. `default_time` is that of the upstream's kind, `runs_only` that of the caller's contract.
    pub fn new(event: &config::Event, default_time: EventTime, runs_only: bool) -> Self {
        Self {
            event_time: event.event_time.unwrap_or(default_time),
            kinds: event.kinds.clone(),
            runs_only,
            max_depth: event.max_depth,
            max_references: event.max_references,
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::TooLarge(bound) => Self::TooLarge { bound },
            Error::UnsupportedMediaType => Self::UnsupportedMediaType,
            Error::UnsupportedEncoding => Self::UnsupportedEncoding,
            Error::BodyTimeout => Self::BodyTimeout,
            Error::BrokenOff(_) => Self::BadBody("the body broke off before its end".to_owned()),
            Error::BadBody(fault) => Self::BadBody(fault.to_owned()),
            Error::MemoryFull => Self::MemoryFull,
            Error::Malformed(fault) => Self::Malformed(fault),
            Error::Invalid(violations) => Self::Invalid(violations),
        }
    }
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let gauge = metrics.body_bytes.clone();
        registry.register_with_unit("event_body_memory", "Memory that bodies hold", Unit::Bytes, gauge);
        let waits = metrics.memory_waits.clone();
        registry.register("event_memory_waits", "Times that a body had to wait for memory", waits);
        metrics
    }
}

#[cfg(test)]
mod tests;
