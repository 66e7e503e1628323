use std::collections::HashMap;
use std::io::Read as _;

use bytes::Bytes;
use flate2::read::GzDecoder;
use serde_json::Value;

use super::*;

const PAGE: &str = "<html><head><title>Error</title></head></html>";
const JETTY: &str = r#"{"servlet":"jersey-1","message":"Too Many Requests","url":"/api/lineage","status":"429"}"#;
const ASKED: Asked<'static> = Asked { metalake: "demo", kind: ObjectType::Table, name: "nope.raw.landing" };

/// What a row of the table is read as, troubles without their words.
#[derive(Debug, PartialEq, Eq)]
enum Row {
    Passed,
    Refused,
    MissingCatalog,
    Unauthenticated,
    AuthorizationOff,
    Unavailable,
    Undecided,
    Rejected,
}

fn row(reading: &Reading) -> Row {
    match reading {
        Reading::Passed => Row::Passed,
        Reading::Refused => Row::Refused,
        Reading::MissingCatalog => Row::MissingCatalog,
        Reading::Unauthenticated => Row::Unauthenticated,
        Reading::AuthorizationOff => Row::AuthorizationOff,
        Reading::Trouble(Trouble::Unavailable(_)) => Row::Unavailable,
        Reading::Trouble(Trouble::Undecided(_)) => Row::Undecided,
        Reading::Trouble(Trouble::Rejected(_)) => Row::Rejected,
        Reading::Trouble(Trouble::CallerUnauthenticated) => panic!("a 401 is read as such"),
    }
}

fn read(status: u16, body: &str, complete: bool) -> Read {
    Read { status, body: Bytes::copy_from_slice(body.as_bytes()), complete }
}

fn wrong_kind(name: &str, word: &str, thrown: &str) -> String {
    let reason = format!("Catalog does not support {word} operations");
    format!(
        r#"{{"code":1002,"type":"RuntimeException","message":"Failed to operate object [metadata object {name}] operation [GET] under [demo], reason [{reason}]","stack":["{thrown}{reason}"]}}"#
    )
}

fn missing_catalog(catalog: &str) -> String {
    format!(
        r#"{{"code":1002,"type":"RuntimeException","message":"Authorization failed due to system internal error. Please contact administrator.","stack":["java.lang.RuntimeException: ognl.MethodFailedException: Method \"isOwner\" failed [org.apache.gravitino.exceptions.NoSuchCatalogException: Catalog demo.{catalog} does not exist]"]}}"#
    )
}

#[test]
fn every_row_of_the_table_of_answers() {
    let unsupported = "java.lang.UnsupportedOperationException: ";
    let rows: Vec<(u16, String, Row)> = vec![
        (200, r#"{"code":0,"owner":{"name":"u","type":"user"}}"#.into(), Row::Passed),
        (200, r#"{"code":0}"#.into(), Row::Passed),
        (200, String::new(), Row::Unavailable),
        (200, PAGE.into(), Row::Unavailable),
        (200, "{}".into(), Row::Unavailable),
        (200, "[]".into(), Row::Unavailable),
        (200, r#"{"code":1008}"#.into(), Row::Unavailable),
        (201, r#"{"code":0}"#.into(), Row::Unavailable),
        (204, String::new(), Row::Unavailable),
        (404, r#"{"code":1003,"type":"NoSuchMetadataObjectException","message":"m"}"#.into(), Row::Passed),
        (404, r#"{"code":1003,"type":"NoSuchCatalogException","message":"m"}"#.into(), Row::Passed),
        (404, r#"{"code":1003,"type":"NoSuchMetalakeException","message":"m"}"#.into(), Row::Rejected),
        (404, r#"{"code":1008,"type":"ForbiddenException","message":"m"}"#.into(), Row::Rejected),
        (404, PAGE.into(), Row::Unavailable),
        (404, String::new(), Row::Unavailable),
        (404, JETTY.into(), Row::Unavailable),
        (409, r#"{"code":1009,"type":"CatalogNotInUseException","message":"m"}"#.into(), Row::Passed),
        (409, r#"{"code":1004,"type":"X","message":"m"}"#.into(), Row::Rejected),
        (409, r#"{"code":1003,"type":"X","message":"m"}"#.into(), Row::Rejected),
        (409, String::new(), Row::Unavailable),
        (403, r#"{"code":1008,"type":"ForbiddenException","message":"m"}"#.into(), Row::Refused),
        (403, PAGE.into(), Row::Unavailable),
        (403, String::new(), Row::Unavailable),
        (403, JETTY.into(), Row::Unavailable),
        (403, r#"{"code":1001,"type":"X","message":"m"}"#.into(), Row::Rejected),
        (403, r#"{"code":403,"kind":"Status","message":"m"}"#.into(), Row::Unavailable),
        (401, r#"{"code":1011,"type":"UnauthorizedException","message":"m"}"#.into(), Row::Unauthenticated),
        (401, r#"{"code":1008,"type":"X","message":"m"}"#.into(), Row::Rejected),
        (401, r#"{"code":401,"message":"m"}"#.into(), Row::Unavailable),
        (401, PAGE.into(), Row::Unavailable),
        (401, String::new(), Row::Unavailable),
        (405, r#"{"code":1006,"type":"UnsupportedOperationException","message":"m"}"#.into(), Row::AuthorizationOff),
        (405, r#"{"code":1001,"type":"X","message":"m"}"#.into(), Row::Rejected),
        (405, PAGE.into(), Row::Unavailable),
        (400, r#"{"code":1001,"type":"IllegalMetadataObjectException","message":"m"}"#.into(), Row::Rejected),
        (400, PAGE.into(), Row::Unavailable),
        (406, JETTY.into(), Row::Unavailable),
        (406, String::new(), Row::Unavailable),
        (422, r#"{"code":1001,"type":"X","message":"m"}"#.into(), Row::Rejected),
        (429, r#"{"code":1001,"type":"X","message":"m"}"#.into(), Row::Unavailable),
        (429, JETTY.into(), Row::Unavailable),
        (429, PAGE.into(), Row::Unavailable),
        (302, String::new(), Row::Unavailable),
        (307, r#"{"code":0}"#.into(), Row::Unavailable),
        (500, wrong_kind("nope.raw.landing", "table", unsupported), Row::Passed),
        (500, wrong_kind("nope.raw.landing", "topic", unsupported), Row::Undecided),
        (500, wrong_kind("other.raw.landing", "table", unsupported), Row::Undecided),
        (500, wrong_kind("nope.raw.landing", "table", "java.lang.RuntimeException: "), Row::Undecided),
        (500, missing_catalog("nope"), Row::MissingCatalog),
        (500, missing_catalog("nop"), Row::Undecided),
        (500, missing_catalog("nope").replace("Authorization failed", "Something else"), Row::Undecided),
        (500, r#"{"code":1002,"type":"RuntimeException","message":"m"}"#.into(), Row::Undecided),
        (500, PAGE.into(), Row::Unavailable),
        (500, String::new(), Row::Unavailable),
        (502, r#"{"code":1007,"type":"ConnectionFailedException","message":"m"}"#.into(), Row::Undecided),
        (502, PAGE.into(), Row::Unavailable),
        (503, String::new(), Row::Unavailable),
        (504, PAGE.into(), Row::Unavailable),
    ];
    for (status, body, expected) in rows {
        assert_eq!(row(&read_owner(&read(status, &body, true), &ASKED)), expected, "{status} {body}");
        let half = read_owner(&read(status, &body, false), &ASKED);
        assert_eq!(row(&half), Row::Unavailable, "half of {status} {body}");
    }
}

#[test]
fn a_name_that_quotes_the_servers_words_decides_nothing() {
    let name = "nope.s.x], reason [Catalog does not support table operations]";
    let asked = Asked { metalake: "demo", kind: ObjectType::Table, name };
    let message =
        format!("Failed to operate object [metadata object {name}] operation [GET] under [demo], reason [boom]");
    let body = serde_json::json!({ "code": 1002, "message": message, "stack": ["java.lang.RuntimeException: boom"] });
    assert_eq!(row(&read_owner(&read(500, &body.to_string(), true), &asked)), Row::Undecided);
}

#[test]
fn a_trouble_names_its_reason_and_no_control_characters() {
    let body = serde_json::json!({ "code": 1002, "message": format!("a\nb{}", "x".repeat(500)) }).to_string();
    let Trouble::Undecided(text) = trouble(&read(500, &body, true)) else { panic!("undecided") };
    assert!(text.starts_with("answered 500, code 1002: abxxx") && text.len() < 220, "{text}");
    for (status, words) in [(302, "redirect"), (406, "Accept"), (429, "too many"), (503, "empty body")] {
        assert!(trouble(&read(status, "", true)).to_string().contains(words), "{status}");
    }
}

/// The recorded questions, one a line.
fn recorded() -> Vec<Value> {
    let mut text = String::new();
    let packed: &[u8] = include_bytes!("../../../../tests/data/gravitino-golden.jsonl.gz");
    GzDecoder::new(packed).read_to_string(&mut text).expect("gzip of text");
    text.lines().map(|line| serde_json::from_str(line).expect("a vector")).collect()
}

/// Metalake, type and full name out of an owners path.
fn asked_of(path: &str) -> Option<(String, ObjectType, String)> {
    let rest = path.strip_prefix("/api/metalakes/")?;
    let (metalake, rest) = rest.split_once("/owners/")?;
    let (kind, name) = rest.split_once('/')?;
    let name = name.replace("%20", " ").replace("%2A", "*");
    (!name.contains('%')).then_some((metalake.to_owned(), ObjectType::parse(kind)?, name))
}

fn reading_of(vector: &Value) -> Option<Reading> {
    let (metalake, kind, name) = asked_of(vector["path"].as_str()?)?;
    let body = match vector["text"].as_str() {
        Some(text) => text.to_owned(),
        None => vector["body"].to_string(),
    };
    let status = u16::try_from(vector["status"].as_u64()?).ok()?;
    Some(read_owner(&read(status, &body, true), &Asked { metalake: &metalake, kind, name: &name }))
}

#[test]
fn every_recorded_owner_answer_is_read_as_real_servers_meant_it() {
    let mut counts = HashMap::new();
    for vector in recorded().iter().filter(|vector| vector["server"] != "lineage") {
        let Some(reading) = reading_of(vector) else { continue };
        let body = &vector["body"];
        let stack = body["stack"][0].as_str().unwrap_or_default();
        let expected = match vector["status"].as_u64() {
            Some(200 | 404) => Row::Passed,
            Some(403) => Row::Refused,
            Some(401) => Row::Unauthenticated,
            Some(405) => Row::AuthorizationOff,
            Some(500) if stack.starts_with("java.lang.UnsupportedOperationException: Catalog") => Row::Passed,
            Some(500) if stack.contains("NoSuchCatalogException") => Row::MissingCatalog,
            Some(400) => Row::Rejected,
            Some(500) => Row::Undecided,
            other => panic!("{other:?}"),
        };
        assert_eq!(row(&reading), expected, "{} {}", vector["server"], vector["id"]);
        *counts.entry(format!("{expected:?}")).or_insert(0) += 1;
    }
    assert_eq!(counts.get("MissingCatalog"), Some(&30), "{counts:?}");
    assert!(counts.values().sum::<i32>() > 900, "{counts:?}");
}

#[test]
fn the_lineage_decision_is_the_owner_questions_answer_in_272_of_272_cases() {
    let vectors = recorded();
    let key = |vector: &Value| (vector["user"].to_string(), vector["path"].to_string());
    let main: HashMap<_, _> = vectors
        .iter()
        .filter(|vector| vector["server"] == "main" && vector["roles"].is_null())
        .map(|vector| (key(vector), vector))
        .collect();
    let mut count = 0;
    for lineage in vectors.iter().filter(|vector| vector["server"] == "lineage") {
        let owner = main.get(&key(lineage)).unwrap_or_else(|| panic!("no question for {}", lineage["id"]));
        let allowed = match reading_of(owner) {
            Some(Reading::Passed) => 201,
            Some(Reading::Refused) => 403,
            other => panic!("{} {other:?}", lineage["id"]),
        };
        assert_eq!(lineage["status"], allowed, "{}", lineage["id"]);
        count += 1;
    }
    assert_eq!(count, 272);
}
