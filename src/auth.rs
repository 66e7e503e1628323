//! Bearer token → [`Caller`]: issuers, their keys, and the checks that a token must pass (facts: standards and peers 3.5).

use std::sync::Arc;
use std::time::SystemTime;

/// The verified identity behind a request.
///
/// Subject and groups carry their issuer's `prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The `iss` claim.
    pub issuer: Arc<str>,
    /// The caller's name.
    pub subject: Arc<str>,
    /// The groups that the token names.
    pub groups: Arc<[Arc<str>]>,
    /// `jti`, or else the first 16 hex digits of the token's SHA-256: for the audit.
    pub token_id: Arc<str>,
    /// When the token ends, leeway not counted.
    pub expires: SystemTime,
    /// SHA-256 over all claims but `exp`, `iat`, `nbf` and `jti`: what a policy source may decide by.
    pub identity: [u8; 32],
}
