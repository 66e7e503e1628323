//! What the walk finds.

use super::Members;
use super::path::Path;
use super::place::Place;
use crate::event::violations::Violations;
use crate::event::{DataSource, DatasetType, Reference, Role};

/// What a document says, as far as the gate must know.
#[derive(Debug, Default)]
pub(in crate::event) struct Document {
    pub(in crate::event) event_type: Option<String>,
    pub(in crate::event) event_time: Option<String>,
    pub(in crate::event) producer: Option<String>,
    pub(in crate::event) schema_url: Option<String>,
    pub(in crate::event) run: Option<Run>,
    pub(in crate::event) job: Option<Pair>,
    pub(in crate::event) dataset: Option<Pair>,
    /// In document order.
    pub(in crate::event) references: Vec<Reference>,
    pub(in crate::event) deleted_facets: Vec<String>,
    pub(in crate::event) data_sources: Vec<DataSource>,
    /// What is missing in `inputs`, in `outputs` and in facets.
    pub(in crate::event) input_gaps: Violations,
    pub(in crate::event) output_gaps: Violations,
    pub(in crate::event) facet_gaps: Violations,
}

/// `run`.
#[derive(Debug)]
pub(in crate::event) struct Run {
    pub(in crate::event) id: Option<String>,
}

/// `job` or `dataset`; what is absent or null is `None`.
#[derive(Debug)]
pub(in crate::event) struct Pair {
    pub(in crate::event) namespace: Option<String>,
    pub(in crate::event) name: Option<String>,
}

/// A document in the making.
#[derive(Default)]
pub(super) struct Draft {
    document: Document,
    opened: u64,
    /// Each with the number of objects that were opened before its own: objects end in another order than they begin.
    references: Vec<(u64, Reference)>,
    /// Of the input, output or dataset that is open. None of them can stand inside another.
    dataset_type: Option<DatasetType>,
}

impl Draft {
    /// Begins an object; the number tells its place in document order.
    pub(super) fn open(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }

    /// References and deleted facets so far.
    pub(super) fn count(&self) -> usize {
        self.references.len() + self.document.deleted_facets.len()
    }

    /// Takes what an object says that ends now.
    pub(super) fn take(&mut self, place: Place, order: u64, path: &Path<'_>, members: &mut Members) {
        if members.deletes {
            self.document.deleted_facets.push(path.to_string());
        }
        if place == Place::TypeFacet {
            let named = members.take("datasetType").filter(|name| !name.trim().is_empty());
            self.dataset_type = Some(named.map_or(DatasetType::Blank, DatasetType::Named));
        } else if place == Place::Event {
            self.document.event_type = members.take("eventType");
            self.document.event_time = members.take("eventTime");
            self.document.producer = members.take("producer");
            self.document.schema_url = members.take("schemaURL");
        } else if place == Place::DataSource {
            let uri = members.take("uri");
            self.document.data_sources.extend(uri.map(|uri| DataSource { uri, path: path.to_string() }));
        } else if place == Place::Run {
            self.document.run = Some(Run { id: members.take("runId") });
        } else if place == Place::Job {
            self.document.job = Some(Pair::of(members));
        } else if place == Place::Dataset {
            self.document.dataset = Some(Pair::of(members));
        }
        self.note_gaps(place, path, members);
        self.take_reference(place, order, path, members);
    }

    /// Takes a null in a list.
    pub(super) fn take_null(&mut self, element: Place, path: &Path<'_>) {
        if !matches!(element, Place::Input | Place::Output) {
            return;
        }
        if let Some(gaps) = self.gaps(element) {
            gaps.push(|| format!("{path} cannot be null"));
        }
    }

    pub(super) fn finish(mut self) -> Document {
        self.references.sort_by_key(|(order, _)| *order);
        self.document.references = self.references.into_iter().map(|(_, reference)| reference).collect();
        self.document
    }

    fn take_reference(&mut self, place: Place, order: u64, path: &Path<'_>, members: &mut Members) {
        let role = place.role(members.get("type"));
        let dataset_type = match role {
            Role::Input | Role::Output => self.dataset_type.take().unwrap_or(DatasetType::Absent),
            Role::Job | Role::FacetJob | Role::FacetDataset => DatasetType::Absent,
        };
        let (Some(namespace), Some(name)) = (members.take("namespace"), members.take("name")) else { return };
        let reference = Reference { role, namespace, name, dataset_type, path: path.to_string() };
        self.references.push((order, reference));
    }

    fn note_gaps(&mut self, place: Place, path: &Path<'_>, members: &Members) {
        // An entry without both names means the event's own job, or has nothing but inputs.
        let both_absent = members.get("namespace").is_none() && members.get("name").is_none();
        if place == Place::LineageEntry && both_absent {
            return;
        }
        let Some(gaps) = self.gaps(place) else { return };
        for member in ["namespace", "name"] {
            if is_blank(members.get(member)) {
                gaps.push(|| format!("{path}.{member} is required"));
            }
        }
    }

    fn gaps(&mut self, place: Place) -> Option<&mut Violations> {
        if place == Place::Input {
            Some(&mut self.document.input_gaps)
        } else if place == Place::Output {
            Some(&mut self.document.output_gaps)
        } else if place == Place::LineageEntry {
            Some(&mut self.document.facet_gaps)
        } else {
            None
        }
    }
}

impl Pair {
    /// Copies: the pair is a reference too.
    fn of(members: &Members) -> Self {
        Self { namespace: members.get("namespace").map(str::to_owned), name: members.get("name").map(str::to_owned) }
    }
}

/// Absent, empty, or nothing but white space.
pub(in crate::event) fn is_blank(text: Option<&str>) -> bool {
    text.is_none_or(|text| text.trim().is_empty())
}
