//! Namespace rules: their faults, and their place in [`Rules`].

use std::path::{Path, PathBuf};

use super::super::file::{Names, NamespaceRule};
use super::super::pattern::{Pairs, Patterns};
use super::super::rules::{ExactCallers, Rule, Rules};
use super::At;

pub(super) fn check(index: usize, rule: &NamespaceRule, at: &mut At<'_>) {
    let place = format!("namespaces[{index}]");
    if rule.name.trim().is_empty() {
        at.fault(|| format!("{place}.name"), "a rule needs a name");
    }
    if rule.callers.users.is_empty() && rule.callers.groups.is_empty() {
        at.fault(|| format!("{place}.callers"), "name users or groups; `users: [\"*\"]` is everybody");
    }
    if rule.jobs.is_empty() {
        at.fault(|| format!("{place}.jobs"), "name jobs; `{ namespace: \"*\", names: [\"*\"] }` is every job");
    }
    for (key, list) in [("jobs", &rule.jobs), ("inputs", &rule.inputs), ("outputs", &rule.outputs)] {
        for (entry, names) in list.iter().enumerate() {
            if names.namespace.is_empty() {
                at.fault(|| format!("{place}.{key}[{entry}].namespace"), "a namespace needs a name; `*` is any");
            }
            if names.names.is_empty() {
                at.fault(|| format!("{place}.{key}[{entry}].names"), "no name is listed; `*` is any");
            }
        }
    }
}

pub(super) fn add(rules: &mut Rules, rule: &NamespaceRule) {
    for names in rule.jobs.iter().chain(&rule.inputs).chain(&rule.outputs) {
        rules.know(&names.namespace);
    }
    let callers = &rule.callers;
    let exact = !callers.users.iter().chain(&callers.groups).any(|name| name.contains('*'));
    let compiled = Rule {
        name: rule.name.as_str().into(),
        order: 0,
        effect: rule.effect,
        users: patterns(&callers.users),
        groups: patterns(&callers.groups),
        jobs: pairs(&rule.jobs),
        inputs: pairs(&rule.inputs),
        outputs: pairs(&rule.outputs),
    };
    rules.add(compiled, exact.then_some(ExactCallers { users: &callers.users, groups: &callers.groups }));
}

/// File, place and namespace of each dataset entry that has no `*` in its namespace.
pub(super) fn dataset_namespaces(index: usize, rule: &NamespaceRule, file: &Path) -> Vec<(PathBuf, String, String)> {
    let mut found = Vec::new();
    for (key, list) in [("inputs", &rule.inputs), ("outputs", &rule.outputs)] {
        for (entry, names) in list.iter().enumerate().filter(|(_, names)| !names.namespace.contains('*')) {
            let place = format!("namespaces[{index}].{key}[{entry}].namespace");
            found.push((file.to_owned(), place, names.namespace.clone()));
        }
    }
    found
}

fn patterns(texts: &[String]) -> Patterns {
    let mut patterns = Patterns::default();
    for text in texts {
        patterns.add(text);
    }
    patterns
}

fn pairs(list: &[Names]) -> Pairs {
    let mut pairs = Pairs::default();
    for names in list {
        pairs.add(&names.namespace, &names.names);
    }
    pairs
}
