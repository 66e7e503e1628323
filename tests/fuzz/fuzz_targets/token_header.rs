//! Any `Authorization` headers, one a line: never a panic, and never a caller, since nobody holds the key.
#![no_main]

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use lineage_gate::auth::dev::SigningKey;
use lineage_gate::auth::{Authenticator, Metrics};
use lineage_gate::config::{Auth, yaml};
use prometheus_client::registry::Registry;
use tokio::runtime::{Builder, Runtime};

static GATE: LazyLock<(Authenticator, Runtime)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    let key = directory.path().join("key.pem");
    std::fs::write(&key, SigningKey::generate().expect("a key").public_pem()).expect("a file");
    let text = format!(
        "issuers: [{{ issuer: https://idp.test/, audiences: [lineage], public_key_file: {}, algorithms: [ES256] }}]",
        key.display()
    );
    let config: Auth = yaml::from_text(Path::new("auth.yaml"), &text).expect("a configuration");
    let metrics = Arc::new(Metrics::register(&mut Registry::default()));
    let authenticator = Authenticator::new(&config, metrics).expect("an authenticator");
    (authenticator, Builder::new_current_thread().build().expect("a runtime"))
});

fuzz_target!(|input: &[u8]| {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(AUTHORIZATION, value);
        }
    }
    let (authenticator, runtime) = &*GATE;
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let caller = runtime.block_on(authenticator.authenticate_at(&headers, None, now));
    assert!(caller.is_err());
});
