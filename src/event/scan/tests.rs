use proptest::prelude::*;
use serde_json::{Value, json};

use super::testing::{any_name, any_value, plain_search};
use super::*;
use crate::event::{DatasetType, Reference, Role};

fn found(body: &str) -> Document {
    scan(body.as_bytes(), 100, 1_000).unwrap_or_else(|error| panic!("{body}: {error}"))
}

fn fault(body: &[u8]) -> Option<Fault> {
    walk(body, 100, 1_000).err().map(|refused| refused.fault)
}

fn message(body: &[u8]) -> String {
    scan(body, 5, 3).unwrap_err().to_string()
}

fn shape(path: &str, wanted: Shape) -> Option<Fault> {
    Some(Fault::Shape { path: path.to_owned(), wanted })
}

#[test]
fn what_two_readers_could_read_differently_is_refused() {
    let table: &[(&[u8], Fault)] = &[
        (b"", Fault::NoEvent),
        (b" \n", Fault::NoEvent),
        (b"null", Fault::NoEvent),
        (b"\xef\xbb\xbf{}", Fault::ByteOrderMark),
        (b"{\0}\0", Fault::Syntax),
        (b"{\"a\":1}{}", Fault::Syntax),
        (b"{\"a\":1} x", Fault::Syntax),
        (b"{} \0", Fault::Syntax),
        (b"{\"a\":NaN}", Fault::Syntax),
        (b"{\"a\":Infinity}", Fault::Syntax),
        (b"{\"a\":01}", Fault::Syntax),
        (b"{\"a\":1e999}", Fault::Syntax),
        (b"{\"a\":1,}", Fault::Syntax),
        (b"{'a':1}", Fault::Syntax),
        (b"{a:1}", Fault::Syntax),
        (b"{/*c*/}", Fault::Syntax),
        (b"{\"a\":\"\n\"}", Fault::Syntax),
        (b"{\"a\":\"\xff\"}", Fault::Syntax),
        (b"{\"a\xc0\xaf\":1}", Fault::Syntax),
        (b"{\"a\":\"\\ud800\"}", Fault::Syntax),
        (b"{\"a\":\"\\udc00\\ud800\"}", Fault::Syntax),
        (b"{\"a\":\"\\x\"}", Fault::Syntax),
        (b"{\"a\":[1,2", Fault::Truncated),
        (b"{\"a\":\"b", Fault::Truncated),
        (b"{", Fault::Truncated),
        (b"{\"a\":\"x\\u0000y\"}", Fault::Nul),
        (b"{\"a\":{\"\\u0000\":1}}", Fault::Nul),
        (b"{\"a\":1,\"a\":1}", Fault::DuplicateKey),
        (b"{\"a\":[{\"b\":{\"c\":1,\"d\":2,\"c\":3}}]}", Fault::DuplicateKey),
        (b"{\"inputs\":[],\"\\u0069nputs\":[]}", Fault::DuplicateKey),
        (b"{\"schemaURL\":\"a\",\"schema\\u0055RL\":\"b\"}", Fault::DuplicateKey),
    ];
    for (body, expected) in table {
        assert_eq!(fault(body).as_ref(), Some(expected), "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn variants_of_judged_keys_are_refused_where_they_would_be_judged() {
    let table = [
        (r#"{"Outputs":[]}"#, "outputs"),
        (r#"{"outputs":[],"Outputs":[]}"#, "outputs"),
        (r#"{"output\u017f":[]}"#, "outputs"),
        (r#"{"\u0131nputs":[]}"#, "inputs"),
        (r#"{"eventtype":"START"}"#, "eventType"),
        (r#"{"schemaUrl":"x"}"#, "schemaURL"),
        (r#"{"Dataset":{}}"#, "dataset"),
        (r#"{"job":{"Namespace":"x"}}"#, "namespace"),
        (r#"{"job":{"Facets":{}}}"#, "facets"),
        (r#"{"run":{"runid":"x"}}"#, "runId"),
        (r#"{"inputs":[{"NAME":"x"}]}"#, "name"),
        (r#"{"inputs":[{"facets":{"Symlinks":{}}}]}"#, "symlinks"),
        (r#"{"inputs":[{"facets":{"symlin\u212as":{}}}]}"#, "symlinks"),
        (r#"{"inputs":[{"facets":{"symlinks":{"Identifiers":[]}}}]}"#, "identifiers"),
        (r#"{"inputs":[{"facets":{"symlinks":{"identifiers":[{"Name":"x"}]}}}]}"#, "name"),
        (r#"{"inputs":[{"facets":{"datasettype":{}}}]}"#, "datasetType"),
        (r#"{"outputs":[{"facets":{"columnLineage":{"Fields":{}}}}]}"#, "fields"),
        (r#"{"outputs":[{"facets":{"columnLineage":{"fields":{"c":{"inputfields":[]}}}}}]}"#, "inputFields"),
        (r#"{"outputs":[{"facets":{"lineage":{"Inputs":[]}}}]}"#, "inputs"),
        (r#"{"job":{"facets":{"lineage":{"Entries":[]}}}}"#, "entries"),
        (r#"{"run":{"facets":{"Parent":{}}}}"#, "parent"),
        (r#"{"run":{"facets":{"parent":{"Root":{}}}}}"#, "root"),
        (r#"{"job":{"facets":{"sql":{"_Deleted":true}}}}"#, "_deleted"),
        (r#"{"run":{"facets":{"mine":{"namespace":"a","name":"b","Name":"c"}}}}"#, "name"),
        (r#"{"run":{"facets":{"mine":[{"NAMESPACE":"c","namespace":"a","name":"b"}]}}}"#, "namespace"),
    ];
    for (body, name) in table {
        assert_eq!(fault(body.as_bytes()), Some(Fault::Variant(name)), "{body}");
    }
}

#[test]
fn users_may_name_things_as_they_like_where_nothing_is_judged() {
    let table = [
        r#"{"run":{"facets":{"environment-properties":{"Name":"x","name":"y","Inputs":1,"inputs":2}}}}"#,
        r#"{"run":{"facets":{"mine":{"Namespace":"a","Name":"b"}}}}"#,
        r#"{"run":{"facets":{"mine":{"namespace":5,"name":"b","Name":"c"}}}}"#,
        r#"{"outputs":[{"namespace":"a","name":"b","facets":{"columnLineage":{"fields":{"Name":{},"name":{}}}}}]}"#,
        r#"{"job":{"namespace":"a","name":"b","facets":{"sql":{"query":"select \"Outputs\" from x"}}}}"#,
        r#"{"inputs":[{"namespace":"a","name":"b","inputFacets":{"Facets":{},"facets":{}}}]}"#,
        r#"{"größe":1,"GRÖSSE":2,"straße":3}"#,
    ];
    for body in table {
        assert_eq!(fault(body.as_bytes()), None, "{body}");
    }
}

#[test]
fn judged_members_must_have_their_shape() {
    let table = [
        ("[]", shape("the event", Shape::Object)),
        ("5", shape("the event", Shape::Object)),
        ("\"text\"", shape("the event", Shape::Object)),
        ("true", shape("the event", Shape::Object)),
        (r#"{"inputs":{}}"#, shape("inputs", Shape::List)),
        (r#"{"outputs":"x"}"#, shape("outputs", Shape::List)),
        (r#"{"inputs":["x"]}"#, shape("inputs[0]", Shape::Object)),
        (r#"{"inputs":[[{}]]}"#, shape("inputs[0]", Shape::Object)),
        (r#"{"run":[]}"#, shape("run", Shape::Object)),
        (r#"{"job":"x"}"#, shape("job", Shape::Object)),
        (r#"{"dataset":1.5}"#, shape("dataset", Shape::Object)),
        (r#"{"run":{"facets":[]}}"#, shape("run.facets", Shape::Object)),
        (r#"{"run":{"runId":5}}"#, shape("run.runId", Shape::Text)),
        (r#"{"job":{"namespace":5}}"#, shape("job.namespace", Shape::Text)),
        (r#"{"inputs":[{},{"name":["x"]}]}"#, shape("inputs[1].name", Shape::Text)),
        (r#"{"eventTime":1767225600}"#, shape("eventTime", Shape::Text)),
        (r#"{"eventType":0}"#, shape("eventType", Shape::Text)),
        (r#"{"producer":false}"#, shape("producer", Shape::Text)),
        (r#"{"schemaURL":{}}"#, shape("schemaURL", Shape::Text)),
        (r#"{"inputs":[{"facets":{"datasetType":"VIEW"}}]}"#, shape("inputs[0].facets.datasetType", Shape::Object)),
        (r#"{"inputs":[{"facets":{"datasetType":[]}}]}"#, shape("inputs[0].facets.datasetType", Shape::Object)),
        (
            r#"{"inputs":[{"facets":{"symlinks":{"identifiers":[{"name":7}]}}}]}"#,
            shape("inputs[0].facets.symlinks.identifiers[0].name", Shape::Text),
        ),
    ];
    for (body, expected) in table {
        assert_eq!(fault(body.as_bytes()), expected, "{body}");
    }
    for body in [
        r#"{"inputs":null,"run":null,"job":{"namespace":null,"facets":null}}"#,
        r#"{"job":{"facets":{"lineage":"x"}}}"#,
        r#"{"run":{"facets":{"parent":[1,{}],"mine":null}}}"#,
    ] {
        assert_eq!(fault(body.as_bytes()), None, "{body}");
    }
}

#[test]
fn depth_is_bounded_also_where_the_configuration_allows_more() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    for (depth, bound, taken) in
        [(10, 10, true), (11, 10, false), (120, 1_000, true), (121, 1_000, false), (1_000_000, 1_000, false)]
    {
        let result = walk(nested(depth).as_bytes(), bound, 10);
        assert_eq!(result.err().map(|refused| refused.fault), (!taken).then_some(Fault::Depth), "{depth} of {bound}");
    }
    let closed = r#"{"a":[[[]]],"b":[[[]]],"c":{"d":{"e":{}}}}"#;
    assert!(walk(closed.as_bytes(), 4, 10).is_ok());
}

#[test]
fn references_and_deleted_facets_are_bounded_together() {
    let body = |count: usize| {
        let facets: Vec<_> = (0..count).map(|index| format!(r#""f{index}":{{"_deleted":true}}"#)).collect();
        format!(r#"{{"job":{{"namespace":"a","name":"b","facets":{{{}}}}}}}"#, facets.join(","))
    };
    let unnamed = |count: usize| body(count).replace(r#""name":"b","#, "");
    assert!(walk(unnamed(10).as_bytes(), 10, 10).is_ok());
    assert_eq!(walk(unnamed(11).as_bytes(), 10, 10).err().map(|refused| refused.fault), Some(Fault::References));
    assert!(walk(body(9).as_bytes(), 10, 10).is_ok());
    assert_eq!(walk(body(10).as_bytes(), 10, 10).err().map(|refused| refused.fault), Some(Fault::References));
}

#[test]
fn messages_say_what_and_where_and_quote_no_value() {
    let table: &[(&[u8], &str)] = &[
        (b"null", "Lineage event cannot be null"),
        (b"\xef\xbb\xbf{}", "the body begins with a byte order mark (line 1 column 1)"),
        (b"{\"a\":\n secret}", "the body is not a JSON document in UTF-8 (line 2 column 2)"),
        (b"{\"a\":\"secret", "the body ends before its JSON document does (line 1 column 12)"),
        (b"{\"secret\\u0000\":1}", "a text holds a NUL character (line 1 column 15)"),
        (b"{\"secret\":1,\n\"secret\":2}", "an object holds a key twice (line 2 column 8)"),
        (b"{\"Job\":1}", "a key differs from `job` only by letter case (line 1 column 6)"),
        (b"{\"job\":\"secret\"}", "job must be an object (line 1 column 15)"),
        (b"{\"a\":[[[[[]]]]]}", "the document is nested more than 5 deep (event.max_depth) (line 1 column 11)"),
        (
            br#"{"a":[{"namespace":"","name":""},{"namespace":"","name":""},{"namespace":"","name":""},
                {"namespace":"","name":""}]}"#,
            "the event names more than 3 datasets and jobs (event.max_references)",
        ),
    ];
    for (body, expected) in table {
        assert_eq!(message(body), *expected);
    }
}

/// One row for each place of facts/openlineage 2.3 A: role, name, path. All names differ.
#[test]
fn every_place_that_names_something_is_found_with_its_role_and_path() {
    let body = include_str!("places.json");
    let found = found(body);
    let listed: Vec<_> = found
        .references
        .iter()
        .map(|Reference { role, namespace, name, path, .. }| format!("{role:?} {namespace} {name} {path}"))
        .collect();
    let expected = [
        "FacetJob j n1 run.facets.parent.job",
        "FacetJob j n2 run.facets.parent.job.facets.lineage.entries[0].inputs[0]",
        "FacetJob j n3 run.facets.parent.root.job",
        "FacetDataset d n4 run.facets.parent.root.job.facets.lineage.entries[0]",
        "FacetJob j n5 run.facets.parent.root.run.facets.parent.job",
        "FacetJob j n6 run.facets.parent.run.facets.parent.job",
        "FacetJob j n7 run.facets.parent.run.facets.jobDependencies.upstream[0].job",
        "FacetJob j n8 run.facets.parentRun.job",
        "FacetJob j n9 run.facets.jobDependencies.upstream[0].job",
        "FacetJob j n10 run.facets.jobDependencies.downstream[1].job",
        "FacetDataset d n11 run.facets[\"my facet\"].deep[0][1].hole",
        "Job j n12 job",
        "FacetDataset d n13 job.facets.lineage.entries[0]",
        "FacetJob j n14 job.facets.lineage.entries[0].inputs[0]",
        "FacetDataset d n15 job.facets.lineage.entries[0].fields.c.inputs[0]",
        "FacetJob j n16 job.facets.lineage.entries[1]",
        "Input d n17 inputs[0]",
        "FacetDataset d n18 inputs[0].facets.symlinks.identifiers[0]",
        "FacetDataset d n19 inputs[0].facets.symlinks.identifiers[1]",
        "FacetDataset d n20 inputs[0].facets.lifecycleStateChange.previousIdentifier",
        "FacetDataset d n21 inputs[0].inputFacets.subset.inputCondition",
        "Input d n22 inputs[1]",
        "Output d n23 outputs[0]",
        "FacetDataset d n24 outputs[0].facets.columnLineage.fields.total.inputFields[0]",
        "FacetDataset d n25 outputs[0].facets.columnLineage.fields.total.inputFields[0].transformations[0]",
        "FacetDataset d n26 outputs[0].facets.columnLineage.fields[\"a.b\"].inputFields[0]",
        "FacetDataset d n27 outputs[0].facets.columnLineage.dataset[0]",
        "FacetDataset d n28 outputs[0].facets.lineage.inputs[0]",
        "FacetJob j n29 outputs[0].facets.lineage.inputs[1]",
        "FacetDataset d n30 outputs[0].facets.lineage.fields.c.inputs[0]",
        "Output d n31 dataset",
        "FacetDataset d n32 dataset.facets.symlinks.identifiers",
        "FacetDataset d n33 unknown",
    ];
    assert_eq!(listed, expected);
    let value: Value = serde_json::from_str(body).unwrap();
    assert_eq!(plain_search(&value).len(), expected.len());
}

#[test]
fn a_dataset_type_is_absent_named_or_blank() {
    let named = |name: &str| DatasetType::Named(name.to_owned());
    let table = [
        ("{}", DatasetType::Absent),
        (r#"{"facets":null}"#, DatasetType::Absent),
        (r#"{"facets":{}}"#, DatasetType::Absent),
        (r#"{"facets":{"datasetType":null}}"#, DatasetType::Absent),
        (r#"{"facets":{"datasetType":{}}}"#, DatasetType::Blank),
        (r#"{"facets":{"datasetType":{"datasetType":null}}}"#, DatasetType::Blank),
        (r#"{"facets":{"datasetType":{"datasetType":" \t"}}}"#, DatasetType::Blank),
        (r#"{"facets":{"datasetType":{"datasetType":5}}}"#, DatasetType::Blank),
        (r#"{"facets":{"datasetType":{"datasetType":true}}}"#, DatasetType::Blank),
        (r#"{"facets":{"datasetType":{"datasetType":["VIEW"]}}}"#, DatasetType::Blank),
        (r#"{"facets":{"datasetType":{"datasetType":"Fileset","subType":"x"}}}"#, named("Fileset")),
        (r#"{"facets":{"datasetType":{"datasetType":" TABLE","_deleted":true}}}"#, named(" TABLE")),
        (r#"{"facets":{"other":{"datasetType":"VIEW"}}}"#, DatasetType::Absent),
    ];
    for (dataset, expected) in table {
        let named = dataset.replacen('{', r#"{"namespace":"a","name":"b","#, 1).replace(",}", "}");
        for (place, path) in [("inputs", "inputs[1]"), ("outputs", "outputs[1]")] {
            let before = r#"{"namespace":"a","name":"z","facets":{"datasetType":{"datasetType":"TOPIC"}}}"#;
            let document = found(&format!(r#"{{"{place}":[{before},{named}]}}"#));
            let reference = document.references.iter().find(|reference| reference.path == path).unwrap();
            assert_eq!(reference.dataset_type, expected, "{place} {dataset}");
        }
        let document = found(&format!(r#"{{"dataset":{named}}}"#));
        assert_eq!(document.references[0].dataset_type, expected, "{dataset}");
    }
}

#[test]
fn deleting_facets_are_listed() {
    let document = found(
        r#"{"run":{"facets":{"a":{"_deleted":true}}},
            "job":{"facets":{"sql":{"_deleted":true,"query":"x"},"b":{"_deleted":false},"c":{"_deleted":null}}},
            "outputs":[{"facets":{"symlinks":{"_deleted":"true"},"d":{"e":{"_deleted":true}}}}]}"#,
    );
    assert_eq!(document.deleted_facets, ["run.facets.a", "job.facets.sql", "outputs[0].facets.symlinks"]);
}

#[test]
fn what_is_missing_in_lists_is_noted() {
    let document = found(
        r#"{"inputs":[null,{"namespace":" ","name":"x"},{"namespace":"x","name":null}],"outputs":[{}],
            "job":{"facets":{"lineage":{"entries":[{"type":"JOB","name":"x"},{"type":"JOB","inputs":[null]}]}}}}"#,
    );
    assert_eq!(
        document.input_gaps.to_string(),
        "inputs[0] cannot be null; inputs[1].namespace is required; inputs[2].name is required"
    );
    assert_eq!(document.output_gaps.to_string(), "outputs[0].namespace is required; outputs[0].name is required");
    assert_eq!(document.facet_gaps.to_string(), "job.facets.lineage.entries[0].namespace is required");
}

#[test]
fn what_names_something_in_an_odd_place_is_a_reference_too() {
    let document = found(
        r#"{"namespace":"d","name":"n1",
            "run":{"namespace":"d","name":"n2","facets":{"namespace":"d","name":"n3",
                "parent":{"namespace":"d","name":"n4","root":{"namespace":"d","name":"n5"}},
                "jobDependencies":[{"upstream":{"namespace":"d","name":"n6"}}]}},
            "outputs":[{"facets":{"namespace":"d","name":"n7",
                "datasetType":{"namespace":"d","name":"n8"},
                "columnLineage":{"fields":{"namespace":"d","name":"n9","c":{"namespace":"d","name":"n10"}}}}}]}"#,
    );
    let names: Vec<_> = document.references.iter().map(|reference| reference.name.as_str()).collect();
    assert_eq!(names, ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10"]);
    assert!(document.references.iter().all(|reference| reference.role == Role::FacetDataset));
    assert_eq!(document.references[0].path, "$");
}

#[test]
fn half_a_name_in_a_facet_names_nothing() {
    let document = found(
        r#"{"inputs":[{"facets":{"symlinks":{"identifiers":[{"name":"x"},{"namespace":"x","name":null}]}}}],
            "run":{"facets":{"mine":{"namespace":["x"],"name":"y"}}}}"#,
    );
    assert_eq!(document.references, []);
}

#[test]
fn a_large_object_costs_no_more_than_its_bytes() {
    let members: Vec<_> = (0..100_000).map(|index| format!("\"k{index}\":[]")).collect();
    let body = format!("{{\"a\":{{{}}}}}", members.join(","));
    assert_eq!(fault(body.as_bytes()), None);
    let twice = body.replacen("\"k99999\"", "\"k\\u0030\"", 1);
    assert_eq!(fault(twice.as_bytes()), Some(Fault::DuplicateKey));
}

fn in_facet(text: &str) -> String {
    format!(r#"{{"run":{{"facets":{{"mine":{text}}}}}}}"#)
}

fn roles(document: &Document, role: Role) -> usize {
    document.references.iter().filter(|reference| reference.role == role).count()
}

proptest! {
    #[test]
    fn the_references_of_any_document_are_those_of_a_plain_search(value in any_value(), names in prop::collection::vec(any_name(), 0..4)) {
        let event = json!({
            "inputs": names,
            "job": { "namespace": "n", "name": "j", "facets": { "x": value } },
            "run": { "facets": { "symlinks": value, "parent": { "job": names.first() } } },
        });
        let document = scan(&serde_json::to_vec(&event).unwrap(), 100, 10_000);
        let document = match document {
            // A facet's `facets` must be an object wherever a job stands, and variants may have come up by chance.
            Err(Error::Malformed(_)) => return Err(TestCaseError::reject("shape")),
            document => document.unwrap(),
        };
        let mut found: Vec<_> =
            document.references.iter().map(|reference| (reference.namespace.clone(), reference.name.clone())).collect();
        found.sort();
        prop_assert_eq!(found, plain_search(&event));
        prop_assert_eq!(roles(&document, Role::Input), names.len());
        prop_assert_eq!(roles(&document, Role::Job), 1);
        prop_assert_eq!(roles(&document, Role::FacetJob), names.len().min(1));
    }

    #[test]
    fn the_scan_takes_no_text_that_serde_json_refuses_and_refuses_none_as_syntax_that_it_takes(
        value in any_value(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        kind in 0..3,
    ) {
        let mut body = in_facet(&value.to_string()).into_bytes();
        let at = at.index(body.len());
        match kind {
            0 => body[at] = byte,
            1 => body.insert(at, byte),
            _ => drop(body.remove(at)),
        }
        let known = serde_json::from_slice::<Value>(&body);
        match walk(&body, 100, 10_000) {
            Ok(_) => prop_assert!(known.is_ok()),
            Err(refused) if known.is_ok() => {
                prop_assert!(!matches!(refused.fault, Fault::Syntax | Fault::Truncated | Fault::Depth), "{refused:?}");
            }
            Err(_) => {}
        }
    }

    #[test]
    fn any_document_without_duplicates_is_taken(value in any_value()) {
        let refused = walk(in_facet(&value.to_string()).as_bytes(), 100, 10_000).err();
        // A variant of a name can come up by chance, and only next to the name itself.
        let refused = refused.filter(|refused| !matches!(refused.fault, Fault::Variant(_)));
        prop_assert!(refused.is_none(), "{refused:?}");
    }

    #[test]
    fn escapes_hide_no_duplicate(key in "[a-zA-Z\u{e9}\u{1f600}]{1,8}", escaped in prop::collection::vec(any::<bool>(), 8), lower in any::<bool>()) {
        let mut other = String::new();
        for (char, escape) in key.chars().zip(escaped) {
            let mut units = [0; 2];
            if escape {
                for unit in char.encode_utf16(&mut units) {
                    other.push_str(&if lower { format!("\\u{unit:04x}") } else { format!("\\u{unit:04X}") });
                }
            } else {
                other.push(char);
            }
        }
        let body = in_facet(&format!("[{{\"{key}\":1,\"-\":2,\"{other}\":3}}]"));
        prop_assert_eq!(fault(body.as_bytes()), Some(Fault::DuplicateKey));
    }
}
