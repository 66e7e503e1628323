//! `upstreams[].auth` as it is written: `none`, `forward`, `{ bearer_file: FILE }` or `{ header: NAME, file: FILE }`.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{HeaderFile, UpstreamAuth};

const ACCEPTED: &str = "none, forward, { bearer_file: FILE } or { header: NAME, file: FILE }";

/// The keys of both mappings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    bearer_file: Option<PathBuf>,
    #[serde(default)]
    header: Option<String>,
    #[serde(default)]
    file: Option<PathBuf>,
}

impl<'de> Deserialize<'de> for UpstreamAuth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = UpstreamAuth;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ACCEPTED)
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<UpstreamAuth, E> {
        match word {
            "none" => Ok(UpstreamAuth::None),
            "forward" => Ok(UpstreamAuth::Forward),
            other => Err(E::custom(format!("`{other}` is no credential: {ACCEPTED}"))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UpstreamAuth, A::Error> {
        match Keys::deserialize(MapAccessDeserializer::new(map))? {
            Keys { bearer_file: Some(file), header: None, file: None } => Ok(UpstreamAuth::BearerFile(file)),
            Keys { bearer_file: None, header: Some(name), file: Some(file) } => {
                Ok(UpstreamAuth::Header(HeaderFile { name, file }))
            }
            Keys { .. } => Err(A::Error::custom(format!("these keys make no credential: {ACCEPTED}"))),
        }
    }
}

impl Serialize for UpstreamAuth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Forward => serializer.serialize_str("forward"),
            Self::BearerFile(file) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("bearer_file", file)?;
                map.end()
            }
            Self::Header(HeaderFile { name, file }) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("header", name)?;
                map.serialize_entry("file", file)?;
                map.end()
            }
        }
    }
}

impl JsonSchema for UpstreamAuth {
    fn schema_name() -> Cow<'static, str> {
        "UpstreamAuth".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "const": "none", "description": "No credential." },
                { "const": "forward", "description": "The caller's own token." },
                {
                    "type": "object",
                    "description": "`Authorization: Bearer` with the content of a file, read anew when it changes.",
                    "properties": { "bearer_file": { "type": "string" } },
                    "required": ["bearer_file"],
                    "additionalProperties": false
                },
                {
                    "type": "object",
                    "description": "A header with the content of a file, read anew when it changes.",
                    "properties": { "header": { "type": "string" }, "file": { "type": "string" } },
                    "required": ["header", "file"],
                    "additionalProperties": false
                }
            ]
        })
    }
}
