//! The path of a batch: as that of an event, but every event is checked and judged before any is sent.
//!
//! What is wrong with the request refuses the whole: token, size, envelope, a limit that has no room for all of it. What
//! is wrong with one event refuses that event, or the whole with `event.batch_policy: all_or_nothing`. Each event has an
//! audit record of its own, beside that of the request.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tokio::time::Instant;

use crate::answer::{BatchReport, End, Outcome, Refusal, Unknown};
use crate::auth::Caller;
use crate::config::BatchPolicy;
use crate::deliver::RunConflict;
use crate::deliver::batch::Item;
use crate::deliver::batch::plan::Run;
use crate::event::batch::{self, Envelope};
use crate::event::body::Reservation;
use crate::event::edit::Edited;
use crate::event::{self, Event, Rules};
use crate::limit::{Cost, Point, Subject};
use crate::listen::{Body, caught};
use crate::policy::GovernedBy;
use crate::upstream::protect::Passage;
use crate::upstream::{self, Delivery};

use super::verdict::Petitioner;
use super::visit::{Ledger, Visit};
use super::{Arrival, Entrance, Forwarded, Gate, PARSED_AT_ONCE, cost, governor};

/// Events that are judged before other requests get their turn.
const JUDGED_AT_ONCE: usize = 32;

/// A batch of which at least the envelope holds.
struct Admitted {
    entries: Vec<Entry>,
    caller: Arc<Caller>,
    reservation: Reservation,
    /// When the last byte of the body was there.
    received: Instant,
}

/// One event of a batch, and what governs it, or why it is refused.
struct Entry {
    ledger: Ledger,
    judged: Result<Judged, Refusal>,
}

/// An event that may go to the backend.
struct Judged {
    event: Event,
    governed_by: GovernedBy,
    passage: Passage,
}

/// Whose limit an event counts against.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Governor {
    Metalake(String),
    Namespace(String),
}

impl Entrance {
    pub(super) async fn pass_batch(
        &self,
        arrival: Arrival,
        envelope: Envelope,
        body: Body,
        forwarded: Forwarded,
        mut visit: Visit,
    ) -> Response<Full<Bytes>> {
        match caught(self.admit_batch(arrival, envelope, body, &mut visit)).await {
            Some(Ok(admitted)) => self.gate.deliver_batch(admitted, forwarded, visit).await,
            Some(Err(refusal)) => visit.refuse(refusal),
            None => visit.fail(),
        }
    }

    async fn admit_batch(
        &self,
        arrival: Arrival,
        envelope: Envelope,
        body: Body,
        visit: &mut Visit,
    ) -> Result<Admitted, Refusal> {
        let gate = &*self.gate;
        let (caller, roles) = gate.identify(&arrival, visit).await?;
        let collected = gate.collect(body, &arrival, &caller, self.body_timeout, visit).await?;
        let received = Instant::now();
        let bytes = collected.bytes.len() as u64;
        let rules = gate.rules.of(arrival.endpoint.dialect);
        let parsed = gate.parse_batch(collected.bytes, envelope, rules, visit).await?;
        let cost = Cost { events: parsed.len() as u64, bytes };
        gate.charge(Point::Parsed, &arrival.subject(&caller), &cost, visit)?;
        let petitioner = arrival.petitioner(&caller, &roles, received);
        let entries = gate.judge_batch(parsed, &petitioner, rules, visit).await;
        match gate.charge_batch(&entries, &caller, arrival.client, visit) {
            Ok(()) => Ok(Admitted { entries, caller, reservation: collected.reservation, received }),
            Err(refusal) => Err(refuse_all(entries, refusal)),
        }
    }
}

impl Gate {
    async fn parse_batch(
        &self,
        bytes: Bytes,
        envelope: Envelope,
        rules: &Arc<Rules>,
        visit: &mut Visit,
    ) -> Result<Vec<Result<Edited, event::Error>>, Refusal> {
        let began = Instant::now();
        let (rules, plan) = (Arc::clone(rules), Arc::clone(&self.edits.plan));
        let max_batch = self.max_batch;
        let is_small = bytes.len() <= PARSED_AT_ONCE;
        let parse = move || batch::parse(batch::split(&bytes, envelope, max_batch)?, &rules, &plan);
        let parsed =
            if is_small { parse() } else { tokio::task::spawn_blocking(parse).await.map_err(|_| Refusal::Internal)? };
        visit.ledger.record.stages.event = Some(began.elapsed());
        Ok(parsed?)
    }

    async fn judge_batch(
        &self,
        parsed: Vec<Result<Edited, event::Error>>,
        petitioner: &Petitioner<'_>,
        rules: &Arc<Rules>,
        visit: &mut Visit,
    ) -> Vec<Entry> {
        let began = Instant::now();
        let mut entries = Vec::with_capacity(parsed.len());
        for (index, edited) in parsed.into_iter().enumerate() {
            let mut ledger = visit.ledger.of_event(index);
            let judged = match edited {
                Ok(edited) => self.judge_event(edited, petitioner, rules, &mut ledger).await,
                Err(error) => Err(error.into()),
            };
            entries.push(Entry { ledger, judged });
            if index % JUDGED_AT_ONCE == JUDGED_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
        visit.ledger.record.stages.policy = Some(began.elapsed());
        entries
    }

    /// One event of a batch, on the way of a single one.
    async fn judge_event(
        &self,
        edited: Edited,
        petitioner: &Petitioner<'_>,
        rules: &Arc<Rules>,
        ledger: &mut Ledger,
    ) -> Result<Judged, Refusal> {
        self.note(&edited, ledger);
        let event = self.withhold(edited, petitioner, rules, ledger).await?;
        let governed_by = self.verdict(&event, petitioner, ledger).await?;
        self.fit(&event)?;
        let passage = self.protection.check(&event)?;
        Ok(Judged { event, governed_by, passage })
    }

    /// Refuses the whole if the configuration wants all or nothing, or if a metalake or namespace has no room for all of
    /// its events. What one metalake was charged stays charged if the next has no room.
    fn charge_batch(
        &self,
        entries: &[Entry],
        caller: &Caller,
        peer: Option<IpAddr>,
        visit: &mut Visit,
    ) -> Result<(), Refusal> {
        if self.batch_policy == BatchPolicy::AllOrNothing
            && let Some(refusal) = first_refusal(entries)
        {
            return Err(refusal);
        }
        let mut costs: BTreeMap<Governor, Cost> = BTreeMap::new();
        for Judged { event, governed_by, .. } in entries.iter().filter_map(|entry| entry.judged.as_ref().ok()) {
            let governor = match governor(governed_by, event) {
                (Some(metalake), _) => Governor::Metalake(metalake.to_owned()),
                (None, Some(namespace)) => Governor::Namespace(namespace.to_owned()),
                (None, None) => continue,
            };
            let (sum, more) = (costs.entry(governor).or_default(), cost(event));
            sum.events += more.events;
            sum.bytes += more.bytes;
        }
        for (governor, cost) in &costs {
            let (metalake, namespace) = match governor {
                Governor::Metalake(metalake) => (Some(metalake.as_str()), None),
                Governor::Namespace(namespace) => (None, Some(namespace.as_str())),
            };
            let subject = Subject { peer, caller: Some(caller), metalake, namespace };
            self.charge(Point::Judged, &subject, cost, visit)?;
        }
        Ok(())
    }

    async fn deliver_batch(
        self: &Arc<Self>,
        admitted: Admitted,
        forwarded: Forwarded,
        visit: Visit,
    ) -> Response<Full<Bytes>> {
        let Admitted { entries, caller, reservation, received } = admitted;
        let reservation = Arc::new(reservation);
        let mut ends = Vec::with_capacity(entries.len());
        let (mut items, mut indices) = (Vec::new(), Vec::new());
        for (index, Entry { mut ledger, judged }) in entries.into_iter().enumerate() {
            let claimed = judged.and_then(|judged| {
                let Event { run_id, job, .. } = &judged.event;
                let claim = self.deliverer.claim(&caller, run_id.as_deref(), job.as_ref()).inspect_err(|_| {
                    ledger.record.run_conflict = Some(RunConflict::OtherCaller);
                })?;
                Ok((judged, claim))
            });
            let (event, claim) = match claimed {
                Ok((Judged { passage: Passage::Drop(why), .. }, _)) => {
                    ledger.skip_event(Outcome::NoEffect(why));
                    ends.push(End::Sent(Outcome::NoEffect(why)));
                    continue;
                }
                Ok((Judged { event, .. }, claim)) => (event, claim),
                Err(refusal) => {
                    ledger.refuse_event(refusal.clone());
                    ends.push(End::Refused(refusal));
                    continue;
                }
            };
            ledger.record.run_conflict = claim.conflict();
            ledger.record.upstream = Some(Arc::clone(&self.upstream));
            let kept = Arc::clone(&reservation);
            let (gate, sender) = (Arc::clone(self), Arc::clone(&caller));
            items.push(Item {
                place: indices.len(),
                run: Run::of(&event),
                delivery: forwarded.delivery(event, &visit, &caller),
                on_end: Box::new(move |end| {
                    claim.settle(&end.outcome);
                    gate.heed(&sender, &end.outcome);
                    ledger.end_event(end);
                    drop(kept);
                }),
            });
            indices.push(index);
            ends.push(End::Sent(Outcome::Unknown(Unknown::Pending)));
        }
        drop(reservation);
        let sent = self.deliverer.submit_batch(items, received).await;
        for (index, end) in indices.into_iter().zip(sent.ends) {
            if let Some(slot) = ends.get_mut(index) {
                *slot = end;
            }
        }
        visit.report_batch(&BatchReport::counted(ends, sent.edges))
    }
}

impl Forwarded {
    fn delivery(&self, event: Event, visit: &Visit, caller: &Arc<Caller>) -> Delivery {
        Delivery {
            draws_edges: upstream::draws_edges(&event),
            body: event.body,
            caller_authorization: self.authorization.clone(),
            active_roles: self.active_roles.clone(),
            request_id: Arc::clone(&visit.voice.request_id),
            traceparent: self.traceparent.clone(),
            caller: Arc::clone(caller),
        }
    }
}

/// The refusal of the first event whose form is wrong, else of the first that is refused: the order of a single event.
/// Where it has words of its own, they say which event it is.
fn first_refusal(entries: &[Entry]) -> Option<Refusal> {
    let refusals =
        || entries.iter().enumerate().filter_map(|(index, entry)| Some((index, entry.judged.as_ref().err()?)));
    let is_form =
        |refusal: &Refusal| matches!(refusal, Refusal::Malformed(_) | Refusal::Invalid(_) | Refusal::TooLarge { .. });
    let (index, refusal) = refusals().find(|(_, refusal)| is_form(refusal)).or_else(|| refusals().next())?;
    let mut refusal = refusal.clone();
    if let Refusal::Malformed(text)
    | Refusal::Invalid(text)
    | Refusal::Unresolvable(text)
    | Refusal::TooLarge { bound: text } = &mut refusal
    {
        *text = format!("event {index} of the batch: {text}");
    }
    Some(refusal)
}

/// Writes the records of events that are refused with the whole.
fn refuse_all(entries: Vec<Entry>, refusal: Refusal) -> Refusal {
    for Entry { ledger, judged } in entries {
        ledger.refuse_event(judged.err().unwrap_or_else(|| refusal.clone()));
    }
    refusal
}
