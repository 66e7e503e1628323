//! Values that are written as one text: addresses, the audit's output.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use super::{Address, AuditOutput};

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        text.parse()
            .map(Self::Tcp)
            .map_err(|_| format!("`{text}` is no address: IP:PORT such as 0.0.0.0:8443 or [::]:8443, or unix:PATH"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Address {
    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["0.0.0.0:8443", "unix:/run/lineage-gate.sock"] })
    }
}

impl<'de> Deserialize<'de> for AuditOutput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        Ok(match text.as_ref() {
            "stdout" => Self::Stdout,
            "off" => Self::Off,
            path => Self::File(PathBuf::from(path)),
        })
    }
}

impl JsonSchema for AuditOutput {
    fn schema_name() -> Cow<'static, str> {
        "AuditOutput".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["stdout", "off", "/var/log/lineage-gate/audit.jsonl"] })
    }
}
