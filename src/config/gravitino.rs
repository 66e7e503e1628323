//! `policy.gravitino`: an Apache Gravitino server as the policy source.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ClientCertificate, Span, Upstream, UpstreamAuth, UpstreamKind, defaults};

/// An Apache Gravitino server as the policy source.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gravitino {
    /// Its base, without `/api`. `https`, or `http` on a loopback address: credentials travel there.
    pub url: String,
    /// How it is asked.
    #[serde(default)]
    pub mode: GravitinoMode,
    /// The job namespaces that it governs: `all`, or a list of metalakes. With `all` these are all that the policy files do
    /// not name, as a metalake or anywhere in a namespace rule: under `jobs`, `inputs` or `outputs`, by a pattern too, but
    /// for a lone `*`. References inside facets are judged only into the event's own metalake then; with a list, into all
    /// of the list.
    #[serde(default)]
    pub metalakes: Metalakes,
    /// CA certificates for `url`, PEM, instead of the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Certificate shown to the server.
    #[serde(default)]
    pub client_certificate: Option<ClientCertificate>,
    /// The service credential that `snapshot` reads with. `probe` needs none: it shows the caller's own.
    #[serde(default)]
    pub credential: UpstreamAuth,
    /// What becomes of a question that a snapshot cannot decide.
    #[serde(default)]
    pub fallback: GravitinoFallback,
    /// Pause between two readings of a snapshot; shorter than `policy.cache.stale_if_error`.
    #[serde(default = "defaults::gravitino_refresh")]
    pub refresh: Span,
    /// Time for one question, connection included.
    #[serde(default = "defaults::gravitino_timeout")]
    pub timeout: Span,
    /// Time for a connection, TLS included.
    #[serde(default = "defaults::connect_timeout")]
    pub connect_timeout: Span,
    /// Questions that are asked at once.
    #[serde(default = "defaults::gravitino_concurrency")]
    pub concurrency: usize,
}

/// How a Gravitino server is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GravitinoMode {
    /// One question a dataset, with the caller's own credential. For Gravitino 1.1 or later.
    #[default]
    Probe,
    /// Users, groups, roles and owners are read with a service credential, and the gate decides by them. For Gravitino 1.3
    /// or later, with `gravitino.schema.separator` left at `:`.
    Snapshot,
}

/// What becomes of a question that a snapshot cannot decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GravitinoFallback {
    /// The server is asked with the caller's own credential.
    #[default]
    Probe,
    /// 503.
    Refuse,
}

/// The metalakes that a server governs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Metalakes {
    /// All of them.
    #[default]
    All,
    /// These.
    Named(BTreeSet<String>),
}

impl Gravitino {
    /// The same server in the shape that connections are made from.
    pub(crate) fn as_upstream(&self) -> Upstream {
        let auth = match self.mode {
            GravitinoMode::Probe => UpstreamAuth::Forward,
            GravitinoMode::Snapshot => self.credential.clone(),
        };
        Upstream {
            name: "policy.gravitino".to_owned(),
            kind: UpstreamKind::Gravitino,
            url: Some(self.url.clone()),
            auth,
            ca_file: self.ca_file.clone(),
            client_certificate: self.client_certificate.clone(),
            connect_timeout: self.connect_timeout,
            timeout: self.timeout,
            idle_timeout: defaults::upstream_idle(),
            idle_connections: self.concurrency,
            ..Upstream::of_defaults()
        }
    }
}

impl<'de> Deserialize<'de> for Metalakes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Metalakes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all, or a list of metalakes")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Metalakes, E> {
        match word {
            "all" => Ok(Metalakes::All),
            other => Err(E::custom(format!("`{other}` is neither `all` nor a list: write [{other}]"))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, names: A) -> Result<Metalakes, A::Error> {
        BTreeSet::deserialize(SeqAccessDeserializer::new(names)).map(Metalakes::Named)
    }
}

impl Serialize for Metalakes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Named(names) => names.serialize(serializer),
        }
    }
}

impl JsonSchema for Metalakes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Metalakes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "const": "all", "description": "All that the policy files do not name." },
                { "type": "array", "items": { "type": "string" } }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_all_that_is_needed() {
        let read: Gravitino = serde_json::from_str(r#"{"url":"http://127.0.0.1:8090"}"#).unwrap();
        assert_eq!((read.mode, read.fallback), (GravitinoMode::Probe, GravitinoFallback::Probe));
        assert_eq!((read.metalakes, read.refresh, read.timeout), (Metalakes::All, Span::secs(10), Span::secs(2)));
        assert_eq!((read.connect_timeout, read.concurrency), (Span::secs(1), 16));
    }

    #[test]
    fn metalakes_are_all_or_a_list() {
        let read = |text| serde_json::from_str::<Metalakes>(text);
        assert_eq!(read(r#""all""#).unwrap(), Metalakes::All);
        let named = Metalakes::Named(BTreeSet::from(["demo".to_owned(), "other".to_owned()]));
        assert_eq!(read(r#"["demo","other"]"#).unwrap(), named);
        assert_eq!(serde_json::to_string(&named).unwrap(), r#"["demo","other"]"#);
        assert!(read(r#""demo""#).unwrap_err().to_string().contains("write [demo]"));
    }
}
