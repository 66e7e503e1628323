//! Pure: which events must not overtake each other, and when to send no more.

use std::collections::HashMap;
use std::hash::Hash;

use crate::answer::{NoEffect, Outcome, Unreachable};
use crate::event::{Event, Kind, Role};

/// Events with the same value go one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Run {
    kind: Kind,
    namespace: String,
    name: String,
    id: Option<String>,
}

/// What an event's end means for those after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    GoOn,
    /// The other events of its run must not overtake it: it may still be sent again.
    EndRun,
    /// No other event would fare better.
    EndAll,
}

impl Run {
    /// The run of a run event, else the job or the dataset that an event is about.
    pub fn of(event: &Event) -> Self {
        let dataset = || {
            let own = event.references.iter().find(|reference| reference.role == Role::Output);
            own.map(|reference| (reference.namespace.clone(), reference.name.clone()))
        };
        let job = event.job.as_ref().map(|job| (job.namespace.clone(), job.name.clone()));
        let (namespace, name) = job.or_else(dataset).unwrap_or_default();
        Self { kind: event.kind, namespace, name, id: event.run_id.clone() }
    }
}

/// Puts together what has the same key: groups in the order of their first item, items in their own.
pub fn by_run<T, K: Hash + Eq>(items: Vec<T>, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in items {
        let next = groups.len();
        let place = *places.entry(key(&item)).or_insert(next);
        match groups.get_mut(place) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// What an event's end means for those after it. An event that the backend has judged, for good or ill, stands in
/// nobody's way; one that may come again does; and what is no event's fault will not be better with the next.
pub fn after(outcome: &Outcome) -> Next {
    match outcome {
        Outcome::Accepted { .. }
        | Outcome::NoEffect(_)
        | Outcome::Partial { .. }
        | Outcome::Rejected { .. }
        | Outcome::Poison
        | Outcome::TooLarge
        | Outcome::CallerForbidden => Next::GoOn,
        Outcome::Unreachable(Unreachable::Dns | Unreachable::Connect) | Outcome::Unknown(_) | Outcome::Fault { .. } => {
            Next::EndRun
        }
        Outcome::Throttled
        | Outcome::UpstreamAuth
        | Outcome::CallerUnauthenticated
        | Outcome::Unreachable(Unreachable::Certificate)
        | Outcome::BadGateway(_)
        | Outcome::Disabled
        | Outcome::NotSent => Next::EndAll,
    }
}

/// Which of the events that did not fail were skipped, a backend does not say. Those that can make no edge come first
/// then, and were filtered (facts: backends 2.2, OpenMetadata's body).
pub fn attributed(mut outcomes: Vec<Outcome>, draws_edges: &[bool]) -> Vec<Outcome> {
    let skipped = Outcome::NoEffect(NoEffect::NoEdges);
    let places = |wanted: &dyn Fn(&Outcome, bool) -> bool| -> Vec<usize> {
        let all = outcomes.iter().zip(draws_edges).enumerate();
        all.filter(|(_, (outcome, draws))| wanted(outcome, **draws)).map(|(place, _)| place).collect()
    };
    let wrongly_taken = places(&|outcome, draws| !draws && matches!(outcome, Outcome::Accepted { .. }));
    let wrongly_skipped = places(&|outcome, draws| draws && *outcome == skipped);
    for (taken, left) in wrongly_taken.into_iter().zip(wrongly_skipped) {
        outcomes.swap(taken, left);
    }
    for (outcome, draws) in outcomes.iter_mut().zip(draws_edges) {
        if !draws && *outcome == skipped {
            *outcome = Outcome::NoEffect(NoEffect::Filtered);
        }
    }
    outcomes
}
