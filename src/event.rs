//! Body → bytes → [`Event`]: content coding, one scan for depth, duplicates, NUL and references, required fields.
//!
//! What is judged is what is sent: an [`Event`] holds the very bytes that the scan read, and everything that it says of
//! them was found by that scan.

use bytes::Bytes;

pub use crate::config::EventKind as Kind;

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
    /// Every place that names a dataset or a job, in document order; `references[i].role` tells which.
    pub references: Vec<Reference>,
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
