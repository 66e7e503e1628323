use super::*;

#[test]
fn files_that_cannot_be_used_are_named_with_their_key() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["cert.pem", "keys.json", "rule.yaml"] {
        fs::write(at(name), "x").unwrap();
    }
    fs::write(
        at("gate.yaml"),
        "\
listeners: [{ address: 127.0.0.1:1, tls: { certificate: cert.pem, key: missing.pem, client_ca: . } }]
auth: { issuers: [{ issuer: a, audiences: [b], jwks_file: keys.json, token_file: missing.token }] }
policy: { files: missing }
upstreams: [{ name: u, kind: file, path: missing/e.jsonl, auth: { bearer_file: missing.token } }]
audit: { output: rule.yaml }
admin: { address: 'unix:a', token_file: missing.token }
",
    )
    .unwrap();
    let config = super::super::read(&at("gate.yaml")).unwrap().config;
    let faults: Vec<String> = check(&config).iter().map(Fault::to_string).collect();
    let missing = "No such file or directory (os error 2)";
    let (here, shown) = (directory.path().display(), |name: &str| at(name).display().to_string());
    assert_eq!(
        faults,
        [
            format!("listeners[0].tls.key: {} cannot be read: {missing}", shown("missing.pem")),
            format!("listeners[0].tls.client_ca: {here}/. is a directory; name a file"),
            format!("auth.issuers[0].token_file: {} cannot be read: {missing}", shown("missing.token")),
            format!("policy.files: {} cannot be read: {missing}", shown("missing")),
            format!("upstreams[0].path: the directory of {} cannot be used: {missing}", shown("missing/e.jsonl")),
            format!("upstreams[0].auth: {} cannot be read: {missing}", shown("missing.token")),
            format!("admin.token_file: {} cannot be read: {missing}", shown("missing.token")),
        ]
    );
}
