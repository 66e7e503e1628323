//! Quantities as they are written in configuration: `10s`, `100/s`, `10MiB`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// A duration: a whole number and one of `ms`, `s`, `m`, `h`, `d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A number of bytes: a whole number, alone or with one of `B`, `KiB`, `MiB`, `GiB`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// An amount in a time: `100/s`, `6000/m`, `100000/h`, `10MiB/s`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many in each `per`; never 0.
    pub amount: u64,
    /// One second, minute or hour.
    pub per: Duration,
}

/// Why a text is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a duration.
    #[error("`{0}` is no duration: a whole number with ms, s, m, h or d, such as 10s")]
    Span(String),
    /// Not a size.
    #[error("`{0}` is no size: a whole number, alone or with B, KiB, MiB or GiB, such as 10MiB")]
    Size(String),
    /// Not a rate.
    #[error("`{0}` is no rate: an amount above 0 and a unit of time, such as 100/s, 6000/m, 100000/h or 10MiB/s")]
    Rate(String),
}

impl Span {
    /// Whole seconds.
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// Whole milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
}

impl Size {
    /// Whole KiB.
    pub const fn kib(kib: u64) -> Self {
        Self(kib * 1024)
    }

    /// Whole MiB.
    pub const fn mib(mib: u64) -> Self {
        Self(mib * 1024 * 1024)
    }

    /// As a length in memory; the largest one where the number does not fit.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::Span(text.to_owned());
        let (number, unit) = split_number(text).ok_or_else(wrong)?;
        let millis_each: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        let millis = number.checked_mul(millis_each).ok_or_else(wrong)?;
        Ok(Self(Duration::from_millis(millis)))
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::Size(text.to_owned());
        let (number, unit) = split_number(text).ok_or_else(wrong)?;
        let bytes_each: u64 = match unit {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(wrong()),
        };
        number.checked_mul(bytes_each).map(Self).ok_or_else(wrong)
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::Rate(text.to_owned());
        let (amount, unit) = text.split_once('/').ok_or_else(wrong)?;
        let Size(amount) = amount.parse().map_err(|_| wrong())?;
        let per = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            _ => return Err(wrong()),
        };
        if amount == 0 {
            return Err(wrong());
        }
        Ok(Self { amount, per: Duration::from_secs(per) })
    }
}

fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, unit))
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        if millis.is_multiple_of(1_000) { write!(f, "{}s", millis / 1_000) } else { write!(f, "{millis}ms") }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes != 0 && bytes.is_multiple_of(1 << 30) => write!(f, "{}GiB", bytes >> 30),
            bytes if bytes != 0 && bytes.is_multiple_of(1 << 20) => write!(f, "{}MiB", bytes >> 20),
            bytes if bytes != 0 && bytes.is_multiple_of(1 << 10) => write!(f, "{}KiB", bytes >> 10),
            bytes => write!(f, "{bytes}"),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.per.as_secs() {
            1 => "s",
            60 => "m",
            _ => "h",
        };
        write!(f, "{}/{unit}", self.amount)
    }
}

macro_rules! quantity {
    ($type:ident, $pattern:literal, $example:literal) => {
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Text::deserialize(deserializer)?;
                text.0.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": ["string", "integer"], "pattern": $pattern, "examples": [$example] })
            }
        }
    };
}

quantity!(Span, "^[0-9]+(ms|s|m|h|d)$", "10s");
quantity!(Size, "^[0-9]+(B|KiB|MiB|GiB)?$", "10MiB");
quantity!(Rate, "^[0-9]+(B|KiB|MiB|GiB)?/(s|m|h)$", "100/s");

/// A scalar, as text: YAML gives a bare number its own type.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl serde::de::Visitor<'_> for Visitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 10s, 10MiB or 100/s")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_and_written_back() {
        assert_eq!("250ms".parse(), Ok(Span::millis(250)));
        assert_eq!("2h".parse(), Ok(Span::secs(7_200)));
        assert_eq!("16MiB".parse(), Ok(Size::mib(16)));
        assert_eq!("7".parse(), Ok(Size(7)));
        assert_eq!("6000/m".parse(), Ok(Rate { amount: 6_000, per: Duration::from_secs(60) }));
        assert_eq!("10MiB/s".parse::<Rate>().map(|rate| rate.amount), Ok(10 << 20));
        assert_eq!(Size::mib(16).to_string(), "16MiB");
        assert_eq!(Span::millis(250).to_string(), "250ms");
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_an_example() {
        for text in ["", "10", "s", "1.5s", "-1s", "10 s", "99999999999999999999s", "10x"] {
            assert_eq!(text.parse::<Span>(), Err(UnitError::Span(text.to_owned())));
        }
        for text in ["", "MiB", "10MB", "18446744073709551615GiB"] {
            assert_eq!(text.parse::<Size>(), Err(UnitError::Size(text.to_owned())));
        }
        for text in ["", "0/s", "10", "10/", "10/d", "/s"] {
            assert_eq!(text.parse::<Rate>(), Err(UnitError::Rate(text.to_owned())));
        }
    }
}
