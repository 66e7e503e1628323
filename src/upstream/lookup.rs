//! How a backend looks datasets up.

use std::collections::BTreeMap;

use crate::config::{self, Symlinks, UpstreamKind};
use crate::event::{Event, Reference, Role};

/// By what a backend finds the dataset that an event means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolvesBy {
    /// Namespace and name, and nothing else.
    Name,
    /// Symlinks too: Marquez makes a dataset of each (facts: marquez-and-clients-real 1, surprise 3).
    Symlinks,
    /// Symlinks before the name, and then a part of the name over all its services: OpenMetadata.
    Services,
}

/// Which names an event may give its datasets, for the backend behind the gate.
#[derive(Debug, Clone)]
pub struct Lookup {
    /// What becomes of symlinks and `dataSource` facets that the caller may not name.
    pub symlinks: Symlinks,
    services: BTreeMap<String, String>,
}

impl ResolvesBy {
    /// What the backends of a kind do.
    pub fn of(kind: UpstreamKind) -> Self {
        match kind {
            UpstreamKind::File
            | UpstreamKind::Openlineage
            | UpstreamKind::Gravitino
            | UpstreamKind::Datahub
            | UpstreamKind::Polaris => Self::Name,
            UpstreamKind::Marquez => Self::Symlinks,
            UpstreamKind::Openmetadata => Self::Services,
        }
    }

    /// What becomes of symlinks that the caller may not name, unless the configuration says so.
    pub fn symlinks(self) -> Symlinks {
        match self {
            Self::Name => Symlinks::Keep,
            Self::Symlinks | Self::Services => Symlinks::DropUnseen,
        }
    }

    /// What is wrong with a backend's `services`, if anything.
    pub fn check(self, services: &BTreeMap<String, String>) -> Option<&'static str> {
        if self == Self::Services && services.is_empty() {
            return Some(
                "`services` is missing: the backend looks datasets up over all its services; say which one each \
                 namespace means, such as { \"postgres://warehouse:5432\": warehouse }",
            );
        }
        let blank = services.iter().any(|(namespace, service)| namespace.is_empty() || service.is_empty());
        blank.then_some("`services` holds an empty namespace or service")
    }
}

impl Lookup {
    /// What `upstream` is configured to, whose kind resolves by `by`.
    pub fn new(upstream: &config::Upstream, by: ResolvesBy) -> Self {
        let symlinks = upstream.symlinks.unwrap_or_else(|| by.symlinks());
        Self { symlinks, services: upstream.services.clone() }
    }

    /// The service of the backend that a namespace means.
    pub fn service(&self, namespace: &str) -> Option<&str> {
        self.services.get(namespace).map(String::as_str)
    }

    /// Whether the backend knows which service a namespace means: any, unless services are configured.
    pub fn knows(&self, namespace: &str) -> bool {
        self.services.is_empty() || self.services.contains_key(namespace)
    }

    /// The first dataset of the event that the backend could find in a service that its namespace does not mean.
    pub fn stray<'e>(&self, event: &'e Event) -> Option<&'e Reference> {
        let is_dataset = |role| matches!(role, Role::Input | Role::Output);
        event.references.iter().find(|reference| is_dataset(reference.role) && !self.knows(&reference.namespace))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::EventTime;
    use crate::event::{Rules, parse};

    fn lookup(more: Value, by: ResolvesBy) -> Lookup {
        let mut upstream = json!({ "name": "u", "kind": "file", "path": "/f" });
        upstream.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Lookup::new(&serde_json::from_value(upstream).unwrap(), by)
    }

    #[test]
    fn unseen_symlinks_are_dropped_for_backends_that_look_datasets_up_by_them() {
        let table = [
            (ResolvesBy::Name, json!({}), Symlinks::Keep),
            (ResolvesBy::Symlinks, json!({}), Symlinks::DropUnseen),
            (ResolvesBy::Services, json!({}), Symlinks::DropUnseen),
            (ResolvesBy::Services, json!({ "symlinks": "keep" }), Symlinks::Keep),
            (ResolvesBy::Name, json!({ "symlinks": "deny_unseen" }), Symlinks::DenyUnseen),
        ];
        for (by, more, expected) in table {
            assert_eq!(lookup(more.clone(), by).symlinks, expected, "{by:?} {more}");
        }
    }

    #[test]
    fn a_backend_that_searches_all_services_wants_them_named() {
        let services = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        assert!(ResolvesBy::Services.check(&services(&[])).unwrap().starts_with("`services` is missing"));
        assert_eq!(ResolvesBy::Name.check(&services(&[])), None);
        assert_eq!(ResolvesBy::Services.check(&services(&[("pg", "prod")])), None);
        assert!(ResolvesBy::Name.check(&services(&[("pg", "")])).is_some());
    }

    #[test]
    fn a_dataset_in_a_namespace_without_service_is_stray() {
        let event = json!({
            "eventTime": "2026-11-29T18:47:48Z", "producer": "p", "schemaURL": "s",
            "run": { "runId": "01956fcb-c4f8-7234-a151-1d699950225d" }, "job": { "namespace": "any", "name": "j" },
            "inputs": [{ "namespace": "pg", "name": "a" }], "outputs": [{ "namespace": "mysql", "name": "b" }],
        });
        let rules = Rules::new(&config::Event::default(), EventTime::RequireOffset, false);
        let event = parse(event.to_string().into(), &rules).unwrap();
        let stray = |services: Value| {
            let lookup = lookup(json!({ "services": services }), ResolvesBy::Services);
            lookup.stray(&event).map(|reference| reference.path.clone())
        };
        assert_eq!(stray(json!({})), None);
        assert_eq!(stray(json!({ "pg": "prod" })).as_deref(), Some("outputs[0]"));
        assert_eq!(stray(json!({ "mysql": "prod" })).as_deref(), Some("inputs[0]"));
        assert_eq!(stray(json!({ "pg": "prod", "mysql": "prod" })), None);
    }
}
