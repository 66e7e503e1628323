//! What each kind of backend needs of a request, and where its answers are read: one file a kind.

use crate::answer::Outcome;
use crate::config::UpstreamKind;

use super::batch::{self, BatchForm, BatchOutcome};
use super::raw::Raw;
use super::{datahub, gravitino, marquez, openlineage, openmetadata, polaris};

/// The paths that servers of any kind take events at; batches go below. No two kinds need be on one server: this is for
/// those that nobody told the gate the kind of.
pub(crate) const EVENT_PATHS: [&str; 6] =
    [openlineage::PATH, gravitino::PATH, marquez::PATH, openmetadata::PATH, datahub::PATH, polaris::PATH];

/// What a backend speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contract {
    /// Any OpenLineage endpoint.
    Openlineage,
    /// An Apache Gravitino server.
    Gravitino,
    /// Marquez.
    Marquez,
    /// OpenMetadata.
    Openmetadata,
    /// DataHub's metadata service.
    Datahub,
    /// Apache Polaris.
    Polaris,
}

impl Contract {
    /// The contract of a kind; none for files.
    pub(super) fn of(kind: UpstreamKind) -> Option<Self> {
        match kind {
            UpstreamKind::File => None,
            UpstreamKind::Openlineage => Some(Self::Openlineage),
            UpstreamKind::Gravitino => Some(Self::Gravitino),
            UpstreamKind::Marquez => Some(Self::Marquez),
            UpstreamKind::Openmetadata => Some(Self::Openmetadata),
            UpstreamKind::Datahub => Some(Self::Datahub),
            UpstreamKind::Polaris => Some(Self::Polaris),
        }
    }

    /// What it is called in a sentence to the operator.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Openlineage => "an OpenLineage endpoint",
            Self::Gravitino => "a Gravitino server",
            Self::Marquez => "a Marquez server",
            Self::Openmetadata => "an OpenMetadata server",
            Self::Datahub => "a DataHub server",
            Self::Polaris => "a Polaris server",
        }
    }

    /// The path that is appended to `url`. An OpenLineage endpoint's URL may have a path of its own, which is then used
    /// as it is.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Openlineage => openlineage::PATH,
            Self::Gravitino => gravitino::PATH,
            Self::Marquez => marquez::PATH,
            Self::Openmetadata => openmetadata::PATH,
            Self::Datahub => datahub::PATH,
            Self::Polaris => polaris::PATH,
        }
    }

    /// The path that a GET finds on a server of this kind and on no other; without one, the events' own is asked for.
    pub(super) fn probe_path(self) -> Option<&'static str> {
        match self {
            Self::Gravitino => Some(gravitino::PROBE),
            Self::Marquez => Some(marquez::PROBE),
            Self::Openmetadata => Some(openmetadata::PROBE),
            Self::Openlineage | Self::Datahub | Self::Polaris => None,
        }
    }

    /// The gate's own `Accept`. The client's is never sent on: Marquez and Gravitino answer 406 to those of the others.
    pub(super) fn accept(self) -> &'static str {
        match self {
            Self::Gravitino => gravitino::ACCEPT,
            Self::Openlineage | Self::Marquez | Self::Openmetadata | Self::Datahub | Self::Polaris => {
                "application/json"
            }
        }
    }

    /// Whether a 401 or 403 comes from a server of this kind itself. Only one kind has a shape that tells.
    pub(super) fn is_own_refusal(self, raw: &Raw) -> bool {
        match self {
            Self::Gravitino => gravitino::is_own_refusal(raw),
            Self::Openlineage | Self::Marquez | Self::Openmetadata | Self::Datahub | Self::Polaris => true,
        }
    }

    /// How its batch call takes events, if it has one (facts: backends 0.5).
    pub(super) fn batch_form(self) -> Option<BatchForm> {
        match self {
            Self::Openmetadata => Some(BatchForm::Events),
            Self::Openlineage | Self::Datahub | Self::Polaris => Some(BatchForm::Array),
            Self::Gravitino | Self::Marquez => None,
        }
    }

    /// Raw answer to one event → outcome.
    pub(super) fn classify(self, raw: &Raw, host: &str, port: u16) -> Outcome {
        match self {
            Self::Openlineage => openlineage::classify(raw, host, port),
            Self::Gravitino => gravitino::classify(raw, host, port),
            Self::Marquez => marquez::classify(raw, host, port),
            Self::Openmetadata => openmetadata::classify(raw, host, port),
            Self::Datahub => datahub::classify(raw, host, port),
            Self::Polaris => polaris::classify(raw, host, port),
        }
    }

    /// Raw answer to a batch of `count` events → outcomes.
    pub(super) fn classify_batch(self, raw: &Raw, count: usize, host: &str, port: u16) -> BatchOutcome {
        if matches!(raw.status.as_u16(), 404 | 501) {
            return BatchOutcome::Unsupported;
        }
        match self {
            Self::Openmetadata => openmetadata::classify_batch(raw, count, host, port),
            Self::Polaris => polaris::classify_batch(raw, count, host, port),
            Self::Openlineage | Self::Datahub | Self::Gravitino | Self::Marquez => {
                batch::by_specification(raw, count, |raw| self.classify(raw, host, port), host, port)
            }
        }
    }
}

#[cfg(test)]
mod tests;
