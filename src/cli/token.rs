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
pub struct Token {
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
    pub fn run(self) -> anyhow::Result<()> {
        let key = SigningKey::open(&self.out)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?.as_secs();
        let token = key.sign(&self.claims(now))?;
        writeln!(std::io::stdout(), "{token}").context("cannot write to standard output")
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
    use clap::Parser;

    use super::*;

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
}
