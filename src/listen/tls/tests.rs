use rustls::client::ClientConfig;
use rustls::{HandshakeKind, NamedGroup, SupportedProtocolVersion};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::listen::testing::Authority;

/// A client that trusts `authority`, speaks these versions, and shows a certificate if it has one.
pub(in crate::listen) fn client(
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
    alpn: &[&[u8]],
    shown: Option<(String, String)>,
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>().unwrap();
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
        }
    };
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

pub(in crate::listen) fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

pub(in crate::listen) fn both_versions() -> [&'static SupportedProtocolVersion; 2] {
    [&TLS13, &TLS12]
}

/// One handshake, and a byte each way so that tickets arrive too.
async fn shake(
    certificates: &Certificates,
    client: &TlsConnector,
) -> Result<(TlsStream<DuplexStream>, Option<Arc<str>>), io::Error> {
    let (near, far) = duplex(64 << 10);
    let (near, secured) = tokio::join!(client.connect(localhost(), near), certificates.accept(Box::new(far)));
    let (mut near, mut secured) = (near?, secured?);
    near.write_u8(1).await?;
    secured.io.read_u8().await?;
    secured.io.write_u8(2).await?;
    near.read_u8().await?;
    Ok((near, secured.subject))
}

async fn kind(certificates: &Certificates, client: &TlsConnector) -> HandshakeKind {
    let (near, _) = shake(certificates, client).await.unwrap();
    near.get_ref().1.handshake_kind().unwrap()
}

async fn served(certificates: &Certificates, authority: &Authority) -> Vec<u8> {
    let (near, _) = shake(certificates, &client(authority, &both_versions(), &[], None)).await.unwrap();
    near.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn both_versions_are_spoken_and_the_key_exchange_is_post_quantum_where_it_can_be() {
    let authority = Authority::new();
    let certificates = Certificates::load(&authority.write_server(2100)).unwrap();
    let rows: [(&[&SupportedProtocolVersion], _, _); 2] = [
        (&[&TLS13], rustls::ProtocolVersion::TLSv1_3, NamedGroup::X25519MLKEM768),
        (&[&TLS12], rustls::ProtocolVersion::TLSv1_2, NamedGroup::X25519),
    ];
    for (versions, version, group) in rows {
        let (near, _) = shake(&certificates, &client(&authority, versions, &[], None)).await.unwrap();
        let connection = near.get_ref().1;
        assert_eq!(connection.protocol_version(), Some(version));
        assert_eq!(connection.negotiated_key_exchange_group().unwrap().name(), group);
    }
}

#[tokio::test]
async fn alpn_prefers_h2_and_knows_http_1_1() {
    let authority = Authority::new();
    let certificates = Certificates::load(&authority.write_server(2100)).unwrap();
    let rows = [("http/1.1 h2", Some("h2")), ("h2", Some("h2")), ("http/1.1", Some("http/1.1")), ("", None)];
    for (offered, chosen) in rows {
        let offered: Vec<_> = offered.split_whitespace().map(str::as_bytes).collect();
        let client = client(&authority, &both_versions(), &offered, None);
        let (near, _) = shake(&certificates, &client).await.unwrap();
        assert_eq!(near.get_ref().1.alpn_protocol(), chosen.map(str::as_bytes));
    }
}

#[tokio::test]
async fn a_reload_serves_what_is_good_and_keeps_the_last_otherwise() {
    let authority = Authority::new();
    let files = authority.write_server(2100);
    let certificates = Certificates::load(&files).unwrap();
    let gauge = Gauge::default();
    certificates.report_to(gauge.clone());
    let first = served(&certificates, &authority).await;
    assert!(!certificates.reload().unwrap());

    let (chain, _) = authority.issue("gate", 2100);
    fs::write(&files.certificate, chain).unwrap();
    assert!(matches!(certificates.reload(), Err(Error::KeyMismatch { .. })));
    assert_eq!(served(&certificates, &authority).await, first);

    fs::write(&files.key, "").unwrap();
    assert!(matches!(certificates.reload(), Err(Error::NoKey { .. })));
    fs::remove_file(&files.key).unwrap();
    assert!(matches!(certificates.reload(), Err(Error::Read { .. })));
    assert_eq!(served(&certificates, &authority).await, first);
    assert_eq!(gauge.get(), "2100-12-31T00:00:00Z".parse::<Timestamp>().unwrap().as_second());

    authority.write_server(2101);
    assert!(certificates.reload().unwrap());
    assert_ne!(served(&certificates, &authority).await, first);
    assert_eq!(gauge.get(), "2101-12-31T00:00:00Z".parse::<Timestamp>().unwrap().as_second());
    assert!(!certificates.reload().unwrap());
}

#[tokio::test]
async fn clients_resume_across_a_reload() {
    let authority = Authority::new();
    let certificates = Certificates::load(&authority.write_server(2100)).unwrap();
    for version in both_versions() {
        let client = client(&authority, &[version], &[], None);
        assert_eq!(kind(&certificates, &client).await, HandshakeKind::Full);
        assert_eq!(kind(&certificates, &client).await, HandshakeKind::Resumed);
        authority.write_server(2101);
        assert!(certificates.reload().unwrap());
        assert_eq!(kind(&certificates, &client).await, HandshakeKind::Resumed);
    }
}

#[tokio::test]
async fn with_a_client_ca_only_its_certificates_come_in_and_their_subject_is_known() {
    let (authority, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let mut files = authority.write_server(2100);
    files.client_ca = Some(clients.path("ca.crt"));
    let certificates = Certificates::load(&files).unwrap();
    assert_eq!(
        certificates.watched(),
        ["tls.crt", "tls.key"]
            .map(|name| authority.path(name))
            .into_iter()
            .chain([clients.path("ca.crt")])
            .collect::<Vec<_>>()
    );

    let versions = both_versions();
    let known = client(&authority, &versions, &[], Some(clients.issue("spark", 2100)));
    let (_, subject) = shake(&certificates, &known).await.unwrap();
    assert_eq!(subject.as_deref(), Some("CN=spark"));
    for shown in [None, Some(strangers.issue("spark", 2100)), Some(clients.issue("spark", 2001))] {
        let unknown = client(&authority, &versions, &[], shown);
        let (near, far) = duplex(64 << 10);
        let (_, secured) = tokio::join!(unknown.connect(localhost(), near), certificates.accept(Box::new(far)));
        let error = secured.err().unwrap();
        assert_eq!(failure_word(&error), "client_certificate", "{error}");
    }
}

#[tokio::test]
async fn a_new_client_ca_ends_resumption_by_those_that_the_old_one_let_in() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let mut files = authority.write_server(2100);
    files.client_ca = Some(authority.path("clients.crt"));
    fs::write(authority.path("clients.crt"), clients.pem()).unwrap();
    let certificates = Certificates::load(&files).unwrap();
    let client = client(&authority, &[&TLS13], &[], Some(clients.issue("spark", 2100)));
    assert_eq!(kind(&certificates, &client).await, HandshakeKind::Full);
    assert_eq!(kind(&certificates, &client).await, HandshakeKind::Resumed);

    fs::write(authority.path("clients.crt"), Authority::new().pem() + &clients.pem()).unwrap();
    assert!(certificates.reload().unwrap());
    assert_eq!(kind(&certificates, &client).await, HandshakeKind::Full);

    fs::write(authority.path("clients.crt"), Authority::new().pem()).unwrap();
    assert!(certificates.reload().unwrap());
    assert!(shake(&certificates, &client).await.is_err());
}

#[test]
fn what_cannot_be_served_is_an_error_that_names_the_file() {
    let authority = Authority::new();
    let good = authority.write_server(2100);
    let other = authority.path("other");
    fs::write(&other, "not PEM").unwrap();
    let absent = authority.path("absent");
    let foreign = authority.path("foreign.key");
    fs::write(&foreign, authority.issue("gate", 2100).1).unwrap();
    let broken = authority.path("broken.crt");
    let pem = fs::read_to_string(&good.certificate).unwrap();
    fs::write(&broken, pem + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let rows = [
        (config::Tls { certificate: absent.clone(), ..good.clone() }, "absent: "),
        (config::Tls { certificate: other.clone(), ..good.clone() }, "other: there is no PEM certificate"),
        (config::Tls { certificate: broken, ..good.clone() }, "broken.crt: one of its certificates is no X.509"),
        (config::Tls { key: other.clone(), ..good.clone() }, "other: there is no private key"),
        (config::Tls { key: good.certificate.clone(), ..good.clone() }, "tls.crt: there is no private key"),
        (config::Tls { key: foreign, ..good.clone() }, "foreign.key is not the key of the certificate in "),
        (config::Tls { client_ca: Some(other), ..good.clone() }, "other: there is no PEM certificate"),
        (config::Tls { client_ca: Some(absent), ..good }, "absent: "),
    ];
    for (files, expected) in rows {
        let error = Certificates::load(&files).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_certificate_that_has_ended_is_served_all_the_same() {
    let authority = Authority::new();
    let certificates = Certificates::load(&authority.write_server(2001)).unwrap();
    assert_eq!(certificates.live.load().not_after.to_string(), "2001-12-31T00:00:00Z");
}
