//! A small HTTPS client that trusts the demonstration's CA alone.

use std::path::Path;

use anyhow::Context;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

pub(super) struct Client {
    http: Pooled<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Client {
    pub(super) fn trusting(ca_file: &Path) -> anyhow::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca_file).context("reading the CA")?)?;
        let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().build();
        Ok(Self { http: Pooled::builder(TokioExecutor::new()).build(connector) })
    }

    pub(super) async fn post(&self, url: &str, token: &str, body: String) -> anyhow::Result<Reply> {
        let request = Request::post(url)
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))?;
        let (head, body) = self.http.request(request).await.context("the gate did not answer")?.into_parts();
        let body = body.collect().await.context("the gate's answer broke off")?.to_bytes();
        Ok(Reply { status: head.status, headers: head.headers, body })
    }
}
