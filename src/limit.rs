//! Rate limits: a plan of all that match, charged together or not at all; `RateLimit` fields.
//!
//! A request passes four [`Point`]s, and each is one plan: of the limits that belong to it either all are charged or none
//! is. What an earlier point charged stays charged when a later one refuses: a caller's request limit is for the work of
//! reading a request, and its event and byte limits are for what was read.
//!
//! | limit | charged at |
//! |---|---|
//! | `peer`, requests | [`Point::Arrival`] |
//! | `caller`, requests | [`Point::Identified`] |
//! | `peer` and `caller`, events and bytes | [`Point::Parsed`] |
//! | `metalake` and `namespace`, any unit | [`Point::Judged`] |
//!
//! A bucket's state is the time at which it is full again. A full bucket is the same as none, so that such states can be
//! dropped at any time. The decision is governor's, the store is ours: it holds the shards of a whole plan locked, tries
//! every limit on a copy of its state, and writes the copies back only if all of them passed. Locks are taken in the order
//! of the configuration, so that two plans never wait for each other, and never across an await.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::time::Instant;

use crate::auth::Caller;
use crate::config::{self, LimitScope, LimitUnit};

pub use self::metrics::Metrics;
pub use self::standing::Standings;

use self::bucket::{Admission, Bucket};
use self::definition::Definition;
use self::key::Key;
use self::metrics::Counters;
use self::standing::Standing;
use self::store::{Place, Store};

mod bucket;
mod definition;
mod key;
mod metrics;
mod standing;
mod store;

/// Governor counts in whole nanoseconds, which is coarse for bytes: at 100 MiB/s one byte is 9.5 ns. In this module a tick
/// is a 16th of a nanosecond; a `u64` of them lasts 36 years.
const TICKS_PER_NANO: u64 = 16;

const TICKS_PER_SECOND: u64 = 1_000_000_000 * TICKS_PER_NANO;

/// All limits of a configuration, with their buckets.
#[derive(Debug)]
pub struct Limits {
    limits: Vec<Limit>,
    epoch: Instant,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// A head was read, and no token was looked at.
    Arrival,
    /// The caller is known, and no body was read.
    Identified,
    /// The event is known, and nothing was judged.
    Parsed,
    /// The event is allowed, and was not sent.
    Judged,
}

/// What is known of a request at a point.
#[derive(Debug, Clone, Copy, Default)]
pub struct Subject<'a> {
    /// The address of the connection; none on a Unix socket, whose peers share one bucket.
    pub peer: Option<IpAddr>,
    /// The verified caller, from [`Point::Identified`] on.
    pub caller: Option<&'a Caller>,
    /// At [`Point::Judged`]: the metalake that the event belongs to. The caller is then a member of it.
    pub metalake: Option<&'a str>,
    /// At [`Point::Judged`]: the job namespace of an event outside any metalake.
    pub namespace: Option<&'a str>,
}

/// What a request costs beyond being one request. Not looked at before [`Point::Parsed`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Events.
    pub events: u64,
    /// Bytes of the body, decoded.
    pub bytes: u64,
}

/// Why a plan was refused. Nothing of it was charged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// A limit is used up; it has room again later.
    #[error("limit `{limit}` is used up")]
    Limited {
        /// The first such limit in the order of the configuration.
        limit: Arc<str>,
        /// How the caller stands, with nothing charged.
        standings: Standings,
    },
    /// One request costs more than the limit's whole burst: no waiting helps.
    #[error("one request is over the whole burst of limit `{limit}`")]
    OverBurst {
        /// The limit's name.
        limit: Arc<str>,
        /// How the caller stands, with nothing charged.
        standings: Standings,
    },
}

/// Faults of meaning in `limits`, each a line for the operator; none if [`Limits::new`] takes them.
pub fn check(limits: &[config::Limit]) -> Vec<String> {
    definition::parse(limits).err().unwrap_or_default()
}

impl Limits {
    /// Makes the buckets of `limits`, all full. Time is counted from this call on.
    ///
    /// # Errors
    ///
    /// The faults that [`check`] reports.
    pub fn new(limits: &[config::Limit], metrics: &Metrics) -> Result<Self, Vec<String>> {
        let limits = definition::parse(limits)?
            .into_iter()
            .map(|definition| Limit {
                counters: metrics.of(&definition.name),
                store: Store::new(definition.max_keys),
                definition,
            })
            .collect();
        Ok(Self { limits, epoch: Instant::now() })
    }

    /// Charges every limit that belongs to `point` and matches `subject`, or none of them.
    ///
    /// A yes says how the caller stands with all limits that it may know of, also those that are charged later: they are
    /// only read. Standings of several points are put together with [`Standings::merge`].
    ///
    /// # Errors
    ///
    /// [`Exceeded`], with nothing charged.
    pub fn charge(
        &self,
        point: Point,
        subject: &Subject<'_>,
        cost: &Cost,
        now: Instant,
    ) -> Result<Standings, Exceeded> {
        let now = self.ticks(now);
        let mut plan = self.plan(point, subject, cost);
        let too_large = plan.iter().position(|part| part.bucket.never_holds(part.amount));
        for part in &mut plan {
            part.lock(now);
        }
        let unchanged = || plan.iter().filter_map(|part| part.standing(part.before)).collect();
        if let Some(part) = too_large.and_then(|index| plan.get(index)) {
            part.limit.counters.over_burst.inc();
            return Err(Exceeded::OverBurst { limit: part.limit.definition.name.clone(), standings: unchanged() });
        }
        if let Some(refusing) = plan.iter().find(|part| part.after.is_none()) {
            refusing.limit.counters.refused.inc();
            return Err(Exceeded::Limited { limit: refusing.limit.definition.name.clone(), standings: unchanged() });
        }
        let standings = plan.iter().filter_map(|part| part.standing(part.after.unwrap_or(part.before))).collect();
        for part in plan {
            part.commit(now);
        }
        Ok(standings)
    }

    /// How a known caller stands with its own limits, with nothing charged.
    pub fn standings(&self, subject: &Subject<'_>, now: Instant) -> Standings {
        let now = self.ticks(now);
        let mut plan = self.plan(Point::Identified, subject, &Cost::default());
        for part in &mut plan {
            part.amount = 0;
            part.lock(now);
        }
        plan.iter().filter_map(|part| part.standing(part.before)).collect()
    }

    /// Drops the buckets that are full again, one shard at a time. To be called every few seconds.
    pub fn sweep(&self, now: Instant) {
        let now = self.ticks(now);
        for limit in &self.limits {
            limit.store.sweep(now);
            limit.count_keys();
        }
    }

    fn plan(&self, point: Point, subject: &Subject<'_>, cost: &Cost) -> Vec<Part<'_>> {
        self.limits.iter().filter_map(|limit| limit.part(point, subject, cost)).collect()
    }

    fn ticks(&self, now: Instant) -> u64 {
        let nanos = now.saturating_duration_since(self.epoch).as_nanos();
        u64::try_from(nanos.saturating_mul(u128::from(TICKS_PER_NANO))).unwrap_or(u64::MAX)
    }
}

#[derive(Debug)]
struct Limit {
    definition: Definition,
    store: Store,
    counters: Counters,
}

impl Limit {
    /// What this limit has to do with `subject` at `point`: an amount to charge, 0 to read only, or nothing.
    fn part(&self, point: Point, subject: &Subject<'_>, cost: &Cost) -> Option<Part<'_>> {
        let amount = match (self.definition.scope, self.definition.unit, point) {
            (LimitScope::Peer, LimitUnit::Requests, Point::Arrival)
            | (LimitScope::Caller, LimitUnit::Requests, Point::Identified)
            | (LimitScope::Metalake | LimitScope::Namespace, LimitUnit::Requests, Point::Judged) => 1,
            (LimitScope::Peer | LimitScope::Caller, LimitUnit::Events, Point::Parsed)
            | (LimitScope::Metalake | LimitScope::Namespace, LimitUnit::Events, Point::Judged) => cost.events,
            (LimitScope::Peer | LimitScope::Caller, LimitUnit::Bytes, Point::Parsed)
            | (LimitScope::Metalake | LimitScope::Namespace, LimitUnit::Bytes, Point::Judged) => cost.bytes,
            (LimitScope::Caller, LimitUnit::Events | LimitUnit::Bytes, Point::Identified) => 0,
            (LimitScope::Peer, LimitUnit::Requests, Point::Identified | Point::Parsed | Point::Judged)
            | (
                LimitScope::Peer,
                LimitUnit::Events | LimitUnit::Bytes,
                Point::Arrival | Point::Identified | Point::Judged,
            )
            | (LimitScope::Caller, LimitUnit::Requests, Point::Arrival | Point::Parsed | Point::Judged)
            | (LimitScope::Caller, LimitUnit::Events | LimitUnit::Bytes, Point::Arrival | Point::Judged)
            | (LimitScope::Metalake | LimitScope::Namespace, _, Point::Arrival | Point::Identified | Point::Parsed) => {
                return None;
            }
        };
        let key = Key::of(self.definition.scope, subject)?;
        let bucket = self.definition.bucket(subject.caller);
        Some(Part { limit: self, key, bucket, amount, place: None, before: 0, after: None })
    }

    fn count_keys(&self) {
        self.counters.keys.set(i64::try_from(self.store.len()).unwrap_or(i64::MAX));
    }
}

/// One limit in a plan.
struct Part<'a> {
    limit: &'a Limit,
    key: Key,
    bucket: Bucket,
    amount: u64,
    place: Option<Place<'a>>,
    /// Ticks until the bucket is full, before the charge.
    before: u64,
    /// The same after it, if it passes.
    after: Option<u64>,
}

impl Part<'_> {
    /// Locks the bucket's shard and tries the charge on a copy of its state.
    fn lock(&mut self, now: u64) {
        self.place = self.limit.store.hold(self.key, now);
        let Some(place) = &self.place else { return };
        if place.is_shared() {
            // The shared bucket is everybody's: no caller spends it at a rate of its own.
            self.bucket = self.limit.definition.bucket(None);
        }
        self.before = place.full_at().saturating_sub(now);
        self.after = match self.bucket.admit(self.before, self.amount) {
            Admission::Passes { until_full } => Some(until_full),
            Admission::Refused => None,
        };
        if place.is_shared() && self.amount > 0 {
            self.limit.counters.fallbacks.inc();
        }
    }

    fn commit(self, now: u64) {
        let (Some(place), Some(after), true) = (self.place, self.after, self.amount > 0) else { return };
        place.commit(now.saturating_add(after));
        self.limit.counters.allowed.inc();
        self.limit.count_keys();
    }

    /// How the caller stands, if it may know of this limit: those of a peer belong to the network, not to the caller.
    fn standing(&self, until_full: u64) -> Option<Standing> {
        match self.limit.definition.scope {
            LimitScope::Peer => None,
            LimitScope::Caller | LimitScope::Metalake | LimitScope::Namespace => Some(Standing::new(
                self.limit.definition.name.clone(),
                self.limit.definition.unit,
                &self.bucket,
                until_full,
            )),
        }
    }
}

#[cfg(test)]
mod tests;
