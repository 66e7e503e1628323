use std::path::Path;

use super::*;
use crate::config::yaml;

/// What `check` says of a good configuration after its text was changed.
fn faults(from: &str, to: &str) -> Vec<String> {
    let good = "\
listeners:
  - { address: 127.0.0.1:8080 }
auth: { issuers: [{ issuer: a, audiences: [b], jwks_file: keys.json }] }
policy: { files: policies }
upstreams:
  - { name: store, kind: file, path: events.jsonl }
event: {}
drain: {}
";
    assert!(good.contains(from));
    let config: Config = yaml::from_text(Path::new("gate.yaml"), &good.replacen(from, to, 1)).unwrap();
    check(&config).iter().map(Fault::to_string).collect()
}

#[test]
fn a_good_configuration_has_no_fault() {
    assert_eq!(faults("", ""), Vec::<String>::new());
    for listener in [
        "address: '[::1]:8080'",
        "address: 'unix:/run/gate.sock'",
        "address: 0.0.0.0:8080, plaintext: allow",
        "address: 0.0.0.0:8443, tls: { certificate: c, key: k }",
        "address: 127.0.0.1:0 }\n  - { address: 127.0.0.1:0",
        "address: 127.0.0.1:1, name: a }\n  - { address: 127.0.0.2:1, name: b",
        "address: 127.0.0.1:1, trusted_proxies: [10.0.0.0/8, 192.0.2.1]",
        "address: 127.0.0.1:1, dialect: openmetadata, openmetadata: '2.1', path_prefix: /a/b-c.d",
    ] {
        assert_eq!(faults("address: 127.0.0.1:8080", listener), Vec::<String>::new(), "{listener}");
    }
    assert_eq!(faults("policy: { files: policies }", "policy: { mode: off }"), Vec::<String>::new());
    let probed = "policy: { gravitino: { url: 'http://127.0.0.1:1', refresh: 10m } }";
    assert_eq!(faults("policy: { files: policies }", probed), Vec::<String>::new(), "nothing is refreshed");
    let admin = "admin: { address: 127.0.0.1:9901, token_file: t }\ndrain: {}";
    assert_eq!(faults("drain: {}", admin), Vec::<String>::new());
    assert_eq!(faults("drain: {}", "admin: { address: 'unix:a.sock' }"), Vec::<String>::new());
}

#[test]
fn each_fault_of_meaning_is_named_with_its_key() {
    let idle = "clients keep connections up to 90s, and lose the event that they send on one that was just closed";
    let idle = format!("listeners[0].http1.idle_timeout: 94s is too short; at least 95s: {idle}");
    let socket = format!("unix:/{}", "x".repeat(107));
    let long = format!("listeners[0].address: {socket} is too long for a socket; at most 107 bytes");
    let socket = format!("address: '{socket}'");
    let at = "address: 127.0.0.1:8080";
    let rows: Vec<(&str, &str, &str)> = vec![
        (
            "listeners:\n  - { address: 127.0.0.1:8080 }",
            "listeners: []",
            "listeners: at least one is needed, such as - address: 127.0.0.1:8080",
        ),
        (
            at,
            "address: 10.0.0.1:8080",
            "listeners[0].tls: without it tokens cross the network to 10.0.0.1:8080 readable; give a certificate and key, listen on a loopback address or a Unix socket, or say `plaintext: allow`",
        ),
        (at, "address: 127.0.0.1:1, name: ''", "listeners[0].name: must not be empty"),
        (
            at,
            "address: 127.0.0.1:1, name: a }\n  - { address: 127.0.0.1:2, name: a",
            "listeners[1].name: `a` is already the name of listeners[0]",
        ),
        (
            at,
            "address: 127.0.0.1:1 }\n  - { address: 127.0.0.1:1",
            "listeners[1].address: 127.0.0.1:1 is already taken by listeners[0].address (127.0.0.1:1)",
        ),
        (
            at,
            "address: 127.0.0.1:1 }\n  - { plaintext: allow, address: 0.0.0.0:1",
            "listeners[1].address: 0.0.0.0:1 is already taken by listeners[0].address (127.0.0.1:1)",
        ),
        (
            at,
            "address: 'unix:a' }\n  - { address: 'unix:a'",
            "listeners[1].address: unix:a is already taken by listeners[0].address (unix:a)",
        ),
        (
            at,
            "address: 127.0.0.1:9902",
            "health.address: 0.0.0.0:9902 is already taken by listeners[0].address (127.0.0.1:9902)",
        ),
        (at, &socket, &long),
        (
            at,
            "address: 127.0.0.1:1, trusted_proxies: [0.0.0.0/0]",
            "listeners[0].trusted_proxies: 0.0.0.0/0 is everyone, and anyone could then choose the address that limits and audit see; name the proxies' networks",
        ),
        (
            at,
            "address: 127.0.0.1:1, path_prefix: /team/",
            "listeners[0].path_prefix: `/team/` is no path before others; write it as `/team`: no `/` at its end, no `%`, `;`, `?` or `#`",
        ),
        ("event: {}", "event: { max_batch: 0 }", "event.max_batch: must be more than 0"),
        (at, "address: 127.0.0.1:1, connections: 0", "listeners[0].connections: must be more than 0"),
        (at, "address: 127.0.0.1:1, connections_per_peer: 0", "listeners[0].connections_per_peer: must be more than 0"),
        (
            at,
            "address: 127.0.0.1:1, connections: 5, connections_per_peer: 6",
            "listeners[0].connections_per_peer: 6 is more than `connections` (5)",
        ),
        (at, "address: 127.0.0.1:1, handshake_timeout: 0s", "listeners[0].handshake_timeout: must be more than 0s"),
        (at, "address: 127.0.0.1:1, body_timeout: 0s", "listeners[0].body_timeout: must be more than 0s"),
        (at, "address: 127.0.0.1:1, http1: { idle_timeout: 94s }", &idle),
        (
            at,
            "address: 127.0.0.1:1, http1: { head_timeout: 0s }",
            "listeners[0].http1.head_timeout: must be more than 0s",
        ),
        (
            at,
            "address: 127.0.0.1:1, http1: { head_bytes: 8191 }",
            "listeners[0].http1.head_bytes: 8191 is too small; at least 8KiB",
        ),
        (at, "address: 127.0.0.1:1, http2: { streams: 0 }", "listeners[0].http2.streams: must be more than 0"),
        (
            at,
            "address: 127.0.0.1:1, http2: { header_list_bytes: 0 }",
            "listeners[0].http2.header_list_bytes: must be more than 0",
        ),
        (
            at,
            "address: 127.0.0.1:1, http2: { header_list_bytes: 4GiB }",
            "listeners[0].http2.header_list_bytes: HTTP/2 can announce less than 4GiB only",
        ),
        (
            at,
            "address: 127.0.0.1:1, http2: { ping_interval: 0s }",
            "listeners[0].http2.ping_interval: must be more than 0s",
        ),
        (
            at,
            "address: 127.0.0.1:1, http2: { ping_timeout: 0s }",
            "listeners[0].http2.ping_timeout: must be more than 0s",
        ),
        (
            at,
            "address: 127.0.0.1:1, http2: { pending_resets: 0 }",
            "listeners[0].http2.pending_resets: must be more than 0",
        ),
        (
            at,
            "address: 127.0.0.1:1, http2: { idle_timeout: 0s }",
            "listeners[0].http2.idle_timeout: must be more than 0s",
        ),
        (
            "policy: { files: policies }",
            "policy: {}",
            "policy.files: is missing; name a policy file or a directory of them, or `gravitino: { url: URL }`, or say `mode: off`",
        ),
        (
            "policy: { files: policies }",
            "policy: { mode: shadow }",
            "policy.files: is missing; name a policy file or a directory of them, or `gravitino: { url: URL }`, or say `mode: off`",
        ),
        (
            "policy: { files: policies }",
            "policy: { gravitino: { url: 'http://127.0.0.1:1', mode: snapshot, credential: { bearer_file: t }, refresh: 10m } }",
            "policy.gravitino.refresh: 600s is not shorter than policy.cache.stale_if_error (300s): each snapshot would be too old to decide by before the next is read",
        ),
        (
            "policy: { files: policies }",
            "policy: { cache: { stale_if_error: 10s }, gravitino: { url: 'http://127.0.0.1:1', mode: snapshot, credential: { bearer_file: t } } }",
            "policy.gravitino.refresh: 10s is not shorter than policy.cache.stale_if_error (10s): each snapshot would be too old to decide by before the next is read",
        ),
        ("event: {}", "event: { max_body: 0 }", "event.max_body: must be more than 0"),
        (
            "event: {}",
            "event: { memory_per_caller: 1MiB }",
            "event.memory_per_caller: 1MiB has no room for one body of event.max_body (16MiB)",
        ),
        (
            "event: {}",
            "event: { memory_per_caller: 65MiB }",
            "event.memory_per_caller: 65MiB is more than event.memory (64MiB)",
        ),
        ("event: {}", "event: { max_compressed: 0 }", "event.max_compressed: must be more than 0"),
        (
            "event: {}",
            "event: { max_compressed: 17MiB }",
            "event.max_compressed: 17MiB is more than event.max_body (16MiB)",
        ),
        ("event: {}", "event: { max_ratio: 0 }", "event.max_ratio: must be more than 0"),
        (
            "event: {}",
            "event: { memory: 15MiB }",
            "event.memory: 15MiB has no room for one body of event.max_body (16MiB)",
        ),
        ("event: {}", "event: { max_depth: 9 }", "event.max_depth: 9 is out of range; from 10 to 120"),
        ("event: {}", "event: { max_depth: 121 }", "event.max_depth: 121 is out of range; from 10 to 120"),
        ("event: {}", "event: { max_references: 0 }", "event.max_references: must be more than 0"),
        ("event: {}", "event: { kinds: [] }", "event.kinds: at least one is needed: run, job, dataset"),
        (
            "upstreams:\n  - { name: store, kind: file, path: events.jsonl }",
            "upstreams: []",
            "upstreams: expected exactly one, found 0",
        ),
        (
            "drain: {}",
            "admin: { address: 10.0.0.1:9901, token_file: t }",
            "admin.address: 10.0.0.1:9901 is no loopback address; use 127.0.0.1, [::1] or unix:PATH",
        ),
        (
            "drain: {}",
            "admin: { address: 127.0.0.1:9901 }",
            "admin.token_file: is missing; a TCP address needs it, also on loopback; or use unix:PATH",
        ),
        (
            "drain: {}",
            "admin: { address: 127.0.0.1:8080, token_file: t }",
            "admin.address: 127.0.0.1:8080 is already taken by listeners[0].address (127.0.0.1:8080)",
        ),
        (
            "drain: {}",
            "drain: { grace: 30s }",
            "drain.grace: 30s leaves no time before drain.deadline (30s); make it shorter",
        ),
    ];
    for (from, to, expected) in rows {
        assert_eq!(faults(from, to), [expected], "{to}");
    }
}

#[test]
fn a_prefix_is_written_as_requests_have_it() {
    for prefix in
        ["", "/", "team", "/team/", "//team", "/a//b", "/a/../b", "/.", "/a%20b", "/a;b", "/a?b", "/a b", "/é"]
    {
        let listener = format!("address: 127.0.0.1:1, path_prefix: '{prefix}'");
        let found = faults("address: 127.0.0.1:8080", &listener);
        assert!(found.len() == 1 && found[0].starts_with("listeners[0].path_prefix: "), "{prefix}: {found:?}");
    }
}

#[test]
fn all_faults_are_reported_together_in_the_order_of_the_file() {
    let found = faults("drain: {}", "admin: { address: 0.0.0.0:9902 }\ndrain: { grace: 1m, deadline: 0s }\n");
    let places: Vec<&str> = found.iter().filter_map(|fault| fault.split(": ").next()).collect();
    assert_eq!(places, ["admin.address", "admin.token_file", "admin.address", "drain.deadline", "drain.grace"]);
}

#[test]
fn faults_of_edits_are_named_with_their_keys() {
    let rows = [
        ("rewrite: [{ namespace: '(', to_name: x }]", "rewrite[0].namespace: "),
        ("rewrite: [{ namespace: a }]", "rewrite[0]: maps nothing; give `to_namespace` or `to_name`"),
        ("facets: { drop_over: 0B }", "facets.drop_over: must be more than 0; leave it out to drop none"),
    ];
    for (edits, expected) in rows {
        let found = faults("drain: {}", &format!("drain: {{}}\n{edits}"));
        assert!(matches!(found.as_slice(), [fault] if fault.starts_with(expected)), "{edits}: {found:?}");
    }
    let services = "path: events.jsonl, services: { a: '' } }";
    let found = faults("path: events.jsonl }", services);
    assert!(matches!(found.as_slice(), [fault] if fault.contains("empty namespace or service")), "{found:?}");
    let good = "rewrite: [{ of: dataset, namespace: 's3a://(.*)', to_namespace: 's3://$1' }]\nfacets: { drop: [a], drop_over: 256KiB }";
    assert_eq!(faults("drain: {}", &format!("drain: {{}}\n{good}")), Vec::<String>::new());
}
