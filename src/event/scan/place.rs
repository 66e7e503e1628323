//! The places of an event that mean something, and the keys that are read at each (facts: openlineage 2.3 A).

use unicase::UniCase;

use crate::event::Role;

/// What a value in the document is, told by where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::event) enum Place {
    /// The document.
    Event,
    /// `run`.
    Run,
    /// `job`.
    Job,
    /// `inputs`.
    Inputs,
    /// `outputs`.
    Outputs,
    /// One of `inputs`.
    Input,
    /// One of `outputs`.
    Output,
    /// `dataset`.
    Dataset,
    /// `facets` of a run.
    RunFacets,
    /// `facets` of a job.
    JobFacets,
    /// `facets` of a dataset.
    DatasetFacets,
    /// The `datasetType` facet.
    TypeFacet,
    /// The `symlinks` facet.
    Symlinks,
    /// The `columnLineage` facet.
    ColumnLineage,
    /// `fields` of the `columnLineage` facet.
    ColumnFields,
    /// One of those fields.
    ColumnField,
    /// The `dataSource` facet.
    DataSource,
    /// `uri` of that facet.
    DataSourceUri,
    /// The `lifecycleStateChange` facet.
    LifecycleStateChange,
    /// The `lineage` facet of a job or a dataset.
    Lineage,
    /// `fields` of the `lineage` facet, or of one of its entries.
    LineageFields,
    /// One of those fields.
    LineageField,
    /// An entry or an input of the `lineage` facet.
    LineageEntry,
    /// The `parent` or `parentRun` facet.
    Parent,
    /// `root` of that facet.
    ParentRoot,
    /// The `jobDependencies` facet.
    JobDependencies,
    /// One of its dependencies.
    JobDependency,
    /// A run that a facet names.
    FacetRun,
    /// A job that a facet names.
    FacetJob,
    /// A dataset that a facet names.
    FacetDataset,
    /// Any other facet.
    Facet,
    /// A value that must be a text.
    Text,
    /// Anything else.
    Anything,
}

/// What a value must be. Null is taken everywhere, as an absent member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// An object.
    Object,
    /// A list.
    List,
    /// A text.
    Text,
    /// Anything.
    Any,
}

/// What a key stands for in its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::event) enum Key {
    /// A key that is read; its value's place.
    Read(Place),
    /// Any other key; its value's place.
    Other(Place),
    /// A key that an upstream with lenient names would take for this one.
    Variant(&'static str),
}

/// The rules of one place.
struct Spec {
    shape: Shape,
    /// The keys that are read in an object here, and the places of their values.
    names: &'static [(&'static str, Place)],
    /// The place of the values of all other keys.
    others: Place,
    /// What an object here means when it names something.
    role: Role,
}

impl Place {
    /// What `key` means in an object at this place.
    ///
    /// A variant is refused where the true key is read, also alone: an upstream that ignores case would read what was
    /// never judged. Elsewhere users may name things as they like.
    pub(in crate::event) fn key(self, key: &str) -> Key {
        let Spec { names, others, .. } = self.spec();
        if let Some((_, place)) = names.iter().find(|(name, _)| *name == key) {
            return Key::Read(*place);
        }
        if let Some((name, _)) = names.iter().find(|(name, _)| is_variant(key, name)) {
            return Key::Variant(name);
        }
        Key::Other(others)
    }

    /// What stands in a list at this place. Inside facets a list and its elements are one place: where a list belongs, an
    /// upstream may take a single value for a list of one.
    pub(in crate::event) fn element(self) -> Self {
        if self == Self::Inputs {
            Self::Input
        } else if self == Self::Outputs {
            Self::Output
        } else {
            self
        }
    }

    /// What a value here must be.
    pub(super) fn shape(self) -> Shape {
        self.spec().shape
    }

    /// What an object here means when it names something. An entry of the `lineage` facet tells by its `type`.
    pub(in crate::event) fn role(self, kind: Option<&str>) -> Role {
        if self == Self::LineageEntry && kind == Some("JOB") {
            return Role::FacetJob;
        }
        self.spec().role
    }

    /// Whether an object here is a facet.
    pub(super) fn is_facet(self) -> bool {
        self.spec().names.contains(&DELETED)
    }

    fn spec(self) -> Spec {
        match self {
            Self::Event => Spec::object(&[
                ("eventType", Self::Text),
                ("eventTime", Self::Text),
                ("producer", Self::Text),
                ("schemaURL", Self::Text),
                ("run", Self::Run),
                ("job", Self::Job),
                ("inputs", Self::Inputs),
                ("outputs", Self::Outputs),
                ("dataset", Self::Dataset),
            ]),
            Self::Run => Spec::object(&[("runId", Self::Text), ("facets", Self::RunFacets)]),
            Self::Job => Spec::object(JOB).naming(Role::Job),
            Self::Inputs | Self::Outputs => Spec { shape: Shape::List, ..Spec::any(&[]) },
            Self::Input => Spec::object(DATASET).naming(Role::Input),
            Self::Output | Self::Dataset => Spec::object(DATASET).naming(Role::Output),
            Self::RunFacets => Spec::object(&[
                ("parent", Self::Parent),
                ("parentRun", Self::Parent),
                ("jobDependencies", Self::JobDependencies),
            ])
            .others(Self::Facet),
            Self::JobFacets => Spec::object(&[("lineage", Self::Lineage)]).others(Self::Facet),
            Self::DatasetFacets => Spec::object(&[
                ("datasetType", Self::TypeFacet),
                ("symlinks", Self::Symlinks),
                ("columnLineage", Self::ColumnLineage),
                ("dataSource", Self::DataSource),
                ("lifecycleStateChange", Self::LifecycleStateChange),
                ("lineage", Self::Lineage),
            ])
            .others(Self::Facet),
            Self::TypeFacet => Spec::object(&[("datasetType", Self::Anything), DELETED]),
            Self::Symlinks => Spec::any(&[("identifiers", Self::FacetDataset), DELETED]),
            Self::ColumnLineage => {
                Spec::any(&[("fields", Self::ColumnFields), ("dataset", Self::FacetDataset), DELETED])
            }
            Self::ColumnFields => Spec::any(&[]).others(Self::ColumnField),
            Self::ColumnField => Spec::any(&[("inputFields", Self::FacetDataset)]),
            Self::DataSource => Spec::any(&[("uri", Self::DataSourceUri), DELETED]),
            Self::LifecycleStateChange => Spec::any(&[("previousIdentifier", Self::FacetDataset), DELETED]),
            Self::Lineage => Spec::any(&[
                ("entries", Self::LineageEntry),
                ("inputs", Self::LineageEntry),
                ("fields", Self::LineageFields),
                DELETED,
            ]),
            Self::LineageFields => Spec::any(&[]).others(Self::LineageField),
            Self::LineageField => Spec::any(&[("inputs", Self::LineageEntry)]),
            Self::LineageEntry => Spec::any(&[
                ("type", Self::Text),
                ("namespace", Self::Text),
                ("name", Self::Text),
                ("inputs", Self::LineageEntry),
                ("fields", Self::LineageFields),
            ]),
            Self::Parent => {
                Spec::any(&[("run", Self::FacetRun), ("job", Self::FacetJob), ("root", Self::ParentRoot), DELETED])
            }
            Self::ParentRoot | Self::JobDependency => Spec::any(&[("run", Self::FacetRun), ("job", Self::FacetJob)]),
            Self::JobDependencies => {
                Spec::any(&[("upstream", Self::JobDependency), ("downstream", Self::JobDependency), DELETED])
            }
            Self::FacetRun => Spec::any(&[("facets", Self::RunFacets)]),
            Self::FacetJob => Spec::any(JOB).naming(Role::FacetJob),
            Self::FacetDataset => Spec::any(&[("namespace", Self::Text), ("name", Self::Text)]),
            Self::Facet => Spec::any(&[DELETED]),
            Self::Text => Spec { shape: Shape::Text, ..Spec::any(&[]) },
            Self::DataSourceUri | Self::Anything => Spec::any(&[]),
        }
    }
}

impl Spec {
    const fn object(names: &'static [(&'static str, Place)]) -> Self {
        Self { shape: Shape::Object, ..Self::any(names) }
    }

    /// Facets may have any shape but where real servers refuse a wrong one (facts: gravitino-real 4).
    const fn any(names: &'static [(&'static str, Place)]) -> Self {
        Self { shape: Shape::Any, names, others: Place::Anything, role: Role::FacetDataset }
    }

    const fn others(self, others: Place) -> Self {
        Self { others, ..self }
    }

    const fn naming(self, role: Role) -> Self {
        Self { role, ..self }
    }
}

const JOB: &[(&str, Place)] = &[("namespace", Place::Text), ("name", Place::Text), ("facets", Place::JobFacets)];

const DATASET: &[(&str, Place)] =
    &[("namespace", Place::Text), ("name", Place::Text), ("facets", Place::DatasetFacets)];

const DELETED: (&str, Place) = ("_deleted", Place::Anything);

/// Whether `key` is not `name`, but equal to it under Unicode case folding, or in the eyes of Java, which upper-cases
/// `ı` and lower-cases `İ` to plain letters.
pub(in crate::event) fn is_variant(key: &str, name: &str) -> bool {
    if key.is_ascii() {
        return key != name && key.eq_ignore_ascii_case(name);
    }
    if key.len() > name.len().saturating_mul(3) {
        return false;
    }
    if key.contains(['ı', 'İ']) {
        let plain = key.replace(['ı', 'İ'], "i");
        return UniCase::unicode(plain.as_str()) == UniCase::unicode(name);
    }
    UniCase::unicode(key) == UniCase::unicode(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_folds_to_a_name_is_its_variant() {
        let table = [
            ("outputs", "outputs", false),
            ("Outputs", "outputs", true),
            ("OUTPUTS", "outputs", true),
            ("output\u{17f}", "outputs", true),
            ("\u{131}nputs", "inputs", true),
            ("\u{130}nputs", "inputs", true),
            ("I\u{307}nputs", "inputs", false),
            ("symlin\u{212a}s", "symlinks", true),
            ("dataset_", "dataset", false),
            ("sch\u{e9}maURL", "schemaURL", false),
            ("schemaUrl", "schemaURL", true),
            ("facet\u{df}", "facets", false),
            ("", "run", false),
        ];
        for (key, name, variant) in table {
            assert_eq!(is_variant(key, name), variant, "{key} {name}");
        }
    }

    #[test]
    fn variants_are_refused_where_the_name_is_read_only() {
        assert_eq!(Place::Event.key("Outputs"), Key::Variant("outputs"));
        assert_eq!(Place::Facet.key("Outputs"), Key::Other(Place::Anything));
        assert_eq!(Place::Facet.key("_Deleted"), Key::Variant("_deleted"));
        assert_eq!(Place::Anything.key("Name"), Key::Other(Place::Anything));
        assert_eq!(Place::ColumnFields.key("Name"), Key::Other(Place::ColumnField));
    }
}
