//! The shape of what changes events: rewrite rules, and facets that are dropped or scrubbed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Size;

/// A rule that maps names, at every place of an event that can name a dataset or a job, facets included.
///
/// Regular expressions must match the whole text. Rules are tried in order, each on what those before it made. The policy
/// sees what they make.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// Its name in audit and metrics. Default: its place, such as `rewrite[0]`.
    #[serde(default)]
    pub rule: Option<String>,
    /// What it maps.
    #[serde(default)]
    pub of: RewriteOf,
    /// Regular expression for the namespace.
    pub namespace: String,
    /// Regular expression for the name. Default: any.
    #[serde(default)]
    pub name: Option<String>,
    /// The new namespace; `$1` is the first capture group of `namespace`. Default: unchanged.
    #[serde(default)]
    pub to_namespace: Option<String>,
    /// The new name; `$1` is the first capture group of `name`. Default: unchanged.
    #[serde(default)]
    pub to_name: Option<String>,
}

/// What a rewrite rule maps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RewriteOf {
    /// Datasets.
    Dataset,
    /// Jobs.
    Job,
    /// Datasets and jobs.
    #[default]
    Both,
}

/// What is taken out of facets before the policy looks at an event.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Facets {
    /// Names of facets that are dropped: of runs, jobs and datasets, input and output facets too.
    pub drop: Vec<String>,
    /// Facets with a larger value are dropped. Default: none.
    pub drop_over: Option<Size>,
    /// Whether `user:password@` and secret parameters are taken out of all texts that hold a URI.
    pub scrub_uris: bool,
}

/// What becomes of a symlink or a `dataSource` that the caller may not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Symlinks {
    /// It is judged as any other facet (`policy.facet_references`).
    Keep,
    /// It is taken out of the event.
    DropUnseen,
    /// The event is refused.
    DenyUnseen,
}
