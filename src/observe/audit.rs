//! The audit record: one JSON object a request, so that "who wrote this edge" can be answered later.
//!
//! A record never holds a token, and nothing in it is longer than a bound: texts are cut, lists are counted. The JSON
//! members are those of [`Record`], absent where the request did not get that far.

pub(crate) use self::record::dialect_word;
pub use self::record::{Bytes, Dataset, Decision, EventPart, Passed, Record, Stages};
pub use self::writer::{Audit, Error, Metrics};

mod file;
mod record;
mod writer;
