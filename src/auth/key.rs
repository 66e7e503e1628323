//! Verification keys, and which of them a token means.

use std::sync::Arc;

use aws_lc_rs::signature::{ParsedPublicKey, RsaParameters, RsaSubjectPublicKey};
use aws_lc_rs::{digest, hmac};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;

use super::algorithm::{Algorithm, Family};
use super::error::Reason;

/// Smallest modulus, in bits (RFC 7518 section 3.3).
const RSA_BITS: u32 = 2048;
/// Shortest secret, in bytes: the output of SHA-256 (RFC 7518 section 3.2).
const SECRET_BYTES: usize = 32;

/// SHA-256 over a key, its id and the algorithms that it serves.
pub(super) type Thumbprint = [u8; 32];

/// The usable keys of one issuer.
#[derive(Default)]
pub(super) struct KeySet {
    keys: Vec<Arc<Key>>,
    /// The one key of a file has no id: a token's `kid` says nothing about it.
    ignores_kid: bool,
}

/// One key, ready for each accepted algorithm that it serves.
pub(super) struct Key {
    kid: Option<String>,
    verifiers: Vec<(Algorithm, Verifier)>,
    thumbprint: Thumbprint,
}

enum Verifier {
    Public(ParsedPublicKey),
    Secret(Box<hmac::Key>),
}

impl KeySet {
    /// Keys of a JSON Web Key Set. One that is there twice counts once.
    pub(super) fn of_set(keys: Vec<Key>) -> Self {
        let mut distinct: Vec<Arc<Key>> = Vec::with_capacity(keys.len());
        for key in keys {
            if !distinct.iter().any(|other| other.thumbprint == key.thumbprint) {
                distinct.push(Arc::new(key));
            }
        }
        Self { keys: distinct, ignores_kid: false }
    }

    /// The public key of a PEM file (`PUBLIC KEY`, RFC 7468 section 13).
    pub(super) fn of_pem(pem: &[u8], accepted: &[Algorithm]) -> Result<Self, String> {
        let mut sections = SubjectPublicKeyInfoDer::pem_slice_iter(pem);
        let (Some(Ok(der)), None) = (sections.next(), sections.next()) else {
            return Err("holds not exactly one PEM section `PUBLIC KEY`".to_owned());
        };
        let family = [Family::P256, Family::P384, Family::Ed25519, Family::Rsa]
            .into_iter()
            .find(|family| parses(*family, &der))
            .ok_or("is no RSA, P-256, P-384 or Ed25519 public key")?;
        Self::of_one(Key::public(None, family, &der, accepted)?)
    }

    /// A shared secret for HS256. The line end of a text file does not belong to it.
    pub(super) fn of_secret(content: &[u8]) -> Result<Self, String> {
        let text = content.strip_suffix(b"\n").map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let secret = text.filter(|line| line.is_ascii()).unwrap_or(content);
        if secret.len() < SECRET_BYTES {
            return Err(format!("holds {} bytes; a secret for HS256 has at least {SECRET_BYTES}", secret.len()));
        }
        let verifier = Verifier::Secret(Box::new(hmac::Key::new(hmac::HMAC_SHA256, secret)));
        Self::of_one(Key {
            kid: None,
            verifiers: vec![(Algorithm::Hs256, verifier)],
            thumbprint: thumbprint(None, &[Algorithm::Hs256], secret),
        })
    }

    fn of_one(key: Key) -> Result<Self, String> {
        Ok(Self { keys: vec![Arc::new(key)], ignores_kid: true })
    }

    /// The key that a token means: the one with its `kid`, or without `kid` the only one that serves its algorithm.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<Arc<Key>, Reason> {
        let kid = kid.filter(|_| !self.ignores_kid);
        let named = |key: &&Arc<Key>| kid.is_none_or(|kid| key.kid.as_deref() == Some(kid));
        let mut candidates = self.keys.iter().filter(named).filter(|key| key.verifier(algorithm).is_some());
        match (candidates.next(), candidates.next()) {
            (Some(key), None) => Ok(Arc::clone(key)),
            (Some(_), Some(_)) => Err(Reason::AmbiguousKey),
            (None, _) if kid.is_some() && self.keys.iter().any(|key| named(&key)) => Err(Reason::KeyMismatch),
            (None, _) => Err(Reason::UnknownKey),
        }
    }

    pub(super) fn has(&self, thumbprint: &Thumbprint) -> bool {
        self.keys.iter().any(|key| &key.thumbprint == thumbprint)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether both hold the same keys, in any order.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.keys.len() == other.keys.len() && self.keys.iter().all(|key| other.has(&key.thumbprint))
    }
}

impl Key {
    /// From a SubjectPublicKeyInfo, or for elliptic curves from the bare point. `accepted` are the algorithms that it may
    /// serve; those of another family are left out.
    pub(super) fn public(
        kid: Option<String>,
        family: Family,
        der: &[u8],
        accepted: &[Algorithm],
    ) -> Result<Self, &'static str> {
        if family == Family::Rsa && modulus_bits(der)? < RSA_BITS {
            return Err("is an RSA key of less than 2048 bits");
        }
        let mut verifiers = Vec::new();
        for algorithm in accepted.iter().copied().filter(|algorithm| algorithm.family() == family) {
            let Some(verification) = algorithm.verification() else { continue };
            let key = ParsedPublicKey::new(verification, der).map_err(|_| "is no valid key of its type")?;
            verifiers.push((algorithm, Verifier::Public(key)));
        }
        if verifiers.is_empty() {
            return Err("serves none of the accepted `algorithms`");
        }
        let served: Vec<_> = verifiers.iter().map(|(algorithm, _)| *algorithm).collect();
        let thumbprint = thumbprint(kid.as_deref(), &served, der);
        Ok(Self { kid, verifiers, thumbprint })
    }

    pub(super) fn verify(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> Result<(), Reason> {
        let verified = match self.verifier(algorithm).ok_or(Reason::KeyMismatch)? {
            Verifier::Public(key) => key.verify_sig(signed, signature),
            Verifier::Secret(key) => hmac::verify(key, signed, signature),
        };
        verified.map_err(|_| Reason::Signature)
    }

    pub(super) fn thumbprint(&self) -> Thumbprint {
        self.thumbprint
    }

    fn verifier(&self, algorithm: Algorithm) -> Option<&Verifier> {
        self.verifiers.iter().find(|(served, _)| *served == algorithm).map(|(_, verifier)| verifier)
    }
}

/// SHA-256.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    finished(digest::digest(&digest::SHA256, bytes))
}

/// The 32 bytes of a SHA-256.
pub(super) fn finished(digest: digest::Digest) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (to, from) in bytes.iter_mut().zip(digest.as_ref()) {
        *to = *from;
    }
    bytes
}

fn thumbprint(kid: Option<&str>, served: &[Algorithm], material: &[u8]) -> Thumbprint {
    let mut context = digest::Context::new(&digest::SHA256);
    for algorithm in served {
        context.update(algorithm.name().as_bytes());
        context.update(b" ");
    }
    context.update(&sha256(material));
    if let Some(kid) = kid {
        context.update(kid.as_bytes());
    }
    finished(context.finish())
}

fn parses(family: Family, der: &[u8]) -> bool {
    Algorithm::ALL
        .into_iter()
        .find(|algorithm| algorithm.family() == family)
        .and_then(Algorithm::verification)
        .is_some_and(|verification| ParsedPublicKey::new(verification, der).is_ok())
}

fn modulus_bits(der: &[u8]) -> Result<u32, &'static str> {
    let key = RsaSubjectPublicKey::from_der(der).map_err(|_| "is no valid RSA key")?;
    RsaParameters::public_modulus_len(key.as_ref()).map_err(|_| "is no valid RSA key")
}
