//! A signing key for development, the demo and tests: ES256, its key set, and tokens signed with it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use serde_json::{Value, json};

use super::key::sha256;

/// File name of the private key, PKCS #8 in PEM.
pub const KEY_FILE: &str = "key.pem";
/// File name of the key set.
pub const JWKS_FILE: &str = "jwks.json";

/// An ES256 key pair. Its private half is never printed.
pub struct SigningKey {
    pem: KeyPair,
    signer: EcdsaKeyPair,
    kid: String,
}

/// Why there is no development key or token.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// The key could not be made, or did not sign.
    #[error("the cryptographic library failed: {0}")]
    Crypto(String),
    /// The file holds no ES256 key.
    #[error("{}: is no private ES256 key in PEM (PKCS #8); remove it to get a new one", .0.display())]
    BadKey(PathBuf),
    /// A file cannot be read or written.
    #[error("{}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl SigningKey {
    /// Makes a new key.
    ///
    /// # Errors
    /// [`DevError::Crypto`].
    pub fn generate() -> Result<Self, DevError> {
        let pem =
            KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| DevError::Crypto(error.to_string()))?;
        Self::from_pair(pem)
    }

    /// Reads the key of a directory, or makes one there (`key.pem`, mode 0600). Writes `jwks.json` beside it in either
    /// case. Two processes that do so at once get the same key.
    ///
    /// # Errors
    /// [`DevError::File`] and [`DevError::BadKey`] with the path.
    pub fn open(directory: &Path) -> Result<Self, DevError> {
        let path = directory.join(KEY_FILE);
        if !path.exists() {
            Self::generate()?.write_key(directory)?;
        }
        let text = fs::read_to_string(&path).map_err(|source| DevError::File { path: path.clone(), source })?;
        let pair = KeyPair::from_pem(&text).map_err(|_| DevError::BadKey(path.clone()))?;
        let key = Self::from_pair(pair).map_err(|_| DevError::BadKey(path))?;
        key.write_jwks(directory)?;
        Ok(key)
    }

    /// Writes `key.pem` (mode 0600) and `jwks.json`. A key that is already there stays, and is an error.
    ///
    /// # Errors
    /// [`DevError::File`] with the path.
    pub fn write(&self, directory: &Path) -> Result<(), DevError> {
        let path = directory.join(KEY_FILE);
        if path.exists() {
            return Err(DevError::File { path, source: io::ErrorKind::AlreadyExists.into() });
        }
        self.write_key(directory)?;
        self.write_jwks(directory)
    }

    /// The key's id: SHA-256 over its SubjectPublicKeyInfo, base64url.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The key set with this one public key.
    pub fn jwks(&self) -> String {
        let point = self.signer.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at_checked(32).unwrap_or_default();
        let key = json!({
            "kty": "EC",
            "crv": "P-256",
            "use": "sig",
            "alg": "ES256",
            "kid": self.kid,
            "x": URL_SAFE_NO_PAD.encode(x),
            "y": URL_SAFE_NO_PAD.encode(y),
        });
        format!("{:#}\n", json!({ "keys": [key] }))
    }

    /// The public key, PEM (SubjectPublicKeyInfo).
    pub fn public_pem(&self) -> String {
        self.pem.public_key_pem()
    }

    /// Signs claims as they are, as an access token (`typ: at+jwt`, RFC 9068).
    ///
    /// # Errors
    /// [`DevError::Crypto`].
    pub fn sign(&self, claims: &Value) -> Result<String, DevError> {
        self.sign_parts(&json!({ "alg": "ES256", "typ": "at+jwt", "kid": self.kid }), claims.to_string().as_bytes())
    }

    /// Signs any header over any payload, for tests of verifiers.
    ///
    /// # Errors
    /// [`DevError::Crypto`].
    pub fn sign_parts(&self, header: &Value, payload: &[u8]) -> Result<String, DevError> {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(payload));
        let signature = self
            .signer
            .sign(&SystemRandom::new(), signed.as_bytes())
            .map_err(|error| DevError::Crypto(error.to_string()))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn from_pair(pem: KeyPair) -> Result<Self, DevError> {
        let signer = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pem.serialized_der())
            .map_err(|error| DevError::Crypto(error.to_string()))?;
        let kid = URL_SAFE_NO_PAD.encode(sha256(&pem.subject_public_key_info()));
        Ok(Self { pem, signer, kid })
    }

    /// The key is complete before it has its name, and never replaces another.
    fn write_key(&self, directory: &Path) -> Result<(), DevError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| DevError::File { path, source }
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        let path = directory.join(KEY_FILE);
        let draft = directory.join(format!(".{KEY_FILE}.{}", self.kid));
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed(&draft))?;
        let written = file.write_all(self.pem.serialize_pem().as_bytes()).and_then(|()| fs::hard_link(&draft, &path));
        fs::remove_file(&draft).map_err(failed(&draft))?;
        match written {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.map_err(failed(&path)),
        }
    }

    /// In one step, so that no reader sees half of it.
    fn write_jwks(&self, directory: &Path) -> Result<(), DevError> {
        let path = directory.join(JWKS_FILE);
        let draft = directory.join(format!(".{JWKS_FILE}.{}", std::process::id()));
        fs::write(&draft, self.jwks())
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(|source| DevError::File { path, source })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_readable_by_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("new");
        let first = SigningKey::open(&inner).unwrap();
        let again = SigningKey::open(&inner).unwrap();
        assert_eq!(first.kid(), again.kid());
        assert_eq!(first.jwks(), fs::read_to_string(inner.join(JWKS_FILE)).unwrap());
        assert_eq!(fs::metadata(inner.join(KEY_FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 2);
        assert!(matches!(SigningKey::generate().unwrap().write(&inner), Err(DevError::File { .. })));
        assert_eq!(SigningKey::open(&inner).unwrap().kid(), first.kid());
    }

    #[test]
    fn a_file_that_is_no_key_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(KEY_FILE), "nonsense").unwrap();
        let error = SigningKey::open(directory.path()).err().unwrap().to_string();
        assert!(error.contains(KEY_FILE) && error.contains("remove it"), "{error}");
    }
}
