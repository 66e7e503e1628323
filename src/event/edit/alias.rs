//! Other names of a dataset, by which some backends look it up.

use crate::event::{DatasetType, Reference, Role};

/// A symlink identifier, or a `dataSource` facet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// Its number in the event, for [`without`](super::without).
    pub number: usize,
    /// What it is.
    pub kind: Kind,
    /// Where it stands, such as `inputs[0].facets.symlinks.identifiers[1]`.
    pub path: String,
    /// The dataset that it names, in the role of the one whose name it is. None if nobody can say which: then nobody may name it either.
    pub reference: Option<Reference>,
}

/// What an alias is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// An identifier of the symlinks facet.
    Symlink,
    /// A `dataSource` facet: it names the dataset in the namespace that is called like the source.
    DataSource {
        /// The dataset's own namespace.
        own: String,
    },
}

impl Alias {
    pub(super) fn new(number: usize, kind: Kind, path: String, role: Role, pair: Option<(&str, &str)>) -> Self {
        let reference = pair.map(|(namespace, name)| Reference {
            role,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            dataset_type: DatasetType::Absent,
            path: path.clone(),
        });
        Self { number, kind, path, reference }
    }
}
