//! Why a request is not let in, and why a configuration is refused.

use std::path::PathBuf;
use std::sync::Arc;

use crate::answer::{Challenge, Refusal};
use crate::config;

/// Why a request is not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No bearer token was sent at all.
    #[error("no bearer token was sent")]
    NoToken,
    /// What was sent does not hold.
    #[error("{}", .0.words())]
    Token(Reason),
    /// The token is good, but a claim of `required_claims` is missing or has another value.
    #[error("a claim that the issuer's configuration requires is missing")]
    InsufficientScope,
    /// The issuer's keys are not known, or are older than `max_stale`: not the caller's fault.
    #[error("the keys of issuer {issuer} are not known now; look for `auth` warnings in the log")]
    KeysUnavailable {
        /// The issuer, as configured.
        issuer: Arc<str>,
    },
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::NoToken => {
                Self::Unauthenticated(Challenge { token_sent: false, reason: "a bearer token is required" })
            }
            Error::Token(reason) => Self::Unauthenticated(Challenge { token_sent: true, reason: reason.words() }),
            Error::InsufficientScope => Self::InsufficientScope,
            Error::KeysUnavailable { .. } => Self::KeysUnavailable,
        }
    }
}

/// What is wrong with a token or with how it was sent: one for each rule of the checklist (facts: standards and peers
/// 3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Two `Authorization` headers, or two credentials in one.
    SentTwice,
    /// An `access_token` parameter in the query.
    InQuery,
    /// `Authorization: Bearer` without a token, or with more than one word behind it.
    HeaderForm,
    /// Over `auth.max_token`.
    TooLong,
    /// Not three segments of strict base64url with a JSON object in the first two.
    Malformed,
    /// Five segments, or the header of a JWE.
    Encrypted,
    /// The payload is a token again (`cty: JWT`).
    Nested,
    /// `crit`, or `b64` other than true.
    Extension,
    /// `alg` is not one that the issuer's configuration accepts.
    Algorithm,
    /// `typ` is not accepted, or names another kind of token.
    Type,
    /// The token is an ID, refresh, logout or security event token.
    Purpose,
    /// `iss` is missing or not configured.
    Issuer,
    /// The issuer has no key with this `kid`.
    UnknownKey,
    /// The issuer's key of this `kid` is for another algorithm.
    KeyMismatch,
    /// No `kid`, and several keys that may be meant.
    AmbiguousKey,
    /// The signature does not hold.
    Signature,
    /// `aud` is missing or names others only.
    Audience,
    /// A time claim is missing, or is no number that can be a time.
    Times,
    /// `exp` has passed.
    Expired,
    /// `nbf` or `iat` lies in the future.
    NotYet,
    /// `exp` is too long after `iat`, or `iat` is missing.
    Lifetime,
    /// The token is bound to a key (`cnf`), which nothing proves.
    Bound,
    /// No usable name of the caller.
    Subject,
    /// The groups are elsewhere, or are no list of strings.
    Groups,
    /// A claim that RFC 9068 section 2.2 requires is missing.
    Profile,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 25] = [
        Self::SentTwice,
        Self::InQuery,
        Self::HeaderForm,
        Self::TooLong,
        Self::Malformed,
        Self::Encrypted,
        Self::Nested,
        Self::Extension,
        Self::Algorithm,
        Self::Type,
        Self::Purpose,
        Self::Issuer,
        Self::UnknownKey,
        Self::KeyMismatch,
        Self::AmbiguousKey,
        Self::Signature,
        Self::Audience,
        Self::Times,
        Self::Expired,
        Self::NotYet,
        Self::Lifetime,
        Self::Bound,
        Self::Subject,
        Self::Groups,
        Self::Profile,
    ];

    /// Fixed words for the caller: nothing from the request, no quotes or backslashes (RFC 6750 section 3).
    pub const fn words(self) -> &'static str {
        match self {
            Self::SentTwice => "more than one Authorization header or credential was sent; send exactly one",
            Self::InQuery => "a token in the query is not accepted; send it in the Authorization header",
            Self::HeaderForm => "the Authorization header is not the word Bearer and one token",
            Self::TooLong => "the token is too long",
            Self::Malformed => "the token is not a well-formed signed JWT",
            Self::Encrypted => "encrypted tokens are not accepted",
            Self::Nested => "nested tokens are not accepted",
            Self::Extension => "the token demands an extension that is not supported",
            Self::Algorithm => "the signature algorithm of the token is not accepted",
            Self::Type => "the type of the token is not accepted",
            Self::Purpose => "this is not an access token",
            Self::Issuer => "the issuer of the token is not accepted",
            Self::UnknownKey => "the issuer has no such signing key",
            Self::KeyMismatch => "the signing key is for another algorithm",
            Self::AmbiguousKey => "the token does not say which of several keys signed it",
            Self::Signature => "the signature of the token does not hold",
            Self::Audience => "the token is for another audience",
            Self::Times => "exp, nbf or iat of the token is missing or no valid time",
            Self::Expired => "the token has expired",
            Self::NotYet => "the token is not valid yet",
            Self::Lifetime => "the token lives longer than is accepted",
            Self::Bound => "the token is bound to a key, and its proof is not supported",
            Self::Subject => "the token does not name its subject in an acceptable way",
            Self::Groups => "the token does not carry its groups as a list of names",
            Self::Profile => "a claim that RFC 9068 requires is missing",
        }
    }

    /// A fixed word for metrics and the audit.
    pub const fn label(self) -> &'static str {
        match self {
            Self::SentTwice => "sent_twice",
            Self::InQuery => "in_query",
            Self::HeaderForm => "header_form",
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Encrypted => "encrypted",
            Self::Nested => "nested",
            Self::Extension => "extension",
            Self::Algorithm => "algorithm",
            Self::Type => "type",
            Self::Purpose => "purpose",
            Self::Issuer => "issuer",
            Self::UnknownKey => "unknown_key",
            Self::KeyMismatch => "key_mismatch",
            Self::AmbiguousKey => "ambiguous_key",
            Self::Signature => "signature",
            Self::Audience => "audience",
            Self::Times => "times",
            Self::Expired => "expired",
            Self::NotYet => "not_yet",
            Self::Lifetime => "lifetime",
            Self::Bound => "bound",
            Self::Subject => "subject",
            Self::Groups => "groups",
            Self::Profile => "profile",
        }
    }
}

impl From<Reason> for Error {
    fn from(reason: Reason) -> Self {
        Self::Token(reason)
    }
}

/// What is wrong with the `auth` section, or with a file that it names.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A value that cannot be meant.
    #[error("{key}: {text}")]
    Meaning {
        /// Where, such as `auth.issuers[0].audiences`.
        key: String,
        /// What is wrong and what to do.
        text: String,
    },
    /// A file that cannot be read.
    #[error("{key}: cannot read {}: {source}", path.display())]
    Unreadable {
        /// Where, such as `auth.issuers[0].jwks_file`.
        key: String,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file without a key or certificate that can be used.
    #[error("{key}: {}: {text}", path.display())]
    Unusable {
        /// Where, such as `auth.issuers[0].public_key_file`.
        key: String,
        /// The file.
        path: PathBuf,
        /// What is wrong; never the content.
        text: String,
    },
}

impl From<&Fault> for config::Fault {
    fn from(fault: &Fault) -> Self {
        match fault {
            Fault::Meaning { key, text } => Self::new(key, text),
            Fault::Unreadable { key, path, source } => {
                Self::new(key, format!("cannot read {}: {source}", path.display()))
            }
            Fault::Unusable { key, path, text } => Self::new(key, format!("{}: {text}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn labels_are_distinct() {
        let labels: HashSet<_> = Reason::ALL.iter().map(|reason| reason.label()).collect();
        assert_eq!(labels.len(), Reason::ALL.len());
    }

    #[test]
    fn words_are_distinct_and_fit_an_error_description() {
        let words: HashSet<_> = Reason::ALL.iter().map(|reason| reason.words()).collect();
        assert_eq!(words.len(), Reason::ALL.len());
        for text in words {
            // RFC 6750 section 3: %x20-21 / %x23-5B / %x5D-7E.
            assert!(text.bytes().all(|b| matches!(b, 0x20..=0x21 | 0x23..=0x5b | 0x5d..=0x7e)), "{text}");
        }
    }

    #[test]
    fn only_a_request_without_token_is_challenged_without_an_error() {
        let token_sent = |error: Error| {
            let Refusal::Unauthenticated(challenge) = Refusal::from(error) else { panic!("no challenge") };
            challenge.token_sent
        };
        assert!(!token_sent(Error::NoToken));
        for reason in Reason::ALL {
            assert!(token_sent(reason.into()));
        }
        assert_eq!(Refusal::from(Error::InsufficientScope), Refusal::InsufficientScope);
        assert_eq!(Refusal::from(Error::KeysUnavailable { issuer: "i".into() }), Refusal::KeysUnavailable);
    }
}
