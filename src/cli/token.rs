//! `lineage-gate token`: a development key, its key set, and a token signed with it.

use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde_json::{Value, json};

use crate::auth::dev::SigningKey;
use crate::config::Span;

/// Make a development key and print a token signed with it.
///
/// DIR/key.pem is made once and used again; DIR/jwks.json is what `auth.issuers[].jwks_file` takes. Never accept such
/// tokens in production: whoever reads key.pem can be anyone.
#[derive(Debug, clap::Args)]
pub(super) struct Token {
    /// Directory for key.pem and jwks.json
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The `iss` claim
    #[arg(long, default_value = "https://lineage-gate.invalid/dev")]
    issuer: String,
    /// The `aud` claim
    #[arg(long, default_value = "lineage")]
    audience: String,
    /// The `sub` claim: who calls
    #[arg(long, default_value = "alice")]
    subject: String,
    /// The `groups` claim, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "GROUPS")]
    groups: Vec<String>,
    /// Time until the token expires
    #[arg(long, default_value = "1h", value_name = "DURATION")]
    ttl: Span,
}

impl Token {
    /// Writes the files and prints the token, alone on a line, to standard output.
    ///
    /// # Errors
    /// Files that cannot be read or written.
    pub(super) fn run(self) -> anyhow::Result<()> {
        writeln!(std::io::stdout(), "{}", self.sign()?).context("cannot write to standard output")
    }

    fn sign(&self) -> anyhow::Result<String> {
        let key = SigningKey::open(&self.out)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?.as_secs();
        Ok(key.sign(&self.claims(now))?)
    }

    fn claims(&self, now: u64) -> Value {
        let mut claims = json!({
            "iss": self.issuer,
            "aud": self.audience,
            "sub": self.subject,
            "client_id": "lineage-gate-token",
            "iat": now,
            "exp": now.saturating_add(self.ttl.0.as_secs()),
            "jti": uuid::Uuid::now_v7().to_string(),
        });
        if let (Some(claims), false) = (claims.as_object_mut(), self.groups.is_empty()) {
            claims.insert("groups".to_owned(), json!(self.groups));
        }
        claims
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser;
    use http::HeaderMap;
    use http::header::AUTHORIZATION;

    use super::*;
    use crate::auth::{Authenticator, Metrics};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        token: Token,
    }

    #[test]
    fn arguments_become_claims() {
        let arguments = "x --out d --issuer i --audience a --subject s --groups g,h --ttl 90s";
        let Command { token } = Command::try_parse_from(arguments.split(' ')).unwrap();
        let mut claims = token.claims(1_000);
        assert!(claims["jti"].take().is_string());
        let expected = json!({
            "iss": "i", "aud": "a", "sub": "s", "groups": ["g", "h"], "iat": 1_000, "exp": 1_090,
            "client_id": "lineage-gate-token", "jti": null,
        });
        assert_eq!(claims, expected);
    }

    #[test]
    fn a_token_without_groups_has_no_such_claim_and_a_bad_duration_is_refused() {
        let Command { token } = Command::try_parse_from(["x", "--out", "d"]).unwrap();
        assert_eq!(token.claims(0).get("groups"), None);
        assert!(Command::try_parse_from(["x", "--out", "d", "--ttl", "1 hour"]).is_err());
    }

    #[tokio::test]
    async fn the_token_holds_with_the_key_set_beside_it_and_the_strictest_profile() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("dev");
        let arguments = ["x", "--groups", "g", "--out", out.to_str().unwrap()];
        let Command { token } = Command::try_parse_from(arguments).unwrap();
        let issuer = json!({
            "issuer": token.issuer, "audiences": ["lineage"], "jwks_file": out.join("jwks.json"),
            "token_types": ["at+jwt"], "max_lifetime": "1h",
        });
        let signed = token.sign().unwrap();
        let config = serde_json::from_value(json!({ "issuers": [issuer] })).unwrap();
        let auth =
            Authenticator::new(&config, Arc::new(Metrics::default())).unwrap_or_else(|faults| panic!("{faults:?}"));
        let headers = HeaderMap::from_iter([(AUTHORIZATION, format!("Bearer {signed}").parse().unwrap())]);
        let caller = auth.authenticate(&headers, None).await.unwrap();
        assert_eq!((&*caller.subject, &*caller.groups), ("alice", &["g".into()][..]));
        assert_eq!(token.sign().map(|again| again == signed).ok(), Some(false), "each token has its own id");
    }
}
