//! Faults of meaning in an upstream's configuration: no I/O.

use std::time::Duration;

use http::HeaderName;

use crate::config::{self, UpstreamAuth, UpstreamKind};

use super::contract::Contract;
use super::endpoint::Endpoint;
use super::lookup::ResolvesBy;

/// An exchange that goes on for longer than this waits for nothing.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(300);

/// What leaves room for an answer inside 4 s (DESIGN: section 4, rule 6).
const LONGEST_ANSWER: Duration = Duration::from_millis(3_500);

/// Bounds what is kept in memory.
const LONGEST_DEDUPLICATION: Duration = Duration::from_secs(86_400);

/// Gravitino's and Marquez' web server closes idle connections after 30 s (facts: gravitino-real 7.8).
const JETTY_IDLE: Duration = Duration::from_secs(30);

/// Headers that the gate or HTTP itself sets: a credential cannot travel in them.
const TAKEN: [&str; 18] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "traceparent",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    crate::policy::ACTIVE_ROLES,
    "x-lineage-caller",
    "x-lineage-groups",
];

/// All faults of meaning, each a sentence that names the upstream and says what to write instead.
pub fn check(config: &config::Upstream) -> Vec<String> {
    let mut faults = timing(config);
    faults.extend(bounds(config));
    match Contract::of(config.kind) {
        None => faults.extend(file(config)),
        Some(contract) => faults.extend(http(contract, config)),
    }
    faults.extend(ResolvesBy::of(config.kind).check(&config.services).map(str::to_owned));
    faults.into_iter().map(|fault| format!("upstream `{}`: {fault}", config.name)).collect()
}

fn timing(config: &config::Upstream) -> Vec<String> {
    let mut faults = Vec::new();
    if config.timeout.0 > LONGEST_TIMEOUT {
        faults.push(format!("`timeout` is {}: at most 5m", config.timeout));
    }
    if config.answer_within.0 > LONGEST_ANSWER || config.answer_within.0.is_zero() {
        let answer = config.answer_within;
        faults.push(format!("`answer_within` is {answer}: above 0, at most 3500ms, since clients give up at 5s"));
    }
    if config.timeout.0.is_zero() || config.connect_timeout.0.is_zero() {
        faults.push("`timeout` and `connect_timeout` must be above 0".to_owned());
    } else if config.kind != UpstreamKind::File && config.connect_timeout >= config.timeout {
        faults.push(format!(
            "`connect_timeout` ({}) must be below `timeout` ({}), which covers it",
            config.connect_timeout, config.timeout
        ));
    }
    faults
}

fn bounds(config: &config::Upstream) -> Vec<String> {
    let zero = [
        ("max_event", config.max_event.is_some_and(|size| size.bytes() == 0)),
        ("max_datasets", config.max_datasets == Some(0)),
        ("concurrency", config.concurrency == Some(0)),
        ("deduplicate_entries", config.deduplicate_entries == 0),
        ("run_entries", config.run_entries == 0),
    ];
    let zero = zero.into_iter().filter(|(_, is_zero)| *is_zero);
    let mut faults: Vec<String> = zero.map(|(key, _)| format!("`{key}` must be above 0")).collect();
    if config.deduplicate.0 > LONGEST_DEDUPLICATION {
        faults.push(format!("`deduplicate` is {}: at most 1d", config.deduplicate));
    }
    faults
}

fn file(config: &config::Upstream) -> Vec<String> {
    let meaningless = [
        ("url", config.url.is_some()),
        ("auth", config.auth != UpstreamAuth::None),
        ("ca_file", config.ca_file.is_some()),
        ("client_certificate", config.client_certificate.is_some()),
        ("identity_headers", config.identity_headers),
    ];
    let mut faults: Vec<String> = meaningless
        .into_iter()
        .filter(|(_, given)| *given)
        .map(|(key, _)| format!("`{key}` has no meaning for kind `file`: leave it out"))
        .collect();
    if config.path.is_none() {
        faults.push("kind `file` needs `path`, the file that events are appended to".to_owned());
    }
    faults
}

fn http(contract: Contract, config: &config::Upstream) -> Vec<String> {
    let mut faults = Vec::new();
    if config.path.is_some() {
        faults.push("`path` has a meaning for kind `file` only: leave it out".to_owned());
    }
    if matches!(contract, Contract::Gravitino | Contract::Marquez) && config.idle_timeout.0 >= JETTY_IDLE {
        faults.push(format!(
            "`idle_timeout` is {}: below 30s, when {} closes idle connections",
            config.idle_timeout,
            contract.title()
        ));
    }
    faults.extend(header_name(&config.auth));
    let Some(url) = &config.url else {
        faults.push("this kind needs `url`".to_owned());
        return faults;
    };
    match Endpoint::parse(contract, url) {
        Ok(endpoint) => faults.extend(transport(&endpoint, config)),
        Err(fault) => faults.push(fault),
    }
    faults
}

fn transport(endpoint: &Endpoint, config: &config::Upstream) -> Vec<String> {
    if endpoint.secure {
        return Vec::new();
    }
    let mut faults = Vec::new();
    if config.ca_file.is_some() || config.client_certificate.is_some() {
        faults.push("`ca_file` and `client_certificate` need an https `url`".to_owned());
    }
    if config.auth != UpstreamAuth::None && endpoint.is_readable() {
        faults.push("`auth` would send a credential readable over the network: use an https `url`".to_owned());
    }
    faults
}

fn header_name(auth: &UpstreamAuth) -> Option<String> {
    let UpstreamAuth::Header(header) = auth else {
        return None;
    };
    let Ok(name) = header.name.parse::<HeaderName>() else {
        return Some(format!("`auth.header.name` is `{}`, which is no header name", header.name.escape_debug()));
    };
    let taken = TAKEN.contains(&name.as_str()) || name.as_str() == "x-request-id";
    taken.then(|| format!("`auth.header.name` is `{name}`, which the gate sets itself: use the backend's own header"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(json: &str) -> Vec<String> {
        check(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn sound_configurations_have_no_faults() {
        let sound = [
            r#"{"name":"u","kind":"file","path":"/tmp/events.jsonl","timeout":"500ms"}"#,
            r#"{"name":"u","kind":"openlineage","url":"http://marquez:5000"}"#,
            r#"{"name":"u","kind":"openlineage","url":"https://ol.example.com/in","auth":{"bearer_file":"/t"}}"#,
            r#"{"name":"u","kind":"gravitino","url":"http://127.0.0.1:8090","auth":"forward"}"#,
            r#"{"name":"u","kind":"marquez","url":"http://marquez:5000","max_datasets":100,"max_event":"1MiB"}"#,
            r#"{"name":"u","kind":"openmetadata","url":"https://om","services":{"postgres://db":"pg"},"auth":{"bearer_file":"/t"},"unsupported_kinds":"drop"}"#,
            r#"{"name":"u","kind":"datahub","url":"http://gms:8080"}"#,
            r#"{"name":"u","kind":"polaris","url":"https://polaris","auth":"forward"}"#,
            r#"{"name":"u","kind":"gravitino","url":"https://g","timeout":"5m","queue":0,"deduplicate":"0s","auth":{"header": "X-Api-Key", "file": "/k"},
                "ca_file":"/ca.pem","client_certificate":{"certificate":"/c","key":"/k"}}"#,
        ];
        for json in sound {
            assert_eq!(faults(json), Vec::<String>::new(), "{json}");
        }
    }

    #[test]
    fn each_fault_is_told_with_the_upstreams_name() {
        let cases = [
            (r#"{"name":"u","kind":"file"}"#, "needs `path`"),
            (r#"{"name":"u","kind":"file","path":"/f","url":"http://h"}"#, "`url` has no meaning"),
            (r#"{"name":"u","kind":"file","path":"/f","auth":"forward"}"#, "`auth` has no meaning"),
            (r#"{"name":"u","kind":"file","path":"/f","ca_file":"/c"}"#, "`ca_file` has no meaning"),
            (r#"{"name":"u","kind":"file","path":"/f","identity_headers":true}"#, "`identity_headers` has no meaning"),
            (r#"{"name":"u","kind":"openlineage"}"#, "needs `url`"),
            (r#"{"name":"u","kind":"openlineage","url":"http://h","path":"/f"}"#, "`path` has a meaning"),
            (r#"{"name":"u","kind":"openlineage","url":"ftp://h"}"#, "http:// or https://"),
            (r#"{"name":"u","kind":"openlineage","url":"http://a:b@h"}"#, "user or password"),
            (r#"{"name":"u","kind":"openlineage","url":"http://h","ca_file":"/c"}"#, "https"),
            (
                r#"{"name":"u","kind":"openlineage","url":"http://h","client_certificate":{"certificate":"/c","key":"/k"}}"#,
                "https",
            ),
            (r#"{"name":"u","kind":"openlineage","url":"http://h","auth":"forward"}"#, "readable"),
            (r#"{"name":"u","kind":"openlineage","url":"http://h","auth":{"bearer_file":"/t"}}"#, "readable"),
            (
                r#"{"name":"u","kind":"openlineage","url":"https://h","auth":{"header": "a b", "file": "/t"}}"#,
                "no header name",
            ),
            (
                r#"{"name":"u","kind":"openlineage","url":"https://h","auth":{"header": "Host", "file": "/t"}}"#,
                "sets itself",
            ),
            (
                r#"{"name":"u","kind":"openlineage","url":"https://h","auth":{"header": "X-Request-Id", "file": "/t"}}"#,
                "sets itself",
            ),
            (r#"{"name":"u","kind":"gravitino","url":"http://h","idle_timeout":"30s"}"#, "below 30s"),
            (r#"{"name":"u","kind":"marquez","url":"http://h","idle_timeout":"30s"}"#, "below 30s"),
            (r#"{"name":"u","kind":"gravitino","url":"http://h/api"}"#, "leave `/api` out"),
            (r#"{"name":"u","kind":"openmetadata","url":"https://h/api","services":{"a":"b"}}"#, "leave `/api` out"),
            (r#"{"name":"u","kind":"marquez"}"#, "needs `url`"),
            (r#"{"name":"u","kind":"marquez","url":"http://h","max_datasets":0}"#, "`max_datasets` must be above 0"),
            (r#"{"name":"u","kind":"file","path":"/f","max_event":"0B"}"#, "`max_event` must be above 0"),
            (r#"{"name":"u","kind":"gravitino","url":"http://h","timeout":"301s"}"#, "at most 5m"),
            (r#"{"name":"u","kind":"gravitino","url":"http://h","answer_within":"4s"}"#, "3500ms"),
            (r#"{"name":"u","kind":"gravitino","url":"http://h","answer_within":"0s"}"#, "above 0"),
            (r#"{"name":"u","kind":"gravitino","url":"http://h","concurrency":0}"#, "`concurrency` must be above 0"),
            (r#"{"name":"u","kind":"gravitino","url":"http://h","deduplicate_entries":0}"#, "above 0"),
            (r#"{"name":"u","kind":"gravitino","url":"http://h","run_entries":0}"#, "above 0"),
            (r#"{"name":"u","kind":"gravitino","url":"http://h","deduplicate":"2d"}"#, "at most 1d"),
            (r#"{"name":"u","kind":"gravitino","url":"http://h","connect_timeout":"30s"}"#, "must be below"),
            (r#"{"name":"u","kind":"gravitino","url":"http://h","connect_timeout":"0s"}"#, "above 0"),
        ];
        for (json, words) in cases {
            let faults = faults(json);
            assert_eq!(faults.len(), 1, "{json}: {faults:?}");
            assert!(faults[0].starts_with("upstream `u`: ") && faults[0].contains(words), "{json}: {faults:?}");
        }
    }

    #[test]
    fn all_faults_are_told_together() {
        let faults = faults(r#"{"name":"u","kind":"file","url":"http://h","auth":"forward","timeout":"9m"}"#);
        assert_eq!(faults.len(), 4, "{faults:?}");
    }
}
