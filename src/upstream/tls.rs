//! TLS towards the backend, from the configured files.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::ExposeSecret;

use crate::config;

use super::Error;
use super::credential::Material;

/// The client's side of TLS 1.2 and 1.3. The CA file replaces the system's roots, it does not add to them.
pub(super) fn client_config(config: &config::Upstream, material: &Material) -> Result<ClientConfig, Error> {
    let roots = match (&config.ca_file, &material.ca) {
        (Some(path), Some(pem)) => file_roots(path, pem)?,
        _ => system_roots()?,
    };
    let builder = builder()?.with_root_certificates(roots);
    let (Some(files), Some((chain, key))) = (&config.client_certificate, &material.client) else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates(&files.certificate, chain)?;
    let key = PrivateKeyDer::from_pem_slice(key.expose_secret())
        .map_err(|_| Error::Certificate { path: files.key.clone(), fault: "no private key in PEM form".to_owned() })?;
    builder.with_client_auth_cert(chain, key).map_err(|error| Error::Certificate {
        path: files.certificate.clone(),
        fault: format!("certificate and key do not fit: {error}"),
    })
}

/// For a backend over plain HTTP, whose connector wants one all the same: trusts nobody.
pub(super) fn unused() -> Result<ClientConfig, Error> {
    Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))
}

fn file_roots(path: &Path, pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, pem)? {
        roots.add(certificate).map_err(|error| Error::Certificate {
            path: path.to_owned(),
            fault: format!("a certificate in it cannot be a CA: {error}"),
        })?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(Error::Tls("the system has no CA certificates: set `ca_file`".to_owned()));
    }
    Ok(roots)
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let fault = |fault: &str| Error::Certificate { path: path.to_owned(), fault: fault.to_owned() };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|_| fault("broken PEM"))?;
    if found.is_empty() { Err(fault("no certificate in PEM form")) } else { Ok(found) }
}
