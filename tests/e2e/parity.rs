//! `lineage-gate parity` as a process, against a double of the server.

use std::fs;
use std::process::Output;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::gravitino::{Catalog, SERVICE_TOKEN};
use crate::support::worlds::{Version, recorded};

const STRICT: &str = "metalakes: [{ name: NAME, owner: { user: nobody }, users: [nobody] }]\n";

async fn parity(folder: &tempfile::TempDir, catalog: &Catalog, metalake: &str, side: &[&str]) -> Output {
    let url = format!("http://{}", catalog.address);
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_lineage-gate"));
    command.current_dir(folder.path()).args(["parity", "--url", &url, "--metalake", metalake]);
    command.args(side).arg("questions.json").output().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn parity_is_told_and_so_is_each_difference() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let metalake = world.metalake();
    let folder = tempfile::tempdir().unwrap();
    let mut callers = Vec::new();
    for (at, caller) in world.value["callers"].as_array().unwrap().iter().enumerate() {
        let payload = json!({ "sub": caller["user"], "groups": caller["groups"] }).to_string();
        let file = format!("{at}.token");
        fs::write(folder.path().join(&file), format!("e30.{}.e30\n", URL_SAFE_NO_PAD.encode(payload))).unwrap();
        callers.push(json!({ "user": caller["user"], "groups": caller["groups"], "token_file": file }));
    }
    let created = world.value["created"].as_array().unwrap().iter();
    let objects = created.filter(|object| object[0] != "METALAKE");
    let mut targets: Vec<Value> =
        objects.map(|object| json!(format!("{} {}", object[0], object[1]).replace('"', ""))).collect();
    targets.push(json!("table lake.s1.missing"));
    targets.push(json!("table nowhere.s1.a"));
    let count = callers.len() * targets.len();
    fs::write(folder.path().join("questions.json"), json!({ "callers": callers, "targets": targets }).to_string())
        .unwrap();
    fs::write(folder.path().join("service.token"), SERVICE_TOKEN).unwrap();
    fs::write(folder.path().join("strict.yaml"), STRICT.replace("NAME", &metalake)).unwrap();
    let catalog = Catalog::start(vec![world]).await;

    let output = parity(&folder, &catalog, &metalake, &["--token-file", "service.token"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        format!("{count} the same, 0 different, 0 undecided\n"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0));

    let output = parity(&folder, &catalog, &metalake, &["--policies", "strict.yaml"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("DIFFERENT admin catalog ") && text.contains(": server Yes, gate No\n"), "{text}");
    assert_eq!(output.status.code(), Some(1));

    catalog.trouble(Some("HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n"));
    let output = parity(&folder, &catalog, &metalake, &["--policies", "strict.yaml"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with(&format!("0 the same, 0 different, {count} undecided\n")), "{text}");
    assert_eq!(output.status.code(), Some(69), "nothing was compared");
    let output = parity(&folder, &catalog, &metalake, &["--token-file", "service.token"]).await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("no snapshot: "));
    assert_eq!(output.status.code(), Some(69));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_compares_nothing_is_no_parity() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let (metalake, known) = (world.metalake(), world.caller(0).0);
    let catalog = Catalog::start(vec![world]).await;
    let folder = tempfile::tempdir().unwrap();
    let strict = STRICT.replace("NAME", &metalake);
    fs::write(folder.path().join("strict.yaml"), &strict).unwrap();
    fs::write(folder.path().join("broken.yaml"), "metalakes: 5").unwrap();
    let payload = URL_SAFE_NO_PAD.encode(json!({ "sub": known }).to_string());
    fs::write(folder.path().join("t"), format!("e30.{payload}.e30")).unwrap();
    let caller = json!([{ "user": "u", "token_file": "t" }]);
    let unread = json!([{ "user": "u", "token_file": "missing" }]);
    let table = json!(["table a.b.c"]);
    let rows = [
        (&*metalake, "strict.yaml", &json!([]), &table, "questions.json: `callers` is empty"),
        (&*metalake, "strict.yaml", &caller, &json!([]), "questions.json: `targets` is empty"),
        (&*metalake, "strict.yaml", &caller, &json!(["table"]), "questions.json: `table` is no type and name"),
        (&*metalake, "strict.yaml", &unread, &table, "questions.json: missing: "),
        (&*metalake, "broken.yaml", &caller, &table, "broken.yaml:1:12: "),
        ("other", "strict.yaml", &caller, &table, "--metalake: strict.yaml defines no metalake `other`"),
    ];
    for (metalake, policies, callers, targets, told) in rows {
        let questions = json!({ "callers": callers, "targets": targets }).to_string();
        fs::write(folder.path().join("questions.json"), questions).unwrap();
        let output = parity(&folder, &catalog, metalake, &["--policies", policies]).await;
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with(told), "{text}\n{told}");
        assert_eq!((output.status.code(), catalog.asked()), (Some(65), 0), "{told}");
    }
    let questions = json!({ "callers": caller, "targets": table }).to_string();
    fs::write(folder.path().join("questions.json"), questions).unwrap();
    let off = r#"{"code":1011,"type":"UnauthorizedException","message":"no"}"#;
    catalog.trouble(Some(&format!("HTTP/1.1 401 x\r\nContent-Length: {}\r\n\r\n{off}", off.len())));
    let output = parity(&folder, &catalog, &metalake, &["--policies", "strict.yaml"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Gravitino does not accept the caller's credential\n0 the same"), "{text}");
    assert_eq!(output.status.code(), Some(69));
}
