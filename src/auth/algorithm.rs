//! Signature algorithms (RFC 7518 section 3.1, RFC 8037), by their exact names.

use aws_lc_rs::signature::{self, RsaParameters, VerificationAlgorithm};

/// A signature algorithm that a configuration can accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
    Hs256,
}

/// What a key must be to serve an algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Rsa,
    P256,
    P384,
    Ed25519,
    Secret,
}

impl Algorithm {
    pub(super) const ALL: [Self; 10] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
        Self::Hs256,
    ];

    /// By name, case-sensitively: `none`, `noNE` and `rs256` are nothing (RFC 8725 section 3.1).
    pub(super) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
            Self::Hs256 => "HS256",
        }
    }

    pub(super) const fn family(self) -> Family {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => Family::Rsa,
            Self::Es256 => Family::P256,
            Self::Es384 => Family::P384,
            Self::EdDsa => Family::Ed25519,
            Self::Hs256 => Family::Secret,
        }
    }

    /// How a public key verifies it; none for HS256. ECDSA signatures are `r` and `s` at fixed length (RFC 7518 section
    /// 3.4): DER is of the wrong length.
    pub(super) fn verification(self) -> Option<&'static dyn VerificationAlgorithm> {
        const fn rsa(parameters: &'static RsaParameters) -> Option<&'static dyn VerificationAlgorithm> {
            Some(parameters)
        }
        match self {
            Self::Rs256 => rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => rsa(&signature::RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => rsa(&signature::RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => rsa(&signature::RSA_PSS_2048_8192_SHA512),
            Self::Es256 => Some(&signature::ECDSA_P256_SHA256_FIXED),
            Self::Es384 => Some(&signature::ECDSA_P384_SHA384_FIXED),
            Self::EdDsa => Some(&signature::ED25519),
            Self::Hs256 => None,
        }
    }
}
