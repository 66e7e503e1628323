//! `lineage-gate check`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::GOOD;
use crate::support::{Double, Server, code, demo_policies, directory, gate, serving, shown, text, token};

fn make_certificate(directory: &Path) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
    fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
}

#[test]
fn a_good_configuration_is_checked_with_one_line() {
    let (_directory, path) = directory(GOOD);
    let output = gate(&["check", shown(&path)]);
    assert_eq!(text(&output.stderr), "");
    let expected = "listeners 127.0.0.1:8080; 1 issuer(s), 0 limit(s); upstream store";
    assert_eq!(text(&output.stdout), format!("ok: {}: {expected}\n", path.display()));
    assert_eq!(code(&output), Some(0));
}

#[test]
fn a_wrong_shape_ends_with_65_and_its_place() {
    let (_directory, path) = directory(&GOOD.replace("mode: off", "mode: sometimes"));
    let expected = "`sometimes` is not accepted here; expected one of: enforce, shadow, off";
    for arguments in [["check", shown(&path)].as_slice(), &["run", "--config", shown(&path)]] {
        let output = gate(arguments);
        assert_eq!(code(&output), Some(65), "{arguments:?}");
        assert_eq!(text(&output.stderr), format!("{}:4:17: {expected}\n", path.display()));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn all_faults_of_meaning_are_told_together() {
    let broken = GOOD.replace("127.0.0.1:8080", "0.0.0.0:8080").replace("path: events.jsonl", "path: missing/e.jsonl");
    let (directory, path) = directory(&format!("{broken}drain: {{ grace: 1m }}\n"));
    let output = gate(&["check", shown(&path)]);
    assert_eq!(code(&output), Some(65));
    let places: Vec<&str> = text(&output.stderr).lines().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(places, ["listeners[0].tls", "drain.grace", "upstreams[0].path"]);
    assert!(!directory.path().join("events.jsonl").exists());
}

#[test]
fn what_the_named_files_hold_is_checked_too_and_told_once() {
    let config = "\
listeners:
  - { address: 127.0.0.1:8080, tls: { certificate: tls.crt, key: other.key } }
auth:
  issuers:
    - { issuer: a, prefix: 'a:', audiences: [lineage], jwks_file: keys.json }
    - { issuer: b, prefix: 'b:', audiences: [lineage], public_key_file: missing.pem }
policy: { files: policies }
upstreams:
  - { name: backend, kind: openlineage, url: 'https://localhost:1', auth: { bearer_file: empty.token } }
admin: { address: 127.0.0.1:9901, token_file: short.token }
";
    let (directory, path) = directory(config);
    let at = |name: &str| directory.path().join(name);
    make_certificate(directory.path());
    fs::write(at("other.key"), rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    fs::write(at("keys.json"), "{}").unwrap();
    fs::write(at("empty.token"), "\n").unwrap();
    fs::write(at("short.token"), "abc").unwrap();
    fs::create_dir(at("policies")).unwrap();
    fs::write(at("policies/a.yaml"), "metalakes:\n  - name: demo\n    roles: []\n    rols: []\n").unwrap();
    let output = gate(&["check", shown(&path)]);
    assert_eq!(code(&output), Some(65));
    let here = shown(directory.path());
    let told = text(&output.stderr).replace(here, "DIR");
    let expected = [
        "DIR/gate.yaml: auth.issuers[1].public_key_file: DIR/missing.pem cannot be read: ",
        "DIR/gate.yaml: listeners[0].tls: the key in DIR/other.key is not the key of the certificate in DIR/tls.crt; ",
        "DIR/gate.yaml: auth.issuers[0].jwks_file: DIR/keys.json: is no JSON Web Key Set: ",
        "DIR/policies/a.yaml:4:5: ",
        "DIR/gate.yaml: upstreams[0]: DIR/empty.token ",
        "DIR/gate.yaml: admin: ",
    ];
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{told}");
    for (line, start) in lines.iter().zip(expected) {
        assert!(line.starts_with(start), "{line}\n{start}");
    }
    assert!(told.contains("lower_case_catalogs"), "what would be accepted: {told}");

    let output = gate(&["run", "--config", shown(&path)]);
    assert_eq!(code(&output), Some(65));
    assert!(text(&output.stderr).contains("gate.yaml: listeners[0].tls: the key in"), "{}", text(&output.stderr));
}

#[test]
fn a_fault_of_the_policy_source_is_told_once() {
    let config = GOOD.replace("mode: off", "gravitino: { url: 'http://127.0.0.1:1', concurrency: 0 }");
    let (_directory, path) = directory(&config);
    let output = gate(&["check", shown(&path)]);
    assert_eq!(code(&output), Some(65));
    let expected = format!("{}: policy.gravitino: `concurrency` must be more than 0\n", path.display());
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn a_metalake_of_two_policy_sources_is_a_fault_that_names_both() {
    let gravitino = "gravitino: { url: 'http://127.0.0.1:1', metalakes: [demo] }";
    let config = GOOD.replace("mode: off", &format!("files: {}, {gravitino}", demo_policies()));
    let (_directory, path) = directory(&config);
    let output = gate(&["check", shown(&path)]);
    assert_eq!(code(&output), Some(65), "{}", text(&output.stdout));
    let file = format!("{}/demo.yaml: metalakes[0].name: metalake `demo`", demo_policies());
    let told = text(&output.stderr);
    assert!(told.starts_with(&file) && told.contains("policy.gravitino.metalakes of the configuration"), "{told}");
    let (_directory, path) = directory(&config.replace("[demo]", "[other]"));
    assert_eq!(code(&gate(&["check", shown(&path)])), Some(0));
}

#[test]
fn online_each_other_end_is_reached_and_nothing_is_posted() {
    let issuer_dir = tempfile::tempdir().unwrap();
    token(issuer_dir.path());
    let jwks = fs::read_to_string(issuer_dir.path().join("dev/jwks.json")).unwrap();
    let (issuer, backend) = (Double::ok(&jwks), Double::ok("{}"));
    let config = |issuer: &str, upstream: &str| {
        GOOD.replace("http://127.0.0.1:1/keys", issuer)
            .replace("{ name: store, kind: file, path: events.jsonl }", &format!("{{ name: backend, {upstream} }}"))
    };
    let keys = format!("http://{}/keys", issuer.address);
    let upstream = |kind: &str| format!("kind: {kind}, url: 'http://{}'", backend.address);
    for kind in ["openlineage", "gravitino"] {
        let (_directory, path) = directory(&config(&keys, &upstream(kind)));
        let output = gate(&["check", "--online", shown(&path)]);
        assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
        let told = text(&output.stdout);
        assert!(told.contains("reached: keys of https://idp.test/\n"), "{told}");
        assert!(told.contains("reached: upstream backend: answers: 200 to a GET\n"), "{told}");
    }
    assert_eq!(issuer.requests(), ["get /keys http/1.1", "get /keys http/1.1"]);
    assert_eq!(backend.requests(), ["get /api/v1/lineage http/1.1", "get /api/version http/1.1"]);

    let closed = "http://127.0.0.1:1/keys";
    let (_directory, path) = directory(&config(closed, "kind: openlineage, url: 'http://127.0.0.1:1'"));
    let output = gate(&["check", "--online", shown(&path)]);
    assert_eq!(code(&output), Some(65));
    let told = text(&output.stderr);
    assert!(told.contains("keys of https://idp.test/: http://127.0.0.1:1/keys: "), "{told}");
    assert!(told.contains("upstream backend: no connection: "), "{told}");
    let offline = gate(&["check", shown(&path)]);
    assert_eq!(code(&offline), Some(0), "nothing is connected to without --online");
}

#[test]
fn online_a_policy_source_that_is_never_asked_is_not_asked_either() {
    let issuer_dir = tempfile::tempdir().unwrap();
    token(issuer_dir.path());
    let issuer = Double::ok(&fs::read_to_string(issuer_dir.path().join("dev/jwks.json")).unwrap());
    for (mode, expected) in [("off", 0), ("shadow", 65)] {
        let policy = format!("mode: {mode}, gravitino: {{ url: 'http://127.0.0.1:1' }}");
        let config = GOOD
            .replace("http://127.0.0.1:1/keys", &format!("http://{}/keys", issuer.address))
            .replace("mode: off", &policy);
        let (_directory, path) = directory(&config);
        let output = gate(&["check", "--online", shown(&path)]);
        let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(code(&output), Some(expected), "{told}");
        let line =
            if expected == 0 { "not asked: policy.gravitino, since policy.mode is off" } else { "policy.gravitino: " };
        assert!(told.contains(line), "{told}");
    }
}

#[test]
fn online_tls_is_spoken_and_must_hold() {
    let backend_config = serving("{ name: store, kind: file, path: events.jsonl }", "{ grace: 0s, deadline: 1s }")
        .replacen("127.0.0.1:0 }", "127.0.0.1:0, tls: { certificate: tls.crt, key: tls.key } }", 1);
    let (backend_dir, backend_path) = directory(&backend_config);
    make_certificate(backend_dir.path());
    token(backend_dir.path());
    let backend = Server::start(&backend_path);
    let issuer_dir = tempfile::tempdir().unwrap();
    token(issuer_dir.path());
    let issuer = Double::ok(&fs::read_to_string(issuer_dir.path().join("dev/jwks.json")).unwrap());
    for (ca, expected) in [("backend.crt", 0), ("other.crt", 65)] {
        let url = format!("https://localhost:{}", backend.address.port());
        let upstream = format!("{{ name: backend, kind: openlineage, url: '{url}', ca_file: {ca} }}");
        let config = GOOD
            .replace("http://127.0.0.1:1/keys", &format!("http://{}/keys", issuer.address))
            .replace("{ name: store, kind: file, path: events.jsonl }", &upstream);
        let (directory, path) = directory(&config);
        fs::copy(backend_dir.path().join("tls.crt"), directory.path().join("backend.crt")).unwrap();
        make_certificate(directory.path());
        fs::rename(directory.path().join("tls.crt"), directory.path().join("other.crt")).unwrap();
        let output = gate(&["check", "--online", shown(&path)]);
        assert_eq!(code(&output), Some(expected), "{}", text(&output.stderr));
    }
    assert_eq!(fs::read_to_string(backend_dir.path().join("events.jsonl")).unwrap(), "");
}

#[test]
fn online_a_silent_end_is_given_up() {
    let backend = Double::start(Duration::from_secs(3_600), String::new());
    let upstream = format!(
        "{{ name: backend, kind: openlineage, url: 'http://{}', timeout: 300ms, connect_timeout: 200ms }}",
        backend.address
    );
    let config = GOOD
        .replace("jwks: http://127.0.0.1:1/keys", "jwks_file: dev/jwks.json")
        .replace("{ name: store, kind: file, path: events.jsonl }", &upstream);
    let (directory, path) = directory(&config);
    token(directory.path());
    let output = gate(&["check", "--online", shown(&path)]);
    assert_eq!(code(&output), Some(65));
    assert!(text(&output.stderr).contains("upstream backend: no answer in time"), "{}", text(&output.stderr));
}
