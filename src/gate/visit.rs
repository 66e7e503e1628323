//! One request as the outside sees it: what its client is told ([`Voice`]), and its audit record ([`Ledger`]).

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderName};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::answer::{BatchReport, Outcome, Refusal, Unknown};
use crate::deliver::{Answered, End, RunConflict};
use crate::dialect::{self, Answer, Dialect};
use crate::event::{self, Event};
use crate::limit::{Exceeded, Standings};
use crate::listen::{Peer, Protocol, Reply};
use crate::observe::audit::{self, Audit, Decision, Record};
use crate::observe::metrics::Metrics;
use crate::passthrough::Progress;
use crate::policy::{Denied, GovernedBy};
use crate::route::{self, Paths};
use crate::source::Unjudged;

use super::passed;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Where the end of each request is told.
pub struct Observer {
    /// One record a request.
    pub audit: Audit,
    /// Its numbers.
    pub metrics: Arc<Metrics>,
}

/// A request that is not answered yet.
pub(super) struct Visit {
    pub(super) ledger: Ledger,
    pub(super) voice: Voice,
}

/// Words for the client.
pub(super) struct Voice {
    pub(super) request_id: Arc<str>,
    dialect: Dialect,
    accept: Option<HeaderValue>,
    standings: Standings,
    bodiless: bool,
    http1: bool,
}

/// The audit record. It is written exactly once: when the request ends, or when the ledger is dropped because the client
/// left.
pub(super) struct Ledger {
    pub(super) record: Box<Record>,
    pub(super) began: Instant,
    observer: Arc<Observer>,
    /// Of a request that is passed on: its body, which is counted as it streams.
    upload: Option<Progress>,
    is_written: bool,
}

impl Visit {
    pub(super) fn begin<B>(
        observer: &Arc<Observer>,
        request: &Request<B>,
        peer: &Peer,
        client: Option<IpAddr>,
        paths: &Paths,
    ) -> Self {
        let request_id: Arc<str> = uuid::Uuid::now_v7().to_string().into();
        let address = client.map_or_else(|| "unix".to_owned(), |address| address.to_string());
        let dialect = route::dialect_of(request.uri(), paths);
        let mut record = Record::new(Timestamp::now(), request_id.to_string(), Arc::clone(&peer.listener), address);
        record.dialect = Some(dialect);
        record.certificate = peer.certificate.clone();
        let voice = Voice {
            request_id,
            dialect,
            accept: request.headers().get(ACCEPT).cloned(),
            standings: Standings::default(),
            bodiless: request.method() == Method::HEAD,
            http1: peer.protocol == Protocol::Http1,
        };
        let ledger = Ledger {
            record: Box::new(record),
            began: Instant::now(),
            observer: Arc::clone(observer),
            upload: None,
            is_written: false,
        };
        Self { ledger, voice }
    }

    /// Takes the result of a charge: how the caller stands now is told with every answer.
    pub(super) fn stand(&mut self, charged: Result<Standings, Exceeded>) -> Result<(), Refusal> {
        let (standings, result) = match charged {
            Ok(standings) => (standings, Ok(())),
            Err(Exceeded::Limited { limit, standings }) => (standings, Err(Refusal::RateLimited { limit })),
            Err(Exceeded::OverBurst { limit, standings }) => (standings, Err(Refusal::OverBurst { limit })),
        };
        self.voice.standings.merge(standings);
        result
    }

    /// The event's run belongs to another caller.
    pub(super) fn refuse_run(mut self, refusal: Refusal) -> Response<Full<Bytes>> {
        self.ledger.record.run_conflict = Some(RunConflict::OtherCaller);
        self.refuse(refusal)
    }

    pub(super) fn refuse(self, refusal: Refusal) -> Response<Full<Bytes>> {
        let Self { mut ledger, voice } = self;
        let answer = dialect::refuse(voice.dialect, &refusal);
        ledger.record.refusal = Some(refusal);
        ledger.close(Some(&answer));
        voice.say(answer)
    }

    /// The batch has ended; the records of its events are written already, or will be when they end.
    pub(super) fn report_batch(self, report: &BatchReport) -> Response<Full<Bytes>> {
        let Self { mut ledger, voice } = self;
        let answer = dialect::report_batch(voice.dialect, report);
        ledger.record.batch = Some(report.counts());
        ledger.close(Some(&answer));
        voice.say(answer)
    }

    /// Ends the request without an exchange: what became of the event is known beforehand.
    pub(super) fn skip(self, outcome: Outcome) -> Response<Full<Bytes>> {
        let Self { mut ledger, voice } = self;
        let answer = dialect::report(voice.dialect, &outcome);
        ledger.record.outcome = Some(outcome);
        ledger.close(Some(&answer));
        voice.say(answer)
    }

    /// The request is none of lineage, and goes on as it is.
    pub(super) fn note_request(&mut self, method: &Method, uri: &Uri) {
        self.ledger.record.dialect = None;
        self.ledger.record.passed = Some(audit::Passed::of(method, uri.path()));
    }

    /// The body of a request that was passed on did not come.
    pub(super) fn refuse_upload(mut self, fault: event::Error) -> Response<Full<Bytes>> {
        self.ledger.record.client_gone = matches!(fault, event::Error::BrokenOff(_));
        self.refuse(fault.into())
    }

    /// There is no answer to a request that was passed on. No other one could join it: what is not known stays so.
    pub(super) fn leave(self, outcome: Outcome) -> Response<Full<Bytes>> {
        let Self { mut ledger, voice } = self;
        let is_open = matches!(outcome, Outcome::Unknown(_));
        let told = if is_open { Outcome::Unknown(Unknown::Unwatched) } else { outcome.clone() };
        let answer = dialect::report(voice.dialect, &told);
        ledger.record.outcome = Some(outcome);
        ledger.close(Some(&answer));
        voice.say(answer)
    }

    /// A stage panicked. What it had begun to say is not known; the request ends, and the process goes on.
    pub(super) fn fail(self) -> Response<Full<Bytes>> {
        tracing::error!(request_id = %self.voice.request_id, "a request ended in a panic; the process goes on");
        self.refuse(Refusal::Internal)
    }

    /// An answer that is not the gate's own, as it is.
    pub(super) fn pass(self, mut answer: Response<Reply>) -> Response<Reply> {
        let Self { mut ledger, voice } = self;
        ledger.record.status = Some(answer.status().as_u16());
        voice.standings.write(answer.headers_mut());
        if let Ok(id) = HeaderValue::try_from(&*voice.request_id) {
            answer.headers_mut().insert(REQUEST_ID, id);
        }
        answer.map(|body| passed::recorded(body, ledger))
    }
}

impl Voice {
    pub(super) fn report(self, outcome: &Outcome) -> Response<Full<Bytes>> {
        let answer = dialect::report(self.dialect, outcome);
        self.say(answer)
    }

    fn say(self, answer: Answer) -> Response<Full<Bytes>> {
        let answer = match self.dialect {
            Dialect::Gravitino => answer.for_accept(self.accept.as_ref().and_then(|accept| accept.to_str().ok())),
            Dialect::Openmetadata(_) | Dialect::Openlineage => answer,
        };
        let mut answer = if self.bodiless { answer.without_body() } else { answer };
        self.standings.write(&mut answer.headers);
        let mut response = dialect::into_response(answer, self.http1);
        if let Ok(id) = HeaderValue::try_from(&*self.request_id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response
    }
}

impl Ledger {
    /// The body of a request that is passed on is counted from now on.
    pub(super) fn follow(&mut self, upload: Progress) {
        self.upload = Some(upload);
    }

    pub(super) fn allowed(&mut self, governed_by: &GovernedBy) {
        self.record.decision = Decision::Allow;
        (self.record.rule_kind, self.record.rule) = match governed_by {
            GovernedBy::Metalake(metalake) => ("metalake", Some(format!("metalake {metalake}"))),
            GovernedBy::Rule(rule) => ("namespace_rule", Some(format!("namespace rule {rule}"))),
            GovernedBy::Nothing => ("none", None),
        };
    }

    pub(super) fn denied(&mut self, denied: &Denied, event: &Event) {
        self.record.decision = Decision::Deny;
        let place = denied.reference.and_then(|index| event.references.get(index));
        let place = place.map(|reference| format!("{}: ", reference.path)).unwrap_or_default();
        self.record.rule_kind = denied.why.word();
        self.record.rule = Some(format!("{place}{}", denied.why));
    }

    pub(super) fn unjudged(&mut self, unjudged: &Unjudged) {
        self.record.rule_kind = "unavailable";
        self.record.rule = Some(unjudged.to_string());
    }

    /// The exchange with the backend has ended.
    pub(super) fn end(mut self, end: End) {
        let dialect = self.record.dialect.unwrap_or_default();
        let told = end.told().map(|outcome| dialect::report(dialect, &outcome));
        self.note(end);
        self.close(told.as_ref());
    }

    /// The record of one event of a batch, of which nothing is known but what is known of the batch.
    pub(super) fn of_event(&self, index: usize) -> Self {
        let mut record = self.record.clone();
        record.batch_index = Some(index);
        record.bytes = audit::Bytes::default();
        record.stages = audit::Stages::default();
        Self { record, began: Instant::now(), observer: Arc::clone(&self.observer), upload: None, is_written: false }
    }

    /// An event of a batch is refused.
    pub(super) fn refuse_event(mut self, refusal: Refusal) {
        self.record.refusal = Some(refusal);
        self.write();
    }

    /// What became of an event of a batch was known without sending it.
    pub(super) fn skip_event(mut self, outcome: Outcome) {
        self.record.outcome = Some(outcome);
        self.write();
    }

    /// An event of a batch has ended.
    pub(super) fn end_event(mut self, end: End) {
        self.note(end);
        self.write();
    }

    fn note(&mut self, end: End) {
        self.record.late = end.answered == Answered::Late;
        self.record.client_gone = end.answered == Answered::ClientGone;
        self.record.duplicate = end.duplicate;
        self.record.stages.deliver = Some(end.took);
        self.record.outcome = Some(end.outcome);
    }

    /// Writes the record; without an answer, the client has left.
    fn close(mut self, told: Option<&Answer>) {
        self.record.status = told.map(|answer| answer.status.as_u16());
        self.record.client_gone |= told.is_none();
        self.write();
    }

    /// The answer that was passed on is with the client.
    pub(super) fn finish(mut self) {
        self.write();
    }

    /// The answer that was passed on broke off: by the request's own body, or at the catalog.
    pub(super) fn break_off(mut self) {
        match self.upload.as_ref().and_then(Progress::fault) {
            Some(fault) => {
                self.record.client_gone = matches!(fault, event::Error::BrokenOff(_));
                self.record.refusal = Some(fault.into());
            }
            None => self.record.outcome = Some(Outcome::Unknown(Unknown::TruncatedBody)),
        }
        self.write();
    }

    fn write(&mut self) {
        self.is_written = true;
        if let Some(upload) = &self.upload {
            self.record.bytes.received = upload.received();
        }
        self.record.stages.total = self.began.elapsed();
        self.observer.metrics.observe(&self.record);
        self.observer.audit.write(&self.record);
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if self.is_written {
            return;
        }
        if std::thread::panicking() {
            self.record.refusal = Some(Refusal::Internal);
            self.record.status = Some(500);
        } else {
            self.record.client_gone = true;
        }
        self.write();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::config::{self, AuditOutput};
    use crate::dialect::OpenmetadataRelease;
    use crate::observe::audit;

    /// The only record of a visit that ends as `end` says.
    async fn record(end: impl FnOnce(Visit)) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let output = config::Audit { output: AuditOutput::File(path.clone()), max_datasets: 1 };
        let audit = Audit::open(&output, audit::Metrics::default()).unwrap();
        let observer = Arc::new(Observer { audit, metrics: Arc::new(Metrics::new()) });
        let peer = Peer {
            address: None,
            certificate: Some("CN=spark".into()),
            listener: "main".into(),
            protocol: Protocol::Http1,
        };
        let request = Request::post("/api/lineage").body(()).unwrap();
        let paths = Paths { prefix: None, default: Dialect::Gravitino, openmetadata: OpenmetadataRelease::default() };
        end(Visit::begin(&observer, &request, &peer, None, &paths));
        assert!(observer.audit.flush(Duration::from_secs(60)).await);
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    #[tokio::test]
    async fn a_request_has_one_record_however_it_ends() {
        let refused = record(|visit| drop(visit.refuse(Refusal::NotVisible))).await;
        assert_eq!((&refused["refusal"], &refused["status"]), (&"not_visible".into(), &403.into()));
        assert_eq!((&refused["peer"], &refused["certificate"]), (&"unix".into(), &"CN=spark".into()));

        let left = record(drop).await;
        assert_eq!((&left["client_gone"], left.get("status")), (&true.into(), None));

        let panicked = record(|visit| {
            let ended = catch_unwind(AssertUnwindSafe(|| {
                let _visit = visit;
                panic!("as the test wants it");
            }));
            assert!(ended.is_err());
        });
        let panicked = panicked.await;
        assert_eq!((&panicked["refusal"], &panicked["status"]), (&"internal".into(), &500.into()));
        assert_eq!(panicked["client_gone"], false);
    }
}
