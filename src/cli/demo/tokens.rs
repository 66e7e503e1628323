//! Tokens for the demonstration's callers, signed with a key that lives as long as its folder.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde_json::json;

use crate::auth::dev::SigningKey;

pub(super) const ISSUER: &str = "https://idp.demo.example/";
pub(super) const AUDIENCE: &str = "lineage";

const LIFETIME: u64 = 8 * 3_600;

/// Who sends an event, and with what kind of token.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) name: &'static str,
    pub(super) groups: &'static [&'static str],
    pub(super) token: TokenKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    Good,
    Expired,
    OtherAudience,
}

pub(super) struct Tokens {
    key: SigningKey,
}

impl Tokens {
    pub(super) fn make(directory: &Path) -> anyhow::Result<Self> {
        let key = SigningKey::generate().context("making a signing key")?;
        fs::write(directory.join("jwks.json"), key.jwks())?;
        Ok(Self { key })
    }

    pub(super) fn of(&self, caller: &Caller) -> anyhow::Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let (audience, issued, expires) = match caller.token {
            TokenKind::Good => (AUDIENCE, now, now + LIFETIME),
            TokenKind::Expired => (AUDIENCE, now - 2 * LIFETIME, now - LIFETIME),
            TokenKind::OtherAudience => ("billing", now, now + LIFETIME),
        };
        let claims = json!({
            "iss": ISSUER, "aud": audience, "sub": caller.name, "groups": caller.groups,
            "iat": issued, "exp": expires, "jti": uuid::Uuid::now_v7().to_string(),
        });
        Ok(self.key.sign(&claims)?)
    }
}
