use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::json;

use crate::config::{self, EventTime, Facets};
use crate::event::edit::{AliasKind, Edited, Plan, parse, without};
use crate::event::{Role, Rules};

fn rules() -> Rules {
    Rules::new(&config::Event::default(), EventTime::RequireOffset, false)
}

fn listed(datasets: &str) -> Edited {
    let plan = Plan::new(&[], &Facets::default(), true).unwrap();
    parse(Bytes::from(run(datasets)), &rules(), &plan).unwrap()
}

fn run(datasets: &str) -> String {
    format!(
        r#"{{"eventTime":"2026-11-29T18:47:48Z","producer":"p","schemaURL":"s",{datasets},"run":{{"runId":"01956fcb-c4f8-7234-a151-1d699950225d"}},"job":{{"namespace":"n","name":"j"}}}}"#
    )
}

fn facets(facets: &str) -> String {
    format!(r#""inputs":[{{"namespace":"own","name":"t","facets":{{{facets}}}}}]"#)
}

/// What an alias names, if anybody can say.
fn told(edited: &Edited) -> Vec<(String, Option<(String, String)>)> {
    let pair = |alias: &super::Alias| {
        alias.reference.as_ref().map(|reference| (reference.namespace.clone(), reference.name.clone()))
    };
    edited.aliases.iter().map(|alias| (alias.path.clone(), pair(alias))).collect()
}

#[test]
fn every_other_name_of_a_dataset_is_listed_in_order() {
    let edited = listed(
        r#""outputs":[{"namespace":"o","facets":{"symlinks":{"identifiers":[{"namespace":"a","name":"1","type":"TABLE"},{"name":"2","namespace":"b"}]},
        "dataSource":{"name":"src","uri":"u"}},"name":"out"}],"inputs":[{"namespace":"x","name":"y"},{"namespace":"i","name":"in","facets":{"dataSource":{"name":"i"}}}]"#,
    );
    let pair = |namespace: &str, name: &str| Some((namespace.to_owned(), name.to_owned()));
    let wanted = [
        ("outputs[0].facets.symlinks.identifiers[0]", pair("a", "1")),
        ("outputs[0].facets.symlinks.identifiers[1]", pair("b", "2")),
        ("outputs[0].facets.dataSource", pair("src", "out")),
        ("inputs[1].facets.dataSource", pair("i", "in")),
    ];
    assert_eq!(told(&edited), wanted.map(|(path, pair)| (path.to_owned(), pair)));
    let roles: Vec<_> = edited.aliases.iter().map(|alias| alias.reference.as_ref().unwrap().role).collect();
    assert_eq!(roles, [Role::Output, Role::Output, Role::Output, Role::Input]);
    let own: Vec<_> = edited.aliases.iter().map(|alias| alias.kind.clone()).skip(2).collect();
    assert_eq!(own, ["o", "i"].map(|own| AliasKind::DataSource { own: own.to_owned() }));
    assert_eq!(edited.aliases.iter().map(|alias| alias.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn an_alias_that_readers_could_read_differently_names_nothing_for_certain() {
    for (sent, count) in [
        (r#""symlinks":{"identifiers":[{"namespace":"a"},{"name":"b"},1,"x",[{"namespace":"a","name":"b"}],null]}"#, 6),
        (r#""symlinks":{"identifiers":{"namespace":"a","name":null}}"#, 1),
        (r#""symlinks":{"identifiers":"a"}"#, 1),
        (r#""dataSource":{"uri":"u"}"#, 1),
        (r#""dataSource":["x"]"#, 1),
        (r#""dataSource":{"name":"own","Name":"x"}"#, 1),
        (r#""dataSource":{"Name":"own"}"#, 1),
    ] {
        let edited = listed(&facets(sent));
        assert_eq!(edited.aliases.len(), count, "{sent}");
        assert!(edited.aliases.iter().all(|alias| alias.reference.is_none()), "{sent}");
    }
    for sent in [
        r#""symlinks":{"identifiers":null}"#,
        r#""symlinks":null,"dataSource":null"#,
        r#""symlinks":{"identifiers":[]}"#,
    ] {
        assert_eq!(listed(&facets(sent)).aliases, [], "{sent}");
    }
    assert_eq!(listed(&facets(r#""my":{"dataSource":{"name":"z"}}"#)).aliases, [], "of another facet");
    // A lenient backend takes these for what they resemble.
    let plan = Plan::new(&[], &Facets::default(), true).unwrap();
    for sent in [r#""DataSource":{"name":"x"}"#, r#""datasource":{"name":"x"}"#] {
        assert!(parse(Bytes::from(run(&facets(sent))), &rules(), &plan).is_err(), "{sent}");
    }
}

#[test]
fn aliases_are_taken_out_and_the_rest_stays() {
    let three = r#""symlinks":{"identifiers":[ {"namespace":"a","name":"1"} , {"namespace":"b","name":"2"},{"namespace":"c","name":"3"} ],"x":1}"#;
    let one = r#""symlinks":{"identifiers": {"namespace":"a","name":"1"} }"#;
    let source = r#""a":{}, "dataSource":{"name":"x"} ,"b":{}"#;
    let table: [(&str, &[usize], &str); 7] = [
        (three, &[], three),
        (
            three,
            &[0],
            r#""symlinks":{"identifiers":[ {"namespace":"b","name":"2"},{"namespace":"c","name":"3"} ],"x":1}"#,
        ),
        (
            three,
            &[1],
            r#""symlinks":{"identifiers":[ {"namespace":"a","name":"1"},{"namespace":"c","name":"3"} ],"x":1}"#,
        ),
        (three, &[2, 1], r#""symlinks":{"identifiers":[ {"namespace":"a","name":"1"} ],"x":1}"#),
        (three, &[0, 1, 2], r#""symlinks":{"identifiers":[  ],"x":1}"#),
        (one, &[0], r#""symlinks":{"identifiers": [] }"#),
        (source, &[0], r#""a":{} ,"b":{}"#),
    ];
    for (sent, numbers, kept) in table {
        let numbers: BTreeSet<usize> = numbers.iter().copied().collect();
        let edited = listed(&facets(sent));
        let event = without(edited.event, &rules(), &numbers).unwrap();
        assert_eq!(std::str::from_utf8(&event.body).unwrap(), run(&facets(kept)), "{sent} {numbers:?}");
    }
}

#[test]
fn the_numbers_of_aliases_hold_over_all_datasets() {
    let dataset = |n: &str| {
        json!({ "namespace": "own", "name": n, "facets": {
            "dataSource": { "name": format!("source-{n}") },
            "symlinks": { "identifiers": [{ "namespace": "s", "name": format!("link-{n}") }] } } })
    };
    let datasets = format!(r#""inputs":{},"outputs":{}"#, json!([dataset("a"), dataset("b")]), json!([dataset("c")]));
    let edited = listed(&datasets);
    assert_eq!(edited.aliases.len(), 6);
    for alias in &edited.aliases {
        let reference = alias.reference.clone().unwrap();
        let gone = if alias.kind == AliasKind::Symlink { &reference.name } else { &reference.namespace };
        let event = without(edited.event.clone(), &rules(), &BTreeSet::from([alias.number])).unwrap();
        let body = std::str::from_utf8(&event.body).unwrap();
        for name in ["source-a", "source-b", "source-c", "link-a", "link-b", "link-c"] {
            assert_eq!(body.contains(name), name != gone, "{name} without {gone}");
        }
    }
}
