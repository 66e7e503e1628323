//! Patterns of policy files: `*` stands for any run of characters, everything else for itself; the whole text must
//! match.

use std::collections::{HashMap, HashSet};

/// One pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Pattern {
    /// No `*` in it.
    Exact(Box<str>),
    /// The pieces between its `*`, at least two.
    Pieces(Box<[Box<str>]>),
}

impl Pattern {
    /// Every text is a pattern.
    pub(super) fn new(text: &str) -> Self {
        if text.contains('*') {
            Self::Pieces(text.split('*').map(Box::from).collect())
        } else {
            Self::Exact(text.into())
        }
    }

    /// Whether the whole text matches, letter case counted.
    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => **exact == *text,
            Self::Pieces(pieces) => pieces_match(pieces, text),
        }
    }
}

/// First and last piece are anchored; those between are found from left to right, the earliest place each, which leaves
/// the most room for the rest.
fn pieces_match(pieces: &[Box<str>], text: &str) -> bool {
    let [first, middle @ .., last] = pieces else { return false };
    let Some(rest) = text.strip_prefix(&**first) else { return false };
    let Some(mut rest) = rest.strip_suffix(&**last) else { return false };
    for piece in middle {
        match rest.split_once(&**piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

/// A set of patterns; those without `*` cost one look-up together.
#[derive(Debug, Clone, Default)]
pub(super) struct Patterns {
    exact: HashSet<Box<str>>,
    others: Vec<Pattern>,
}

impl Patterns {
    /// Adds a pattern.
    pub(super) fn add(&mut self, text: &str) {
        match Pattern::new(text) {
            Pattern::Exact(exact) => {
                self.exact.insert(exact);
            }
            pattern @ Pattern::Pieces(_) => self.others.push(pattern),
        }
    }

    /// Whether any of them matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.exact.contains(text) || self.others.iter().any(|pattern| pattern.matches(text))
    }
}

/// Patterns of names, each for a pattern of namespaces.
#[derive(Debug, Clone, Default)]
pub(super) struct Pairs {
    exact: HashMap<Box<str>, Patterns>,
    others: HashMap<Pattern, Patterns>,
}

impl Pairs {
    /// Adds patterns of names for a pattern of namespaces.
    pub(super) fn add(&mut self, namespace: &str, names: &[String]) {
        let patterns = match Pattern::new(namespace) {
            Pattern::Exact(exact) => self.exact.entry(exact).or_default(),
            pattern @ Pattern::Pieces(_) => self.others.entry(pattern).or_default(),
        };
        for name in names {
            patterns.add(name);
        }
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.others.is_empty()
    }

    /// Whether namespace and name match together.
    pub(super) fn matches(&self, namespace: &str, name: &str) -> bool {
        self.exact.get(namespace).is_some_and(|names| names.matches(name))
            || self.others.iter().any(|(pattern, names)| pattern.matches(namespace) && names.matches(name))
    }

    /// The namespaces without `*`, if no other is there.
    pub(super) fn exact_namespaces(&self) -> Option<impl Iterator<Item = &str>> {
        self.others.is_empty().then(|| self.exact.keys().map(|namespace| &**namespace))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_star_is_any_run_and_the_whole_text_must_match() {
        let rows = [
            ("orders", "orders", true),
            ("orders", "orders2", false),
            ("orders", "Orders", false),
            ("*", "", true),
            ("*", "anything", true),
            ("orders-*", "orders-", true),
            ("orders-*", "orders-daily", true),
            ("orders-*", "orders", false),
            ("*-daily", "orders-daily", true),
            ("*-daily", "orders-daily-2", false),
            ("shop.*.orders", "shop.public.orders", true),
            ("shop.*.orders", "shop.orders", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*b*", "abc", true),
            ("*ab*ab*", "abab", true),
            ("*ab*ab*", "aba", false),
            ("a**b", "ab", true),
            ("[a-z]+", "abc", false),
            ("s3://*/x", "s3://bucket/x", true),
            ("ö*é", "öé", true),
        ];
        for (pattern, text, expected) in rows {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    fn slow(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|at| slow(rest, &text[at..])),
            Some((c, rest)) => text.split_first().is_some_and(|(t, tail)| t == c && slow(rest, tail)),
        }
    }

    proptest! {
        #[test]
        fn patterns_match_what_the_definition_matches(pattern in "[ab*]{0,7}", text in "[ab]{0,9}") {
            let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
            prop_assert_eq!(Pattern::new(&pattern).matches(&text), slow(&p, &t));
        }
    }

    #[test]
    fn pairs_match_namespace_and_name_together() {
        let mut pairs = Pairs::default();
        pairs.add("postgres://db", &["shop.*".to_owned()]);
        pairs.add("kafka://*", &["orders".to_owned()]);
        pairs.add("kafka://*", &["clicks".to_owned()]);
        assert!(pairs.matches("postgres://db", "shop.a"));
        assert!(!pairs.matches("postgres://db", "orders"));
        assert!(pairs.matches("kafka://b", "clicks"));
        assert!(!pairs.matches("kafka:/b", "clicks"));
        assert!(pairs.exact_namespaces().is_none());
    }
}
