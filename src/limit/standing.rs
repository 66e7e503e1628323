//! `RateLimit-Policy` and `RateLimit` fields (draft-ietf-httpapi-ratelimit-headers-11; facts: standards and peers 3.1).

use std::fmt::Write;
use std::sync::Arc;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::bucket::Bucket;
use crate::config::LimitUnit;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit");

/// How a caller stands with the limits that it may know of: its own, and those of a metalake or namespace that it was
/// found to be a member of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standings(Vec<Standing>);

/// How a caller stands with one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    name: Arc<str>,
    unit: LimitUnit,
    burst: u32,
    window: u64,
    remaining: u64,
    /// Seconds until the bucket is full, rounded up.
    full_in: u64,
}

impl Standings {
    /// Takes over what a later point of the same request found.
    pub fn merge(&mut self, later: Self) {
        for standing in later.0 {
            match self.0.iter_mut().find(|known| known.name == standing.name) {
                Some(known) => *known = standing,
                None => self.0.push(standing),
            }
        }
    }

    /// Adds the fields to the headers of an answer; nothing if there is no limit to tell of.
    ///
    /// An answer with `Retry-After` says no `t`: that would be a second, later time to come back at. A limit of events says
    /// no `qu`: the draft has no word for it, and a single event is a request.
    pub fn write(&self, headers: &mut HeaderMap) {
        let with_time = !headers.contains_key(RETRY_AFTER);
        let mut policy = String::new();
        let mut remaining = String::new();
        for standing in &self.0 {
            let comma = if policy.is_empty() { "" } else { ", " };
            let unit = match standing.unit {
                LimitUnit::Bytes => r#";qu="content-bytes""#,
                LimitUnit::Requests | LimitUnit::Events => "",
            };
            let Standing { name, burst, window, remaining: left, full_in, .. } = standing;
            // Writing to a String cannot fail.
            let _ = write!(policy, r#"{comma}"{name}";q={burst}{unit};w={window}"#);
            let _ = write!(remaining, r#"{comma}"{name}";r={left}"#);
            if with_time {
                let _ = write!(remaining, ";t={full_in}");
            }
        }
        for (field, text) in [(POLICY, policy), (REMAINING, remaining)] {
            if let (false, Ok(value)) = (text.is_empty(), HeaderValue::try_from(text)) {
                headers.insert(field, value);
            }
        }
    }
}

impl FromIterator<Standing> for Standings {
    fn from_iter<I: IntoIterator<Item = Standing>>(standings: I) -> Self {
        Self(standings.into_iter().collect())
    }
}

impl Standing {
    pub(super) fn new(name: Arc<str>, unit: LimitUnit, bucket: &Bucket, until_full: u64) -> Self {
        Self {
            name,
            unit,
            burst: bucket.burst(),
            window: bucket.window(),
            remaining: bucket.remaining(until_full),
            full_in: bucket.full_in(until_full),
        }
    }
}
