//! Tests of the decision, and what they share.

use std::sync::Arc;

use bytes::Bytes;

use crate::config::FacetReferences;
use crate::event::{DatasetType, Event, JobName, Kind, Reference, Role};

use super::file::{Format, parse};
use super::{ActiveRoles, Denied, Identity, Judgement, Refused, Source, World, compile, judge};

mod aliases;
mod demo;
mod events;
mod naive;
mod namespaces;
mod properties;
mod scale;
mod visibility;
mod worlds;

/// A world out of a policy file's text.
fn world(yaml: &str) -> World {
    let policy = parse(yaml, Format::Yaml).expect("the shape");
    compile(vec![Source { file: "test.yaml".into(), policy }]).expect("the meaning")
}

fn groups(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn reference(role: Role, namespace: &str, name: &str, path: &str) -> Reference {
    Reference {
        role,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        dataset_type: DatasetType::Absent,
        path: path.to_owned(),
    }
}

/// A dataset event, to which references are added.
fn dataset_event() -> Event {
    Event {
        kind: Kind::Dataset,
        body: Bytes::new(),
        job: None,
        run_id: None,
        event_type: None,
        event_time: String::new(),
        producer: String::new(),
        schema_url: String::new(),
        deleted_facets: Vec::new(),
        data_sources: Vec::new(),
        references: Vec::new(),
    }
}

/// A run event of that job, to which references are added.
fn run_event(namespace: &str, name: &str) -> Event {
    Event {
        kind: Kind::Run,
        job: Some(JobName { namespace: namespace.to_owned(), name: name.to_owned() }),
        references: vec![reference(Role::Job, namespace, name, "job")],
        ..dataset_event()
    }
}

impl Event {
    /// The event with one more reference, its path counted as in a document.
    fn naming(mut self, role: Role, namespace: &str, name: &str) -> Self {
        let place = match role {
            Role::Job => "job",
            Role::Input => "inputs",
            Role::Output => "outputs",
            Role::FacetJob => "run.facets.parent.job",
            Role::FacetDataset => "inputs[0].facets.symlinks.identifiers",
        };
        let at = self.references.iter().filter(|reference| reference.role == role).count();
        self.references.push(reference(role, namespace, name, &format!("{place}[{at}]")));
        self
    }

    fn input(self, namespace: &str, name: &str) -> Self {
        self.naming(Role::Input, namespace, name)
    }

    fn output(self, namespace: &str, name: &str) -> Self {
        self.naming(Role::Output, namespace, name)
    }

    /// The event with the `datasetType` of its last reference set.
    fn of_type(mut self, name: &str) -> Self {
        if let Some(last) = self.references.last_mut() {
            last.dataset_type = DatasetType::Named(name.to_owned());
        }
        self
    }
}

/// Judges with facets governed and all roles active.
fn ask(world: &World, subject: &str, token_groups: &[&str], event: &Event) -> Judgement {
    let groups = groups(token_groups);
    let who = Identity { subject, groups: &groups };
    judge(world, &who, &ActiveRoles::All, event, FacetReferences::Governed)
}

/// Refusal and reason of a denial.
fn denial(judgement: Judgement) -> (Refused, String) {
    match judgement {
        Judgement::Denied(Denied { refusal, why, .. }) => (refusal, why.to_string()),
        Judgement::Allowed { governed_by } => panic!("allowed by {governed_by:?}"),
    }
}

/// The reason of a neutral denial.
fn hidden(judgement: Judgement) -> String {
    let (refusal, why) = denial(judgement);
    assert_eq!(refusal, Refused::NotVisible, "{why}");
    why
}

fn is_allowed(judgement: &Judgement) -> bool {
    matches!(judgement, Judgement::Allowed { .. })
}
