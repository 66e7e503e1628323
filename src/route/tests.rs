use super::*;

const OPENMETADATA: Dialect = Dialect::Openmetadata(OpenmetadataRelease::V2_1);

fn paths(default: Dialect) -> Paths {
    Paths { prefix: None, default, openmetadata: OpenmetadataRelease::V2_1 }
}

fn post(path: &str, default: Dialect) -> Result<Endpoint, Refusal> {
    route(&Method::POST, &Uri::try_from(path).unwrap(), &paths(default))
}

fn event(dialect: Dialect) -> Endpoint {
    Endpoint { dialect, payload: Payload::Event }
}

#[test]
fn paths_that_clients_really_send_lead_to_their_dialect() {
    for (path, dialect) in [
        ("/api/lineage", Dialect::Gravitino),
        ("/api/lineage/", Dialect::Gravitino),
        ("/lineage", Dialect::Gravitino),
        ("/lineage/", Dialect::Gravitino),
        ("/api/v1/lineage", Dialect::Openlineage),
        ("/api/v1/lineage/", Dialect::Openlineage),
        ("/api/v1/api/v1/lineage", Dialect::Openlineage),
        ("/api/v1/api/v1/lineage/", Dialect::Openlineage),
        ("/api/v1/lineage?tenant=a", Dialect::Openlineage),
        ("/api/v1/openlineage/lineage", OPENMETADATA),
        ("/api/v1/openlineage/lineage/", OPENMETADATA),
        ("/v1/openlineage/lineage", OPENMETADATA),
        ("/v1/openlineage/lineage/?a=b", OPENMETADATA),
        ("/api/lineage?a=//..;%2F", Dialect::Gravitino),
        ("http://gate.example.com/api/lineage", Dialect::Gravitino),
    ] {
        for default in [Dialect::Gravitino, OPENMETADATA, Dialect::Openlineage] {
            assert_eq!(post(path, default), Ok(event(dialect)), "{path}");
            assert_eq!(dialect_of(&Uri::try_from(path).unwrap(), &paths(default)), dialect, "{path}");
        }
    }
}

#[test]
fn the_root_has_the_listeners_dialect() {
    for dialect in [Dialect::Gravitino, OPENMETADATA, Dialect::Openlineage] {
        for path in ["/", "/?tenant=a", "http://gate.example.com", "http://gate.example.com/?a=b"] {
            assert_eq!(post(path, dialect), Ok(event(dialect)), "{path}");
        }
    }
}

#[test]
fn unknown_paths_are_told_the_right_one() {
    const GRAVITINO: &str = "/api/lineage";
    const OPENLINEAGE: &str = "/api/v1/lineage";
    for (path, right) in [
        ("/team", OPENLINEAGE),
        ("/team/", OPENLINEAGE),
        ("/team/api/v1/lineage", OPENLINEAGE),
        ("/api/v1", OPENLINEAGE),
        ("/api/v2/lineage", OPENLINEAGE),
        ("/API/V1/LINEAGE", OPENLINEAGE),
        ("/api/v1/Lineage", OPENLINEAGE),
        ("/api/v1/lineages", OPENLINEAGE),
        ("/api/openlineage/lineage", "/api/v1/openlineage/lineage"),
        ("/api/v1/OpenLineage/lineage", "/api/v1/openlineage/lineage"),
        ("/api/v1/lineage/Batch", "/api/v1/lineage/batch"),
        ("/api/v1/openlineage/lineage/batches", "/api/v1/openlineage/lineage/batch"),
        ("/openapi/openlineage/api/v1/lineage/batch", "/api/v1/lineage/batch"),
        ("/openapi/openlineage/api/v1/lineage/", OPENLINEAGE),
        ("/openapi/openlineage/api/v1/lineage", OPENLINEAGE),
        ("/api/v1/namespaces/demo/jobs", OPENLINEAGE),
        ("/api/LINEAGE", GRAVITINO),
        ("/Lineage", GRAVITINO),
        ("/api/lineage/x", GRAVITINO),
        ("/api/metalakes/demo", GRAVITINO),
        ("*", OPENLINEAGE),
        ("/favicon.ico", OPENLINEAGE),
        ("/...", OPENLINEAGE),
        ("/.well-known/x", OPENLINEAGE),
    ] {
        assert_eq!(post(path, Dialect::Openlineage), Err(Refusal::UnknownPath { right }), "{path}");
        assert_eq!(dialect_of(&Uri::try_from(path).unwrap(), &paths(Dialect::Gravitino)), Dialect::Gravitino, "{path}");
    }
    assert_eq!(post("/team", Dialect::Gravitino), Err(Refusal::UnknownPath { right: GRAVITINO }));
}

#[test]
fn batches_have_a_path_and_a_form_where_the_contract_has_them() {
    for (path, dialect, envelope) in [
        ("/api/v1/lineage/batch", Dialect::Openlineage, Envelope::List),
        ("/api/v1/lineage/batch/", Dialect::Openlineage, Envelope::List),
        ("/api/v1/openlineage/lineage/batch", OPENMETADATA, Envelope::Events),
        ("/v1/openlineage/lineage/batch/", OPENMETADATA, Envelope::Events),
    ] {
        let batch = Endpoint { dialect, payload: Payload::Batch(envelope) };
        assert_eq!(post(path, Dialect::Gravitino), Ok(batch), "{path}");
        let refused = route(&Method::GET, &Uri::try_from(path).unwrap(), &paths(Dialect::Gravitino));
        assert_eq!(refused, Err(Refusal::MethodNotAllowed), "{path}");
    }
    for path in ["/api/lineage/batch", "/lineage/batch"] {
        assert_eq!(post(path, Dialect::Openlineage), Err(Refusal::NoBatches { right: "/api/lineage" }), "{path}");
    }
}

#[test]
fn a_prefix_may_stand_before_every_path_and_need_not() {
    let prefixed = Paths { prefix: Some("/team/a".to_owned()), ..paths(Dialect::Gravitino) };
    let find = |path: &str| route(&Method::POST, &Uri::try_from(path).unwrap(), &prefixed);
    for (path, dialect) in [
        ("/team/a", Dialect::Gravitino),
        ("/team/a/", Dialect::Gravitino),
        ("/", Dialect::Gravitino),
        ("/team/a/api/v1/lineage", Dialect::Openlineage),
        ("/team/a/api/v1/lineage/", Dialect::Openlineage),
        ("/api/v1/lineage", Dialect::Openlineage),
        ("/team/a/api/v1/openlineage/lineage", OPENMETADATA),
        ("/team/a/lineage?tenant=b", Dialect::Gravitino),
    ] {
        assert_eq!(find(path), Ok(event(dialect)), "{path}");
    }
    let batch = Endpoint { dialect: Dialect::Openlineage, payload: Payload::Batch(Envelope::List) };
    assert_eq!(find("/team/a/api/v1/lineage/batch"), Ok(batch));
    for path in ["/team", "/team/api/v1/lineage", "/team/ab/api/v1/lineage", "/team/a/team/a/api/v1/lineage"] {
        assert!(matches!(find(path), Err(Refusal::UnknownPath { .. })), "{path}");
    }
    let tunnel = Uri::from_static("gate.example.com:443");
    assert!(matches!(route(&Method::CONNECT, &tunnel, &prefixed), Err(Refusal::UnknownPath { .. })));
}

#[test]
fn a_path_has_one_spelling() {
    for path in [
        "//api/v1/lineage",
        "/api//v1/lineage",
        "/api/v1/lineage//",
        "/./api/v1/lineage",
        "/api/v1/./lineage",
        "/api/v1/../v1/lineage",
        "/api/v1/lineage/.",
        "/api/v1/lineage/..",
        "/..",
        "/api/v1/lineage;x",
        "/api/v1;x=y/lineage",
        "/api/v1%2Flineage",
        "/api/v1%2flineage",
        "/api/v1/%2e/lineage",
        "/api/v1/%2E%2E/v1/lineage",
        "/api/v1/line%61ge",
        "/api/v1/lineage%00",
        "/api/v1/lineage%",
        "/api/v1/lineag\u{e9}",
        "/unknown/%41",
    ] {
        for method in [Method::POST, Method::GET] {
            let refused = route(&method, &Uri::try_from(path).unwrap(), &paths(Dialect::Openlineage));
            assert_eq!(refused, Err(Refusal::PathSpelling), "{path}");
        }
    }
    for path in ["/api/v1\\lineage", "/api/v1/lin\teage", "/api/v1/lineage\u{1}"] {
        assert!(is_misspelled(path), "{path}");
    }
}

#[test]
fn the_right_paths_take_post_only() {
    let methods = [
        Method::GET,
        Method::HEAD,
        Method::PUT,
        Method::DELETE,
        Method::OPTIONS,
        Method::PATCH,
        Method::TRACE,
        Method::CONNECT,
        Method::from_bytes(b"post").unwrap(),
        Method::from_bytes(b"PROPFIND").unwrap(),
    ];
    for method in methods {
        for path in ["/", "/lineage", "/api/lineage", "/api/v1/lineage", "/api/v1/api/v1/lineage/"] {
            let refused = route(&method, &Uri::try_from(path).unwrap(), &paths(Dialect::Openlineage));
            assert_eq!(refused, Err(Refusal::MethodNotAllowed), "{method} {path}");
        }
        let unknown = route(&method, &Uri::from_static("/team"), &paths(Dialect::Openlineage));
        assert_eq!(unknown, Err(Refusal::UnknownPath { right: "/api/v1/lineage" }), "{method}");
    }
}

#[test]
fn a_tunnel_is_no_endpoint() {
    let authority = Uri::from_static("gate.example.com:443");
    let refused = route(&Method::CONNECT, &authority, &paths(Dialect::Openlineage));
    assert_eq!(refused, Err(Refusal::UnknownPath { right: "/api/v1/lineage" }));
}
