use std::fs;

use super::*;
use crate::config::{Address, AuditOutput, UpstreamAuth};

const KEYS: &str = "listeners, auth, policy, limits, event, rewrite, facets, upstreams, audit, health, admin, drain";

/// A complete configuration; `more` is appended.
fn complete(more: &str) -> String {
    format!(
        "listeners:\n  - address: 127.0.0.1:8080\nauth:\n  issuers:\n    - {{ issuer: https://idp/, audiences: [lineage], \
         jwks_file: keys.json }}\npolicy: {{ files: policies }}\nupstreams:\n  - {{ name: store, kind: file, path: \
         events.jsonl }}\n{more}"
    )
}

fn read_text(text: &str) -> Result<Loaded, Fault> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gate.yaml");
    fs::write(&path, text).unwrap();
    read(&path)
}

#[test]
fn a_wrong_shape_is_reported_with_its_place_and_what_is_accepted() {
    let unknown = format!("1:1: unknown key `listener`; accepted here: {KEYS}");
    let span = "2:43: `10` is no duration: a whole number with ms, s, m, h or d, such as 10s";
    let credential = "none, forward, { bearer_file: FILE } or { header: NAME, file: FILE }";
    let no_word = format!("2:34: `nope` is no credential: {credential}");
    let half = format!("2:34: these keys make no credential: {credential}");
    let list = format!("2:28: a sequence stands here; expected {credential}");
    let rows = [
        ("", "1:1: nothing stands here"),
        ("[]", "1:1: expected a mapping, `key: value`"),
        ("listener: []\n", &unknown),
        ("listeners: 5\n", "1:12: expected a list, `[item, item]` or lines of `- item`"),
        ("listeners: []\nlisteners: []\n", "2:1: the key `listeners` stands here a second time"),
        ("listeners: []\nauth: { issuers: [] }\npolicy: {}\n", "3:1: the key `upstreams` is missing"),
        ("listeners:\n  - name: a\n", "2:5: the key `address` is missing"),
        (
            "listeners:\n  - address: localhost:8443\n",
            "2:14: `localhost:8443` is no address: IP:PORT such as 0.0.0.0:8443 or [::]:8443, or unix:PATH",
        ),
        ("listeners:\n  - address: [a]\n", "2:14: expected a text"),
        ("listeners:\n  - { address: 127.0.0.1:1, body_timeout: 10 }\n", span),
        (
            "listeners:\n  - { address: 127.0.0.1:1, body_timeout: [10s] }\n",
            "2:29: a sequence stands here; expected a quantity such as 10s, 10MiB or 100/s",
        ),
        ("listeners:\n  - { address: 127.0.0.1:1, connections: -1 }\n", "2:42: expected a whole number, 0 or more"),
        ("listeners:\n  - { address: 127.0.0.1:1, connections: many }\n", "2:42: expected a whole number, 0 or more"),
        (
            "listeners:\n  - { address: 127.0.0.1:1, trusted_proxies: [10.0.0.0/33] }\n",
            "2:47: `10.0.0.0/33` is no network: CIDR form such as 10.0.0.0/8 or fd00::/8, or one address",
        ),
        (
            "listeners:\n  - { address: 127.0.0.1:1, http1: { idle: 1s } }\n",
            "2:38: unknown key `idle`; accepted here: head_bytes, head_timeout, idle_timeout",
        ),
        ("listeners:\n  - { address: 127.0.0.1:1, tls: { certificate: a } }\n", "2:36: the key `key` is missing"),
        (
            "listeners:\n  - { address: 127.0.0.1:1, dialect: marquez }\n",
            "2:38: `marquez` is not accepted here; expected one of: gravitino, openmetadata, openlineage",
        ),
        (
            "listeners:\n  - { address: 127.0.0.1:1, plaintext: allowed }\n",
            "2:40: `allowed` is not accepted here; expected one of: loopback, allow",
        ),
        (
            "listeners:\n  - address: 127.0.0.1:1\n   name: b\n",
            "3:4: while parsing a block collection, did not find expected '-' indicator",
        ),
        ("policy: { mode: of }\n", "1:17: `of` is not accepted here; expected one of: enforce, shadow, off"),
        (
            "policy: { facet_references: none }\n",
            "1:29: `none` is not accepted here; expected one of: ignore, governed, all",
        ),
        (
            "limits:\n  - { name: a, per: user, rate: 1/s }\n",
            "2:21: `user` is not accepted here; expected one of: peer, caller, metalake, namespace",
        ),
        (
            "limits:\n  - { name: a, per: peer, unit: lines, rate: 1/s }\n",
            "2:33: `lines` is not accepted here; expected one of: requests, events, bytes",
        ),
        (
            "limits:\n  - { name: a, per: peer, rate: 100 }\n",
            "2:33: `100` is no rate: an amount above 0 and a unit of time, such as 100/s, 6000/m, 100000/h or 10MiB/s",
        ),
        (
            "limits:\n  - { name: a, per: peer, rate: 1/s, burst: 1MB }\n",
            "2:45: `1MB` is no size: a whole number, alone or with B, KiB, MiB or GiB, such as 10MiB",
        ),
        ("event: { kinds: run }\n", "1:17: expected a list, `[item, item]` or lines of `- item`"),
        (
            "event: { kinds: [run, tables] }\n",
            "1:23: `tables` is not accepted here; expected one of: run, job, dataset",
        ),
        (
            "event: { event_time: utc }\n",
            "1:22: `utc` is not accepted here; expected one of: require_offset, assume_utc",
        ),
        (
            "upstreams:\n  - { name: a, kind: kafka }\n",
            "2:22: `kafka` is not accepted here; expected one of: file, openlineage, gravitino, marquez, openmetadata, datahub, polaris",
        ),
        ("upstreams:\n  - { name: a, kind: file, auth: nope }\n", &no_word),
        ("upstreams:\n  - { name: a, kind: file, auth: { header: X-Key } }\n", &half),
        ("upstreams:\n  - { name: a, kind: file, auth: [] }\n", &list),
        (
            "upstreams:\n  - { name: a, kind: file, auth: { token: f } }\n",
            "2:36: unknown key `token`; accepted here: bearer_file, header, file",
        ),
        ("upstreams:\n  - { name: a, kind: file, identity_headers: maybe }\n", "2:46: expected true or false"),
        ("upstreams:\n  - { name: a, kind: file\n", "2:5: unclosed bracket '{'"),
        ("audit: { output: }\n", "1:16: expected a text, and nothing stands here"),
        ("drain: *later\n", "1:8: reference to unknown value"),
        (
            "admin:\n  address: 'unix:'\n",
            "2:12: `unix:` is no address: IP:PORT such as 0.0.0.0:8443 or [::]:8443, or unix:PATH",
        ),
    ];
    for (text, expected) in rows {
        let found: Result<Config, Fault> = yaml::from_text(Path::new("gate.yaml"), text);
        assert_eq!(found.unwrap_err().to_string(), format!("gate.yaml:{expected}"), "{text}");
    }
}

#[test]
fn a_second_document_is_refused() {
    let fault = read_text(&complete("---\nmore: 1\n")).unwrap_err();
    assert!(fault.message.contains("a second document begins"), "{fault}");
}

#[test]
fn a_missing_file_is_named() {
    let fault = read(Path::new("/nowhere/gate.yaml")).unwrap_err();
    assert_eq!(fault.to_string(), "/nowhere/gate.yaml: cannot be read: No such file or directory (os error 2)");
}

#[test]
fn every_relative_path_starts_at_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gate.yaml");
    let text = "\
listeners:
  - { address: 'unix:l.sock', tls: { certificate: c, key: k, client_ca: /ca } }
auth:
  issuers:
    - { issuer: a, audiences: [b], ca_file: ca, token_file: t, jwks_file: j, public_key_file: p, secret_file: s }
policy: { files: policies/ }
upstreams:
  - { name: u, kind: file, path: e, auth: { bearer_file: b }, ca_file: ca, client_certificate: { certificate: cc, key: ck } }
  - { name: v, kind: file, auth: { header: X-Key, file: h } }
audit: { output: audit.jsonl }
health: { address: 'unix:h.sock' }
admin: { address: 'unix:/run/a.sock', token_file: a }
";
    fs::write(&path, text).unwrap();
    let Loaded { config, path: found, .. } = read(&path).unwrap();
    let at = |name: &str| directory.path().join(name);
    assert_eq!(found, path);
    let listener = &config.listeners[0];
    let tls = listener.tls.as_ref().unwrap();
    assert_eq!(listener.address, Address::Unix(at("l.sock")));
    assert_eq!((&tls.certificate, &tls.key, &tls.client_ca), (&at("c"), &at("k"), &Some("/ca".into())));
    let issuer = &config.auth.issuers[0];
    let files = [&issuer.ca_file, &issuer.token_file, &issuer.jwks_file, &issuer.public_key_file, &issuer.secret_file];
    assert_eq!(files, ["ca", "t", "j", "p", "s"].map(|name| Some(at(name))).each_ref());
    assert_eq!(config.policy.files, Some(at("policies/")));
    let upstream = &config.upstreams[0];
    let client = upstream.client_certificate.as_ref().unwrap();
    assert_eq!((&upstream.path, &upstream.ca_file), (&Some(at("e")), &Some(at("ca"))));
    assert_eq!((&client.certificate, &client.key), (&at("cc"), &at("ck")));
    assert_eq!(upstream.auth, UpstreamAuth::BearerFile(at("b")));
    assert_eq!(
        config.upstreams[1].auth,
        UpstreamAuth::Header(crate::config::HeaderFile { name: "X-Key".into(), file: at("h") })
    );
    assert_eq!(config.audit.output, AuditOutput::File(at("audit.jsonl")));
    assert_eq!(config.health.address, Address::Unix(at("h.sock")));
    let admin = config.admin.unwrap();
    assert_eq!((admin.address, admin.token_file), (Address::Unix("/run/a.sock".into()), Some(at("a"))));
}

#[test]
fn words_and_defaults_are_read() {
    let text =
        complete("audit: { output: off }\nadmin: ~\nlimits: [{ name: c, per: caller, rate: 100/s, burst: 200 }]\n");
    let config = read_text(&text).unwrap().config;
    assert_eq!(config.audit.output, AuditOutput::Off);
    assert!(config.admin.is_none());
    assert_eq!(config.limits[0].burst.map(|burst| burst.0), Some(200));
    assert_eq!(config.upstreams[0].auth, UpstreamAuth::None);
    assert_eq!(config.drain.deadline.to_string(), "30s");
}

#[test]
fn the_redacted_configuration_shows_defaults_and_no_secret() {
    let text = "\
listeners: [{ address: 127.0.0.1:8080 }]
auth: { issuers: [{ issuer: a, audiences: [b], jwks: 'https://me:hunter2@idp/keys?api_key=deep' }] }
policy: { mode: off }
upstreams: [{ name: u, kind: openlineage, url: 'http://:hunter2@store:5000', auth: { header: X-Key, file: key } }]
";
    let redacted = read_text(text).unwrap().redacted;
    assert_eq!(redacted["auth"]["issuers"][0]["jwks"], "https://idp/keys");
    assert_eq!(redacted["upstreams"][0]["url"], "http://store:5000");
    assert_eq!(redacted["upstreams"][0]["auth"]["header"], "X-Key");
    assert_eq!(redacted["policy"]["mode"], "off");
    assert_eq!(redacted["listeners"][0]["address"], "127.0.0.1:8080");
    assert_eq!(redacted["listeners"][0]["http1"]["idle_timeout"], "100s");
    let shown = redacted.to_string();
    assert!(!shown.contains("hunter2") && !shown.contains("deep"), "{shown}");
}

#[test]
fn what_a_url_may_carry_besides_its_place_is_left_out() {
    let rows = [
        ("https://idp/keys", "https://idp/keys"),
        ("https://u:p@idp:8443/a@b?c#d", "https://idp:8443/a@b"),
        ("https://u:p%40q@r@idp", "https://idp"),
        ("https://idp#u:p@x/", "https://idp"),
        ("idp/keys?x", "idp/keys"),
    ];
    for (url, expected) in rows {
        assert_eq!(without_secrets(url), expected);
    }
}

#[test]
fn a_configuration_that_means_nonsense_is_not_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gate.yaml");
    fs::write(&path, complete("drain: { grace: 40s }\nevent: { max_depth: 5 }\n")).unwrap();
    let faults: Vec<String> = load(&path).unwrap_err().iter().map(Fault::to_string).collect();
    let file = path.display();
    assert_eq!(
        faults,
        [
            format!("{file}: event.max_depth: 5 is out of range; from 10 to 120"),
            format!("{file}: drain.grace: 40s leaves no time before drain.deadline (30s); make it shorter"),
        ]
    );
}
