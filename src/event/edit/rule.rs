//! Rewrite rules: regular expressions that map names.

use std::sync::Arc;

use regex::Regex;

use crate::config::{Rewrite, RewriteOf};

/// One rule.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) name: Arc<str>,
    of: RewriteOf,
    namespace: Regex,
    dataset_name: Option<Regex>,
    to_namespace: Option<Box<str>>,
    to_name: Option<Box<str>>,
}

impl Rule {
    /// Reads the rule at `index` of the configuration.
    ///
    /// # Errors
    ///
    /// All faults of the rule, each with its key before it.
    pub(super) fn new(index: usize, shape: &Rewrite) -> Result<Self, Vec<String>> {
        let place = format!("rewrite[{index}]");
        let mut faults = Vec::new();
        let namespace =
            expression(&shape.namespace).map_err(|fault| faults.push(format!("{place}.namespace: {fault}")));
        let name = shape.name.as_deref().map(expression).transpose();
        let name = name.map_err(|fault| faults.push(format!("{place}.name: {fault}")));
        if shape.to_namespace.is_none() && shape.to_name.is_none() {
            faults.push(format!("{place}: maps nothing; give `to_namespace` or `to_name`"));
        }
        if shape.rule.as_deref().is_some_and(|rule| rule.is_empty() || rule.len() > 64) {
            faults.push(format!("{place}.rule: must have 1 to 64 characters"));
        }
        let (Ok(namespace), Ok(dataset_name)) = (namespace, name) else { return Err(faults) };
        let texts = [
            ("to_namespace", &shape.to_namespace, Some(&namespace)),
            ("to_name", &shape.to_name, dataset_name.as_ref()),
        ];
        for (key, text, from) in texts {
            let fault = text.as_deref().and_then(|text| unknown_group(text, from));
            faults.extend(fault.map(|fault| format!("{place}.{key}: {fault}")));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let text = |text: &Option<String>| text.as_deref().map(Box::from);
        Ok(Self {
            name: shape.rule.as_deref().unwrap_or(&place).into(),
            of: shape.of,
            namespace,
            dataset_name,
            to_namespace: text(&shape.to_namespace),
            to_name: text(&shape.to_name),
        })
    }

    /// What it makes of a dataset's or a job's name; `None` if it is not about them or leaves them as they are.
    pub(super) fn map(&self, is_job: bool, namespace: &str, name: &str) -> Option<(String, String)> {
        let is_about = match self.of {
            RewriteOf::Dataset => !is_job,
            RewriteOf::Job => is_job,
            RewriteOf::Both => true,
        };
        let in_namespace = self.namespace.captures(namespace).filter(|_| is_about)?;
        let in_name = match &self.dataset_name {
            Some(pattern) => Some(pattern.captures(name)?),
            None => None,
        };
        let expand = |text: &Option<Box<str>>, captures: Option<&regex::Captures<'_>>, unchanged: &str| {
            let Some(text) = text else { return unchanged.to_owned() };
            let mut made = String::new();
            match captures {
                Some(captures) => captures.expand(text, &mut made),
                None => made = text.replace("$$", "$"),
            }
            made
        };
        let mapped =
            (expand(&self.to_namespace, Some(&in_namespace), namespace), expand(&self.to_name, in_name.as_ref(), name));
        (mapped.0 != namespace || mapped.1 != name).then_some(mapped)
    }
}

fn expression(text: &str) -> Result<Regex, String> {
    // By itself first: `a)|(b` would be one inside the anchors.
    let own = Regex::new(text).and_then(|_| Regex::new(&format!("\\A(?:{text})\\z")));
    own.map_err(|error| error.to_string().lines().last().unwrap_or_default().trim().to_owned())
}

/// The first `$` that does not stand for a capture group of `from`.
fn unknown_group(text: &str, from: Option<&Regex>) -> Option<String> {
    let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('$') {
        if let Some(escaped) = after.strip_prefix('$') {
            rest = escaped;
            continue;
        }
        let (group, end) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => after.split_at_checked(after.find(|char| !is_word(char)).unwrap_or(after.len()))?,
        };
        let known = from.is_some_and(|from| match group.parse::<usize>() {
            Ok(number) => number < from.captures_len(),
            Err(_) => from.capture_names().flatten().any(|name| name == group),
        });
        if !known {
            return Some(format!(
                "`${group}` is no capture group; write `$$` for a dollar sign, `${{1}}` before letters"
            ));
        }
        rest = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rule(shape: Value) -> Result<Rule, Vec<String>> {
        Rule::new(3, &serde_json::from_value(shape).unwrap())
    }

    #[test]
    fn a_rule_maps_what_it_matches_whole_and_nothing_else() {
        let metalake = json!({ "namespace": "https?://[^/]+/api/metalakes/([^/]+)", "to_namespace": "$1" });
        let s3 = json!({ "of": "dataset", "namespace": "s3a://(.*)", "to_namespace": "s3://$1" });
        let move_ = json!({ "namespace": "postgres://(?<host>[^:]+):\\d+", "name": "shop\\.(.*)",
            "to_namespace": "pg-${host}", "to_name": "lake.$1" });
        let fixed = json!({ "of": "job", "namespace": "default", "to_namespace": "team$$a", "to_name": "all" });
        let either = json!({ "namespace": "a|bc", "to_namespace": "x" });
        let table = [
            (&metalake, false, ("http://host:8090/api/metalakes/demo", "a.b.c"), Some(("demo", "a.b.c"))),
            (&metalake, true, ("http://host:8090/api/metalakes/demo", "job"), Some(("demo", "job"))),
            (&metalake, false, ("http://host:8090/api/metalakes/demo/x", "a.b.c"), None),
            (&metalake, false, ("xhttp://host:8090/api/metalakes/demo", "a.b.c"), None),
            (&s3, false, ("s3a://bucket", "k"), Some(("s3://bucket", "k"))),
            (&s3, true, ("s3a://bucket", "k"), None),
            (&s3, false, ("S3a://bucket", "k"), None),
            (&move_, false, ("postgres://wh:5432", "shop.public.t"), Some(("pg-wh", "lake.public.t"))),
            (&move_, false, ("postgres://wh:5432", "other.public.t"), None),
            (&fixed, true, ("default", "any"), Some(("team$a", "all"))),
            (&fixed, false, ("default", "any"), None),
            (&either, false, ("bc", "n"), Some(("x", "n"))),
            (&either, false, ("ac", "n"), None),
            (&either, false, ("a\n", "n"), None),
        ];
        for (shape, is_job, (namespace, name), expected) in table {
            let mapped = rule(shape.clone()).unwrap().map(is_job, namespace, name);
            let expected = expected.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
            assert_eq!(mapped, expected, "{shape} {namespace} {name}");
        }
    }

    #[test]
    fn a_rule_that_changes_nothing_maps_nothing() {
        let same = rule(json!({ "namespace": "(.*)", "to_namespace": "$1" })).unwrap();
        assert_eq!(same.map(false, "a", "b"), None);
    }

    #[test]
    fn faults_of_a_rule_name_their_key() {
        let table = [
            (json!({ "namespace": "(", "to_name": "x" }), "rewrite[3].namespace: "),
            (json!({ "namespace": "a)|(b", "to_name": "x" }), "rewrite[3].namespace: "),
            (json!({ "namespace": "a", "name": "[", "to_name": "x" }), "rewrite[3].name: "),
            (json!({ "namespace": "a" }), "rewrite[3]: maps nothing"),
            (json!({ "namespace": "a", "to_namespace": "$1" }), "rewrite[3].to_namespace: `$1` is no capture group"),
            (json!({ "namespace": "(a)", "to_namespace": "$1b" }), "rewrite[3].to_namespace: `$1b` is no"),
            (json!({ "namespace": "(a)", "to_name": "$1" }), "rewrite[3].to_name: `$1` is no capture group"),
            (json!({ "namespace": "(a)", "rule": "", "to_name": "x" }), "rewrite[3].rule: must have"),
        ];
        for (shape, fault) in table {
            let faults = rule(shape.clone()).unwrap_err();
            assert!(faults.iter().any(|found| found.starts_with(fault)), "{shape}: {faults:?}");
        }
        assert!(rule(json!({ "namespace": "(a)", "to_namespace": "${1}b$$1" })).is_ok());
    }
}
