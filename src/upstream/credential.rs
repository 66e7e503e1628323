//! The gate's own credential and the other files of an upstream, read together so that they are swapped together.

use std::fs;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{self, SHA256};
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use crate::config::{self, UpstreamAuth};

use super::Error;

/// What the configured files hold.
pub(super) struct Material {
    /// The header that carries the gate's own credential.
    pub(super) credential: Option<(HeaderName, HeaderValue)>,
    /// CA certificates, PEM.
    pub(super) ca: Option<Vec<u8>>,
    /// Client certificate chain and key, PEM.
    pub(super) client: Option<(Vec<u8>, SecretSlice<u8>)>,
}

/// Tells whether files changed; holds none of their content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    /// Of the credential.
    credential: [u8; 32],
    /// Of what TLS is made from.
    pub(super) tls: [u8; 32],
}

impl Material {
    /// Reads every file that the configuration names.
    pub(super) fn read(config: &config::Upstream) -> Result<Self, Error> {
        let ca = config.ca_file.as_deref().map(read).transpose()?;
        let client = match &config.client_certificate {
            Some(files) => Some((read(&files.certificate)?, SecretSlice::from(read(&files.key)?))),
            None => None,
        };
        Ok(Self { credential: credential(&config.auth)?, ca, client })
    }

    /// What to compare after the next read.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let mut tls = digest::Context::new(&SHA256);
        let (chain, key) = match &self.client {
            Some((chain, key)) => (chain.as_slice(), key.expose_secret()),
            None => (&[][..], &[][..]),
        };
        for part in [self.ca.as_deref().unwrap_or_default(), chain, key] {
            tls.update(&part.len().to_be_bytes());
            tls.update(part);
        }
        let credential = self.credential.as_ref().map_or(&[][..], |(_, value)| value.as_bytes());
        Fingerprint { credential: bytes(digest::digest(&SHA256, credential)), tls: bytes(tls.finish()) }
    }
}

/// The files that [`Material::read`] reads.
pub(super) fn files(config: &config::Upstream) -> Vec<PathBuf> {
    let credential = match &config.auth {
        UpstreamAuth::None | UpstreamAuth::Forward => None,
        UpstreamAuth::BearerFile(file) => Some(file),
        UpstreamAuth::Header(header) => Some(&header.file),
    };
    let client = config.client_certificate.iter().flat_map(|files| [&files.certificate, &files.key]);
    credential.into_iter().chain(&config.ca_file).chain(client).cloned().collect()
}

fn credential(auth: &UpstreamAuth) -> Result<Option<(HeaderName, HeaderValue)>, Error> {
    match auth {
        UpstreamAuth::None | UpstreamAuth::Forward => Ok(None),
        UpstreamAuth::BearerFile(file) => {
            let token = secret(file)?;
            if token.expose_secret().contains(' ') {
                return Err(Error::Credential { path: file.clone(), fault: "has a space inside" });
            }
            let text = SecretString::from(format!("Bearer {}", token.expose_secret()));
            Ok(Some((AUTHORIZATION, header(file, &text)?)))
        }
        UpstreamAuth::Header(named) => {
            let name = named.name.parse().map_err(|_| Error::Config(format!("`{}` is no header name", named.name)))?;
            Ok(Some((name, header(&named.file, &secret(&named.file)?)?)))
        }
    }
}

/// The file's content without the white space around it. Nothing but printable ASCII and inner spaces may be in it: a
/// line break would end the header.
fn secret(path: &Path) -> Result<SecretString, Error> {
    let fault = |fault| Error::Credential { path: path.to_owned(), fault };
    let content = SecretSlice::from(read(path)?);
    let text = std::str::from_utf8(content.expose_secret().trim_ascii()).map_err(|_| fault("is no text"))?;
    if text.is_empty() {
        return Err(fault("is empty"));
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(fault("has a control character or several lines"));
    }
    if !text.is_ascii() {
        return Err(fault("has a character outside ASCII"));
    }
    Ok(SecretString::from(text))
}

fn header(path: &Path, text: &SecretString) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(text.expose_secret())
        .map_err(|_| Error::Credential { path: path.to_owned(), fault: "cannot be sent in a header" })?;
    value.set_sensitive(true);
    Ok(value)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn bytes(digest: digest::Digest) -> [u8; 32] {
    digest.as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content: &[u8]) -> Result<Option<(HeaderName, HeaderValue)>, Error> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, content).unwrap();
        credential(&UpstreamAuth::BearerFile(file))
    }

    #[test]
    fn white_space_around_a_token_is_dropped_and_debug_shows_nothing() {
        let (name, value) = of(b"\n s3cret-token \r\n").unwrap().unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("authorization", "Bearer s3cret-token"));
        assert!(!format!("{value:?}").contains("s3cret"));
    }

    #[test]
    fn what_cannot_be_a_token_is_refused_without_being_told() {
        let cases: [(&[u8], &str); 6] = [
            (b"", "is empty"),
            (b" \n", "is empty"),
            (b"s3cret\nX: 1", "control character"),
            (b"s3cret\x00", "control character"),
            (b"s3cret and more", "space"),
            ("s3cret\u{e9}".as_bytes(), "outside ASCII"),
        ];
        for (content, words) in cases {
            let error = of(content).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("s3cret"), "{error}");
        }
        assert!(of(b"\xff\xfe").unwrap_err().to_string().contains("no text"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = credential(&UpstreamAuth::BearerFile("/nowhere/token".into())).unwrap_err();
        assert!(error.to_string().starts_with("cannot read /nowhere/token: "), "{error}");
    }
}
