//! The path of a request, in one function.
//!
//! `Entrance::admit` is the picture in the crate's documentation, top to bottom, in the order of refusal that clients can
//! rely on (facts: gravitino 0.1, gravitino-real 4): path and method, peer limit, token, roles header, the caller's
//! request limit, body, JSON and required fields, the caller's event and byte limits, membership, active roles,
//! resolution of every target, visibility of every reference, the metalake's limit, the backend's own rules. What it admits
//! is delivered.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::Full;
use ipnet::IpNet;
use tokio::time::Instant;

use crate::answer::{Outcome, Refusal};
use crate::auth::{Authenticator, Caller};
use crate::config::{BatchPolicy, FacetReferences, PolicyMode};
use crate::deliver::Deliverer;
use crate::dialect::Dialect;
use crate::event::body::{self, Bounds, Collected, Memory, Reservation};
use crate::event::edit::{self, Edited};
use crate::event::{self, Event, Rules};
use crate::limit::{Cost, Limits, Point, Subject};
use crate::listen::{Body, Peer, Reply, caught};
use crate::observe::audit::{self, EventPart};
use crate::passthrough::{Passthrough, Unanswered, Upload, Way};
use crate::policy::{ACTIVE_ROLES, ActiveRoles, GovernedBy};
use crate::route::{self, Endpoint, Paths, Payload};
use crate::source::Source;
use crate::upstream::protect::{Passage, Protection};
use crate::upstream::{self, Delivery};

use self::verdict::Petitioner;
use self::visit::{Ledger, Visit};

pub use self::edits::Edits;
pub use self::visit::Observer;

mod batch;
mod edits;
mod passed;
mod verdict;
mod visit;

/// Bodies larger than this are parsed where blocking is allowed, so that other requests get their turn.
const PARSED_AT_ONCE: usize = 256 << 10;

/// Time for the policy, from the last byte of the body: what is left until the answer is due is the backend's.
const JUDGED_WITHIN: Duration = Duration::from_millis(2_500);

/// All stages of a request, wired together by `app`.
pub struct Gate {
    /// Token → caller.
    pub authenticator: Arc<Authenticator>,
    /// What may come how often.
    pub limits: Arc<Limits>,
    /// How large a body may be.
    pub bounds: Bounds,
    /// Room for all bodies together.
    pub memory: Memory,
    /// What an event must be, by dialect.
    pub rules: EventRules,
    /// How events are changed before they are judged.
    pub edits: Edits,
    /// How many events a batch may hold.
    pub max_batch: usize,
    /// What becomes of a batch of which some events are refused.
    pub batch_policy: BatchPolicy,
    /// What callers may name.
    pub policy: Policy,
    /// What the backend cannot take.
    pub protection: Protection,
    /// The way to the backend.
    pub deliverer: Deliverer,
    /// The backend's configured name.
    pub upstream: Arc<str>,
    /// Whether the backend is given the caller's own token.
    pub forwards_credentials: bool,
    /// Where the end of each request is told.
    pub observer: Arc<Observer>,
}

/// What an event must be, by dialect.
pub struct EventRules {
    /// Gravitino's contract takes run events only.
    pub gravitino: Arc<Rules>,
    /// OpenMetadata's contract takes run events only.
    pub openmetadata: Arc<Rules>,
    /// Every configured kind.
    pub openlineage: Arc<Rules>,
}

/// What callers may name.
pub struct Policy {
    /// Where the world comes from; none with [`PolicyMode::Off`].
    pub source: Option<Arc<Source>>,
    /// Whether the policy decides.
    pub mode: PolicyMode,
    /// Which references inside facets are judged.
    pub facets: FacetReferences,
}

/// The gate as one listener sees it.
pub struct Entrance {
    /// The stages.
    pub gate: Arc<Gate>,
    /// Which paths it serves.
    pub paths: Paths,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Time for a body, from its head to its last byte.
    pub body_timeout: Duration,
    /// Other requests that are passed on.
    pub passthrough: Option<Passthrough>,
}

/// What may go to the backend.
struct Admitted {
    event: Event,
    caller: Arc<Caller>,
    reservation: Reservation,
    passage: Passage,
    /// When the last byte of the body was there: the answer's deadline counts from here.
    received: Instant,
}

/// A request whose path and peer are known.
struct Arrival {
    endpoint: Endpoint,
    head: Parts,
    client: Option<IpAddr>,
    at: Instant,
}

impl Entrance {
    /// Answers one request. Dropping the future is the client leaving: an exchange with the backend that has begun goes
    /// on, and the audit record is written in any case.
    pub async fn pass(&self, request: Request<Body>, peer: Peer) -> Response<Reply> {
        let client = peer.client_address(request.headers(), &self.trusted_proxies);
        let mut visit = Visit::begin(&self.gate.observer, &request, &peer, client, &self.paths);
        let (head, body) = request.into_parts();
        if let Some(passthrough) = self.passthrough.as_ref().filter(|_| !route::is_known(&head.uri, &self.paths)) {
            match passthrough.way(&head.method, head.uri.path(), self.paths.prefix.as_deref()) {
                Way::Through => return self.pass_on(passthrough, head, body, client, visit).await,
                Way::Misspelled => return visit.refuse(Refusal::PathSpelling).map(Reply::from),
                Way::No => {}
            }
        }
        let forwarded = Forwarded::of(&head.headers, self.gate.forwards_credentials);
        let arrival = match self.arrive(head, client, &mut visit) {
            Ok(arrival) => arrival,
            Err(refusal) => return visit.refuse(refusal).map(Reply::from),
        };
        if let Payload::Batch(envelope) = arrival.endpoint.payload {
            return self.pass_batch(arrival, envelope, body, forwarded, visit).await.map(Reply::from);
        }
        match caught(self.admit(arrival, body, &mut visit)).await {
            Some(Ok(admitted)) => self.gate.deliver(admitted, forwarded, visit).await.map(Reply::from),
            Some(Err(refusal)) => visit.refuse(refusal).map(Reply::from),
            None => visit.fail().map(Reply::from),
        }
    }

    /// A request for the rest of a catalog: token and request limits, and no look at its body.
    async fn pass_on(
        &self,
        passthrough: &Passthrough,
        head: Parts,
        body: Body,
        client: Option<IpAddr>,
        mut visit: Visit,
    ) -> Response<Reply> {
        let gate = &*self.gate;
        visit.note_request(&head.method, &head.uri);
        let peer = Subject { peer: client, ..Subject::default() };
        let endpoint = Endpoint { dialect: route::dialect_of(&head.uri, &self.paths), payload: Payload::Event };
        let arrival = Arrival { endpoint, head, client, at: visit.ledger.began };
        let admitted = match gate.charge(Point::Arrival, &peer, &Cost::default(), &mut visit) {
            Ok(()) => gate.identify(&arrival, &mut visit).await.map(drop),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = admitted {
            return visit.refuse(refusal).map(Reply::from);
        }
        visit.ledger.record.upstream = Some(Arc::clone(passthrough.name()));
        let request_id = Arc::clone(&visit.voice.request_id);
        let upload = Upload::new(body, arrival.at + self.body_timeout);
        visit.ledger.follow(upload.progress());
        match passthrough.pass(arrival.head, upload, &request_id).await {
            Ok(answer) => visit.pass(answer),
            Err(Unanswered::Catalog(outcome)) => visit.leave(outcome).map(Reply::from),
            Err(Unanswered::Client(fault)) => visit.refuse_upload(fault).map(Reply::from),
        }
    }

    async fn admit(&self, arrival: Arrival, body: Body, visit: &mut Visit) -> Result<Admitted, Refusal> {
        let gate = &*self.gate;
        let (caller, roles) = gate.identify(&arrival, visit).await?;
        let collected = gate.collect(body, &arrival, &caller, self.body_timeout, visit).await?;
        let received = Instant::now();
        let rules = gate.rules.of(arrival.endpoint.dialect);
        let edited = gate.parse(collected.bytes, rules, visit).await?;
        gate.charge(Point::Parsed, &arrival.subject(&caller), &cost(&edited.event), visit)?;
        let petitioner = arrival.petitioner(&caller, &roles, received);
        let event = gate.withhold(edited, &petitioner, rules, &mut visit.ledger).await?;
        gate.judge(&event, &petitioner, arrival.client, visit).await?;
        gate.fit(&event)?;
        let passage = gate.protection.check(&event)?;
        Ok(Admitted { event, caller, reservation: collected.reservation, passage, received })
    }

    fn arrive(&self, head: Parts, client: Option<IpAddr>, visit: &mut Visit) -> Result<Arrival, Refusal> {
        let endpoint = route::route(&head.method, &head.uri, &self.paths)?;
        let peer = Subject { peer: client, ..Subject::default() };
        self.gate.charge(Point::Arrival, &peer, &Cost::default(), visit)?;
        Ok(Arrival { endpoint, head, client, at: visit.ledger.began })
    }
}

impl Arrival {
    fn subject<'a>(&self, caller: &'a Caller) -> Subject<'a> {
        Subject { peer: self.client, caller: Some(caller), ..Subject::default() }
    }

    /// A word of Gravitino's contract, of which only the first counts.
    fn active_roles_header(&self) -> Option<&HeaderValue> {
        match self.endpoint.dialect {
            Dialect::Gravitino => self.head.headers.get(ACTIVE_ROLES),
            Dialect::Openmetadata(_) | Dialect::Openlineage => None,
        }
    }

    fn petitioner<'a>(&'a self, caller: &'a Arc<Caller>, roles: &'a ActiveRoles, received: Instant) -> Petitioner<'a> {
        Petitioner {
            caller,
            roles,
            authorization: self.head.headers.get(AUTHORIZATION),
            active_roles: self.active_roles_header(),
            deadline: received + JUDGED_WITHIN,
        }
    }

    /// The roles that the caller wants to act with.
    fn active_roles(&self) -> Result<ActiveRoles, Refusal> {
        let value = self.active_roles_header();
        let unreadable = || Refusal::MalformedRoles(format!("`{ACTIVE_ROLES}` is no text"));
        let value = value.map(|value| std::str::from_utf8(value.as_bytes())).transpose().map_err(|_| unreadable())?;
        ActiveRoles::parse(value).map_err(|malformed| Refusal::MalformedRoles(malformed.to_string()))
    }
}

impl Gate {
    async fn identify(&self, arrival: &Arrival, visit: &mut Visit) -> Result<(Arc<Caller>, ActiveRoles), Refusal> {
        let began = Instant::now();
        let result = self.authenticator.authenticate(&arrival.head.headers, arrival.head.uri.query()).await;
        visit.ledger.record.stages.auth = Some(began.elapsed());
        let caller = Arc::new(result?);
        visit.ledger.record.caller = Some((*caller).clone());
        let subject = arrival.subject(&caller);
        let roles = match arrival.active_roles() {
            Ok(roles) => roles,
            Err(refusal) => {
                // Refused before anything is charged; how the caller stands is told all the same.
                visit.stand(Ok(self.limits.standings(&subject, Instant::now())))?;
                return Err(refusal);
            }
        };
        self.charge(Point::Identified, &subject, &Cost::default(), visit)?;
        Ok((caller, roles))
    }

    async fn collect(
        &self,
        body: Body,
        arrival: &Arrival,
        caller: &Caller,
        time: Duration,
        visit: &mut Visit,
    ) -> Result<Collected, Refusal> {
        let began = Instant::now();
        let (headers, memory) = (&arrival.head.headers, self.memory.of(caller));
        let result = body::collect(body, headers, &self.bounds, &memory, arrival.at + time).await;
        visit.ledger.record.stages.body = Some(began.elapsed());
        if matches!(result, Err(event::Error::BrokenOff(_))) {
            visit.ledger.record.client_gone = true;
        }
        let collected = result?;
        let (received, decoded) = (collected.received, collected.bytes.len() as u64);
        visit.ledger.record.bytes = audit::Bytes { received, decoded };
        Ok(collected)
    }

    async fn parse(&self, bytes: Bytes, rules: &Arc<Rules>, visit: &mut Visit) -> Result<Edited, Refusal> {
        let began = Instant::now();
        let result = if bytes.len() <= PARSED_AT_ONCE {
            edit::parse(bytes, rules, &self.edits.plan)
        } else {
            let (rules, plan) = (Arc::clone(rules), Arc::clone(&self.edits.plan));
            let parsing = tokio::task::spawn_blocking(move || edit::parse(bytes, &rules, &plan));
            parsing.await.map_err(|_| Refusal::Internal)?
        };
        visit.ledger.record.stages.event = Some(began.elapsed());
        let edited = result?;
        self.note(&edited, &mut visit.ledger);
        Ok(edited)
    }

    fn note(&self, edited: &Edited, ledger: &mut Ledger) {
        self.edits.metrics.observe(&edited.tally);
        ledger.record.edits = edited.tally.clone();
        ledger.record.event = Some(EventPart::of(&edited.event, self.observer.audit.max_datasets()));
    }

    fn charge(&self, point: Point, subject: &Subject<'_>, cost: &Cost, visit: &mut Visit) -> Result<(), Refusal> {
        visit.stand(self.limits.charge(point, subject, cost, Instant::now()))
    }

    async fn deliver(
        self: &Arc<Self>,
        admitted: Admitted,
        forwarded: Forwarded,
        visit: Visit,
    ) -> Response<Full<Bytes>> {
        let Admitted { event, caller, reservation, passage, received } = admitted;
        if let Passage::Drop(why) = passage {
            return visit.skip(Outcome::NoEffect(why));
        }
        let claim = match self.deliverer.claim(&caller, event.run_id.as_deref(), event.job.as_ref()) {
            Ok(claim) => claim,
            Err(refusal) => return visit.refuse_run(refusal),
        };
        let Visit { mut ledger, voice } = visit;
        ledger.record.run_conflict = claim.conflict();
        let delivery = Delivery {
            draws_edges: upstream::draws_edges(&event),
            body: event.body,
            caller_authorization: forwarded.authorization,
            active_roles: forwarded.active_roles,
            request_id: Arc::clone(&voice.request_id),
            traceparent: forwarded.traceparent,
            caller,
        };
        ledger.record.upstream = Some(Arc::clone(&self.upstream));
        let gate = Arc::clone(self);
        let caller = Arc::clone(&delivery.caller);
        let exchange = self.deliverer.submit(delivery, received, move |end| {
            claim.settle(&end.outcome);
            gate.heed(&caller, &end.outcome);
            ledger.end(end);
            drop(reservation);
        });
        voice.report(&exchange.outcome().await)
    }
}

/// What of a request's head may reach the backend.
struct Forwarded {
    authorization: Option<HeaderValue>,
    active_roles: Option<HeaderValue>,
    traceparent: Option<HeaderValue>,
}

impl Forwarded {
    fn of(headers: &HeaderMap, credentials: bool) -> Self {
        let authorization = headers.get(AUTHORIZATION).filter(|_| credentials).cloned();
        let active_roles = headers.get(ACTIVE_ROLES).filter(|_| credentials).cloned();
        Self { authorization, active_roles, traceparent: headers.get("traceparent").cloned() }
    }
}

impl EventRules {
    fn of(&self, dialect: Dialect) -> &Arc<Rules> {
        match dialect {
            Dialect::Gravitino => &self.gravitino,
            Dialect::Openmetadata(_) => &self.openmetadata,
            Dialect::Openlineage => &self.openlineage,
        }
    }
}

/// The metalake, or else the namespace, whose limits an allowed event counts against.
fn governor<'a>(governed_by: &'a GovernedBy, event: &'a Event) -> (Option<&'a str>, Option<&'a str>) {
    match governed_by {
        GovernedBy::Metalake(metalake) => (Some(&**metalake), None),
        GovernedBy::Rule(_) => (None, Some(event.namespace())),
        GovernedBy::Nothing => (None, None),
    }
}

fn cost(event: &Event) -> Cost {
    Cost { events: 1, bytes: event.body.len() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_head_goes_on_but_the_trace_unless_credentials_are_forwarded() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", ACTIVE_ROLES, "traceparent", "cookie", "connection"] {
            headers.insert(name, HeaderValue::from_static("value"));
        }
        let kept = Forwarded::of(&headers, false);
        assert!(kept.authorization.is_none() && kept.active_roles.is_none() && kept.traceparent.is_some());
        let kept = Forwarded::of(&headers, true);
        assert!(kept.authorization.is_some() && kept.active_roles.is_some());
    }
}
