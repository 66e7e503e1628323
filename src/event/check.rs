//! Which kind an event is, and whether it has what that kind needs (facts: gravitino 0.2, openlineage 2.1).

use bytes::Bytes;

use self::time::Time;
use super::scan::{Document, Pair, is_blank};
use super::violations::Violations;
use super::{Error, Event, EventTime, JobName, Kind, Rules};

mod time;

/// The values of `eventType`. Gravitino takes them in any case (facts: gravitino-real 4).
const EVENT_TYPES: [&str; 6] = ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"];

const KINDS: [(Kind, &str); 3] = [(Kind::Run, "RunEvent"), (Kind::Job, "JobEvent"), (Kind::Dataset, "DatasetEvent")];

/// Checks what the scan found in `body`.
///
/// # Errors
///
/// [`Error::Invalid`], with all violations: first what is missing, in Gravitino's order, then what has a wrong value.
pub(super) fn check(mut document: Document, body: Bytes, rules: &Rules) -> Result<Event, Error> {
    let kind = if rules.runs_only { Kind::Run } else { kind_by_members(&document) };
    if !rules.kinds.contains(&kind) {
        let name = match kind {
            Kind::Run => "run",
            Kind::Job => "job",
            Kind::Dataset => "dataset",
        };
        return Err(Error::Invalid(format!("this gate takes no {name} events")));
    }
    let mut violations = missing(&mut document, kind);
    wrong(&document, kind, rules, &mut violations);
    let Document { event_type, event_time, producer, schema_url, run, job, .. } = document;
    let Document { references, deleted_facets, data_sources, .. } = document;
    let (Some(event_time), Some(producer), Some(schema_url), true) =
        (event_time, producer, schema_url, violations.is_empty())
    else {
        return Err(Error::Invalid(violations.to_string()));
    };
    let job = job.filter(|_| kind != Kind::Dataset).and_then(Pair::into_job);
    let run_id = run.and_then(|run| run.id);
    Ok(Event {
        kind,
        body,
        job,
        run_id,
        event_type,
        event_time,
        producer,
        schema_url,
        references,
        deleted_facets,
        data_sources,
    })
}

/// A run makes a run event, whatever else is there: the specification's own sample has run, job and dataset. An event
/// without any of the three is told what a run event needs.
fn kind_by_members(document: &Document) -> Kind {
    if document.run.is_some() {
        Kind::Run
    } else if document.dataset.is_some() {
        Kind::Dataset
    } else if document.job.is_some() {
        Kind::Job
    } else {
        Kind::Run
    }
}

/// What is missing, in the order and words of Gravitino's own check.
fn missing(document: &mut Document, kind: Kind) -> Violations {
    let mut violations = Violations::default();
    let mut require = |present: bool, what: &str| {
        if !present {
            violations.push(|| format!("{what} is required"));
        }
    };
    require(document.event_time.as_ref().is_some_and(|time| !time.is_empty()), "eventTime");
    require(document.producer.is_some(), "producer");
    require(document.schema_url.is_some(), "schemaURL");
    match (&document.run, kind) {
        (Some(run), _) => require(run.id.as_ref().is_some_and(|id| !id.is_empty()), "run.runId"),
        (None, Kind::Run) => require(false, "run"),
        (None, Kind::Job | Kind::Dataset) => {}
    }
    match (&document.job, kind) {
        (Some(job), _) => {
            require(!is_blank(job.namespace.as_deref()), "job.namespace");
            require(!is_blank(job.name.as_deref()), "job.name");
        }
        (None, Kind::Run | Kind::Job) => require(false, "job"),
        (None, Kind::Dataset) => {}
    }
    if let Some(dataset) = &document.dataset {
        require(!is_blank(dataset.namespace.as_deref()), "dataset.namespace");
        require(!is_blank(dataset.name.as_deref()), "dataset.name");
    }
    violations.append(std::mem::take(&mut document.input_gaps));
    violations.append(std::mem::take(&mut document.output_gaps));
    violations.append(std::mem::take(&mut document.facet_gaps));
    violations
}

/// What is there and cannot be. What is missing has been said already.
fn wrong(document: &Document, kind: Kind, rules: &Rules, violations: &mut Violations) {
    match document.event_time.as_deref().filter(|time| !time.is_empty()).map(time::read) {
        None | Some(Time::Exact) => {}
        Some(Time::Local) if rules.event_time == EventTime::AssumeUtc => {}
        Some(Time::Local) => {
            violations.push(|| "eventTime must have an offset from UTC, such as Z or +02:00".to_owned());
        }
        Some(Time::Wrong) => violations.push(|| "eventTime must be a date and time in RFC 3339 form".to_owned()),
    }
    if let Some(event_type) = &document.event_type
        && !EVENT_TYPES.iter().any(|known| known.eq_ignore_ascii_case(event_type))
    {
        violations.push(|| format!("eventType must be one of {}", EVENT_TYPES.join(", ")));
    }
    let id = document.run.as_ref().and_then(|run| run.id.as_deref());
    if id.is_some_and(|id| !id.is_empty() && !is_uuid(id)) {
        violations.push(|| "run.runId must be a UUID".to_owned());
    }
    for (name, url) in [("producer", &document.producer), ("schemaURL", &document.schema_url)] {
        if url.as_ref().is_some_and(|url| !may_be_uri(url)) {
            violations.push(|| format!("{name} must be a URI"));
        }
    }
    let schema_url = document.schema_url.as_deref().filter(|_| kind != Kind::Run || document.run.is_some());
    if let Some((kind, other)) = named_kind(schema_url.unwrap_or_default(), kind) {
        violations.push(|| format!("schemaURL names a {other}, but the members make the event a {kind}"));
    }
}

/// The names of `kind` and of another kind that a segment of `schema_url` names, if one does.
///
/// Marquez takes the last segment of the URL for the kind, whatever the host (facts: marquez-and-clients-real 1, surprise
/// 2), so that an event could be judged as one kind and stored as another. Any segment counts here, also percent-encoded
/// or in another case: which one the next upstream looks at is not known.
fn named_kind(schema_url: &str, kind: Kind) -> Option<(&'static str, &'static str)> {
    let (_, own) = KINDS.into_iter().find(|(known, _)| *known == kind)?;
    let plain = percent_decoded(schema_url);
    let mut segments = plain.split(['/', '#', '?', '&', '=', ';', ':']);
    let (_, other) = segments.find_map(|segment| {
        KINDS.into_iter().find(|(other, name)| *other != kind && segment.trim().eq_ignore_ascii_case(name))
    })?;
    Some((own, other))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let code = after.first_chunk::<2>().filter(|_| byte == b'%').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(code.unwrap_or(byte));
        if code.is_some() {
            rest = rest.get(2..).unwrap_or_default();
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// 36 characters, as Gravitino wants it (facts: gravitino-real 4).
fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

/// Gravitino takes empty and relative URIs, and refuses blanks (facts: gravitino-real 4).
fn may_be_uri(text: &str) -> bool {
    !text.chars().any(|char| char.is_whitespace() || char.is_control())
}

impl Pair {
    fn into_job(self) -> Option<JobName> {
        Some(JobName { namespace: self.namespace?, name: self.name? })
    }
}

#[cfg(test)]
mod tests;
