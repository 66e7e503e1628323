//! Strict JSON objects for token headers and claims: UTF-8, no repeated member names at any level, bounded depth.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Levels of nesting; the claims of Kubernetes have 3, those of Keycloak 4.
const DEPTH: usize = 32;

/// Reads one JSON object and nothing behind it. None for everything else, also for a repeated member name, which two
/// readers may understand in two ways (RFC 7519 section 4, RFC 8725 section 2.4).
pub(super) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: DEPTH }.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    match value {
        Value::Object(members) => Some(members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}

#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| E::custom("nested too deeply"))?;
        Ok(Self { depth })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated member names")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(inner)?;
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a member name is repeated"));
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_as_it_stands() {
        let text = br#" {"a":[1,-2,1.5,"x",null,true],"b":{"a":{}}} "#;
        let expected: Value = serde_json::from_slice(text).unwrap();
        assert_eq!(object(text).map(Value::Object), Some(expected));
    }

    #[test]
    fn what_two_readers_may_understand_in_two_ways_is_nothing() {
        let deep = format!("{}{}", "{\"a\":".repeat(40), "1") + &"}".repeat(40);
        let table: &[&[u8]] = &[
            b"",
            b"[]",
            b"\"x\"",
            b"1",
            b"null",
            b"{} {}",
            b"{\"a\":1,\"a\":1}",
            b"{\"a\":1,\"\\u0061\":2}",
            b"{\"x\":[{\"a\":1,\"a\":2}]}",
            b"{\"a\":\"\xff\"}",
            b"{\"a\":1e400}",
            b"{\"a\":NaN}",
            b"{'a':1}",
            b"\xef\xbb\xbf{}",
            deep.as_bytes(),
        ];
        for text in table {
            assert_eq!(object(text), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
