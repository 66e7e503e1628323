//! TLS towards the backend, with certificates made for each test.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use super::*;

/// A CA and the files that tests need of it.
struct Authority {
    folder: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { folder: tempfile::tempdir().unwrap(), issuer };
        std::fs::write(authority.path("ca.pem"), authority.issuer.pem()).unwrap();
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server that shows a certificate for this name.
    fn server(&self, name: &str, expired: bool, client_ca: Option<&Self>) -> TlsAcceptor {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if expired {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.issuer.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Arc::new(builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()).into()
    }

    /// Writes a client certificate and its key.
    fn write_client(&self) -> serde_json::Value {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["gate".to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path("client.pem"), certificate.pem()).unwrap();
        std::fs::write(self.path("client.key"), key.serialize_pem()).unwrap();
        serde_json::json!({ "certificate": self.path("client.pem"), "key": self.path("client.key") })
    }
}

fn secure(port: u16, ca: &Path, client: Option<serde_json::Value>) -> Upstream {
    let mut more = serde_json::json!({ "ca_file": ca, "client_certificate": client });
    if client.is_none() {
        more.as_object_mut().unwrap().remove("client_certificate");
    }
    upstream("openlineage", &format!("https://localhost:{port}"), more)
}

/// Serves connections until the future is dropped; broken handshakes are let go.
async fn serve(listener: &TcpListener, tls: &TlsAcceptor) {
    loop {
        let stream = accept(listener).await;
        let Ok(mut stream) = tls.accept(stream).await else {
            continue;
        };
        while read_request(&mut stream).await.is_some() {
            answer(&mut stream, 201, "", "").await;
        }
    }
}

async fn outcome_with(tls: TlsAcceptor, make: impl FnOnce(u16) -> Upstream) -> Outcome {
    let (listener, port) = listen().await;
    let upstream = make(port);
    tokio::select! {
        () = serve(&listener, &tls) => NOT_CONNECTED,
        outcome = send(&upstream) => outcome,
    }
}

#[tokio::test]
async fn only_a_certificate_of_the_configured_ca_for_this_host_and_time_is_trusted() {
    const REFUSED: Outcome = Outcome::Unreachable(Unreachable::Certificate);
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let ca = ours.path("ca.pem");
    let cases = [
        ("good", ours.server("localhost", false, None), STORED),
        ("unknown CA", other.server("localhost", false, None), REFUSED),
        ("wrong name", ours.server("other.example.com", false, None), REFUSED),
        ("expired", ours.server("localhost", true, None), REFUSED),
    ];
    for (case, tls, expected) in cases {
        assert_eq!(outcome_with(tls, |port| secure(port, &ca, None)).await, expected, "{case}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_and_one_that_is_refused_is_a_fault_of_configuration() {
    const REFUSED: Outcome = Outcome::Unreachable(Unreachable::Certificate);
    let (ours, other, namesake) = (Authority::new("ours"), Authority::new("other"), Authority::new("ours"));
    let ca = ours.path("ca.pem");
    let cases = [
        ("good", Some(ours.write_client()), STORED),
        ("of another CA of this name", Some(namesake.write_client()), REFUSED),
        ("of another CA", Some(other.write_client()), REFUSED),
        ("none", None, REFUSED),
    ];
    for (case, client, expected) in cases {
        let tls = ours.server("localhost", false, Some(&ours));
        assert_eq!(outcome_with(tls, |port| secure(port, &ca, client)).await, expected, "{case}");
    }
}

#[tokio::test]
async fn a_handshake_that_breaks_off_is_tried_once_more() {
    let ours = Authority::new("ours");
    for (broken, expected) in [(1, STORED), (2, NOT_CONNECTED)] {
        let (listener, port) = listen().await;
        let upstream = secure(port, &ours.path("ca.pem"), None);
        let tls = ours.server("localhost", false, None);
        let backend = async {
            for with_reset in [true, false].into_iter().take(broken) {
                let mut stream = accept(&listener).await;
                stream.read_u8().await.unwrap();
                if with_reset { reset(stream) } else { drop(stream) }
            }
            serve(&listener, &tls).await;
        };
        let outcome = tokio::select! {
            () = backend => None,
            outcome = send(&upstream) => Some(outcome),
        };
        assert_eq!(outcome, Some(expected), "{broken}");
        assert!(is_alone(&listener).await);
    }
}

#[tokio::test]
async fn a_handshake_that_stalls_is_not_delivered_after_the_connect_timeout() {
    let ours = Authority::new("ours");
    let (listener, port) = listen().await;
    let upstream = secure(port, &ours.path("ca.pem"), None);
    let backend = async {
        let mut stream = accept(&listener).await;
        stream.read_u8().await.unwrap();
        let_time_jump().await;
        std::future::pending::<()>().await;
    };
    let started = Instant::now();
    let outcome = tokio::select! { () = backend => None, outcome = send(&upstream) => Some(outcome) };
    assert_eq!(outcome, Some(NOT_CONNECTED));
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(1) && waited < Duration::from_secs(2), "{waited:?}");
}

#[tokio::test]
async fn a_port_that_speaks_plain_http_is_a_bad_gateway() {
    let ours = Authority::new("ours");
    let (listener, port) = listen().await;
    let upstream = secure(port, &ours.path("ca.pem"), None);
    let backend = async {
        let mut stream = accept(&listener).await;
        answer(&mut stream, 400, "", "").await;
        stream.read_u8().await.unwrap();
    };
    let ((), outcome) = tokio::join!(backend, send(&upstream));
    assert!(matches!(outcome, Outcome::BadGateway(_)), "{outcome:?}");
}

#[tokio::test]
async fn certificates_are_read_anew_and_the_last_good_ones_stay() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let ca = ours.path("ca.pem");
    let (listener, port) = listen().await;
    let upstream = secure(port, &ca, Some(ours.write_client()));
    assert_eq!(upstream.watched(), [ca.clone(), ours.path("client.pem"), ours.path("client.key")]);
    let tls = other.server("localhost", false, None);
    let client = async {
        assert_eq!(send(&upstream).await, Outcome::Unreachable(Unreachable::Certificate));
        assert!(!upstream.reload().unwrap());
        std::fs::copy(other.path("ca.pem"), &ca).unwrap();
        assert!(upstream.reload().unwrap());
        assert_eq!(send(&upstream).await, STORED);
        std::fs::write(&ca, "-----BEGIN CERTIFICATE-----\n").unwrap();
        assert!(matches!(upstream.reload(), Err(Error::Certificate { .. })));
        std::fs::copy(other.path("ca.pem"), &ca).unwrap();
        other.write_client();
        std::fs::copy(other.path("client.key"), ours.path("client.key")).unwrap();
        let error = upstream.reload().unwrap_err().to_string();
        assert!(error.contains("do not fit"), "{error}");
        assert_eq!(send(&upstream).await, STORED);
    };
    tokio::select! { () = serve(&listener, &tls) => {}, () = client => {} }
}
