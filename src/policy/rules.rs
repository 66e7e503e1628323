//! Namespace rules: for references into namespaces that are no metalake.
//!
//! A rule is about a caller and a job. An allowing rule lets that caller's job name the datasets that it lists; a
//! denying rule takes the listed ones away, or the job itself if it lists none. Deny beats allow, no match is a deny.
//! Rules whose callers and namespaces are written without `*` are found by look-up; only the others are gone through.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Identity;
use super::file::Effect;
use super::pattern::{Pairs, Pattern, Patterns};

/// A rule that lists more job namespaces than this is found by its callers alone.
const INDEXED_NAMESPACES: usize = 8;

/// One rule.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) name: Arc<str>,
    /// Its place among all rules, set by [`Rules::add`].
    pub(super) order: u32,
    pub(super) effect: Effect,
    pub(super) users: Patterns,
    pub(super) groups: Patterns,
    pub(super) jobs: Pairs,
    pub(super) inputs: Pairs,
    pub(super) outputs: Pairs,
}

/// All rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    by_job: Index,
    by_output: Index,
    exact: HashSet<Box<str>>,
    patterns: HashSet<Pattern>,
}

/// What a caller's dataset is to the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Input,
    Output,
    /// Named by a facet: input or output.
    Either,
}

/// What the rules say.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verdict<'w> {
    Allowed(&'w Rule),
    Denied(&'w Rule),
    NoRule,
}

/// The rules about one caller and one job.
#[derive(Debug, Default)]
pub(super) struct Applicable<'w> {
    allow: Vec<&'w Rule>,
    deny: Vec<&'w Rule>,
}

/// Callers written without `*`, for a rule that the index can find by them.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExactCallers<'p> {
    pub(super) users: &'p [String],
    pub(super) groups: &'p [String],
}

impl Rules {
    /// Adds a rule; `callers` if no caller of it has a `*`.
    pub(super) fn add(&mut self, mut rule: Rule, callers: Option<ExactCallers<'_>>) {
        let Ok(id) = u32::try_from(self.rules.len()) else { return };
        rule.order = id;
        self.by_job.add(id, callers, &rule.jobs);
        self.by_output.add(id, callers, &rule.outputs);
        self.rules.push(rule);
    }

    /// Notes a namespace pattern of a rule as known. A lone `*` names no namespace.
    pub(super) fn know(&mut self, namespace: &str) {
        if namespace == "*" {
            return;
        }
        match Pattern::new(namespace) {
            Pattern::Exact(exact) => {
                self.exact.insert(exact);
            }
            pattern @ Pattern::Pieces(_) => {
                self.patterns.insert(pattern);
            }
        }
    }

    /// Whether any rule names the namespace, as one of jobs or of datasets.
    pub(super) fn knows(&self, namespace: &str) -> bool {
        self.exact.contains(namespace) || self.patterns.iter().any(|pattern| pattern.matches(namespace))
    }

    /// The rules about that caller and job.
    pub(super) fn about(&self, who: &Identity<'_>, namespace: &str, name: &str) -> Applicable<'_> {
        let mut found = Applicable::default();
        self.by_job.each(who, namespace, |id| {
            if let Some(rule) = self.rules.get(id as usize)
                && rule.jobs.matches(namespace, name)
                && rule.calls(who)
            {
                found.add(rule);
            }
        });
        found.ordered()
    }

    /// The rules about that caller and a dataset that no job names: those of all its jobs.
    pub(super) fn about_dataset(&self, who: &Identity<'_>, namespace: &str) -> Applicable<'_> {
        let mut found = Applicable::default();
        self.by_output.each(who, namespace, |id| {
            if let Some(rule) = self.rules.get(id as usize)
                && rule.calls(who)
            {
                found.add(rule);
            }
        });
        found.ordered()
    }

    /// Rules in all.
    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }
}

impl Rule {
    fn calls(&self, who: &Identity<'_>) -> bool {
        self.users.matches(who.subject) || who.groups.iter().any(|group| self.groups.matches(group))
    }

    fn lists(&self, to: Use, namespace: &str, name: &str) -> bool {
        match to {
            Use::Input => self.inputs.matches(namespace, name),
            Use::Output => self.outputs.matches(namespace, name),
            Use::Either => self.inputs.matches(namespace, name) || self.outputs.matches(namespace, name),
        }
    }

    fn lists_nothing(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty()
    }
}

impl<'w> Applicable<'w> {
    /// What they say of the job itself.
    pub(super) fn job(&self) -> Verdict<'w> {
        if let Some(rule) = self.deny.iter().find(|rule| rule.lists_nothing()) {
            return Verdict::Denied(rule);
        }
        self.allow.first().map_or(Verdict::NoRule, |rule| Verdict::Allowed(rule))
    }

    /// What they say of a dataset.
    pub(super) fn dataset(&self, to: Use, namespace: &str, name: &str) -> Verdict<'w> {
        if to != Use::Either {
            return self.dataset_as(to, namespace, name);
        }
        match self.dataset_as(Use::Input, namespace, name) {
            allowed @ Verdict::Allowed(_) => allowed,
            no @ (Verdict::Denied(_) | Verdict::NoRule) => match self.dataset_as(Use::Output, namespace, name) {
                Verdict::NoRule => no,
                decided @ (Verdict::Allowed(_) | Verdict::Denied(_)) => decided,
            },
        }
    }

    fn dataset_as(&self, to: Use, namespace: &str, name: &str) -> Verdict<'w> {
        let lists = |rule: &&&'w Rule| rule.lists(to, namespace, name);
        if let Some(rule) = self.deny.iter().find(lists) {
            return Verdict::Denied(rule);
        }
        self.allow.iter().find(lists).map_or(Verdict::NoRule, |rule| Verdict::Allowed(rule))
    }

    /// In the order of the policy, so that the same rule is named every time.
    fn ordered(mut self) -> Self {
        self.allow.sort_unstable_by_key(|rule| rule.order);
        self.deny.sort_unstable_by_key(|rule| rule.order);
        self
    }

    fn add(&mut self, rule: &'w Rule) {
        match rule.effect {
            Effect::Allow => self.allow.push(rule),
            Effect::Deny => self.deny.push(rule),
        }
    }
}

/// Rules by caller and namespace.
#[derive(Debug, Clone, Default)]
struct Index {
    users: HashMap<Box<str>, ByNamespace>,
    groups: HashMap<Box<str>, ByNamespace>,
    anybody: ByNamespace,
}

#[derive(Debug, Clone, Default)]
struct ByNamespace {
    exact: HashMap<Box<str>, Vec<u32>>,
    others: Vec<u32>,
}

impl Index {
    fn add(&mut self, id: u32, callers: Option<ExactCallers<'_>>, pairs: &Pairs) {
        let Some(callers) = callers else { return self.anybody.add(id, pairs) };
        for user in callers.users {
            self.users.entry(user.as_str().into()).or_default().add(id, pairs);
        }
        for group in callers.groups {
            self.groups.entry(group.as_str().into()).or_default().add(id, pairs);
        }
    }

    /// Calls back with each rule that may be meant; one that is found by user and by group comes twice.
    fn each(&self, who: &Identity<'_>, namespace: &str, mut found: impl FnMut(u32)) {
        let groups = who.groups.iter().filter_map(|group| self.groups.get(&**group));
        for rules in self.users.get(who.subject).into_iter().chain(groups).chain(Some(&self.anybody)) {
            for id in rules.exact.get(namespace).into_iter().flatten().chain(&rules.others) {
                found(*id);
            }
        }
    }
}

impl ByNamespace {
    fn add(&mut self, id: u32, pairs: &Pairs) {
        match pairs.exact_namespaces().filter(|names| names.size_hint().0 <= INDEXED_NAMESPACES) {
            Some(names) => {
                for namespace in names {
                    self.exact.entry(namespace.into()).or_default().push(id);
                }
            }
            None => self.others.push(id),
        }
    }
}
