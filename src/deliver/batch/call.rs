//! Events that the backend takes several at a time, by its own call for batches (facts: backends 2.5).
//!
//! A call is one exchange: it has one place in the queue, and the breaker is asked once. Each of its events has its own
//! memory, waiters and report, as if it were sent alone. Where the backend refuses a call as a whole, or has none, it has
//! taken nothing of it: its events are then sent one by one, so that one of them does not spoil the others.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::answer::{End, NotAttempted, Outcome, Unknown};
use crate::deliver::Shared;
use crate::deliver::duplicates::is_delivery;
use crate::deliver::exchange::{Exchange, caught};
use crate::deliver::waiter::Handle;
use crate::upstream::{BatchOutcome, Delivery};

use super::chunk::{Bounds, chunks};
use super::plan::{self, Run};
use super::{Course, Item, State, Told, Unit, fan_out};

/// How large one call may be: within what web servers in front of a backend take by default, and what it works off in the
/// time that a client waits.
const BOUNDS: Bounds = Bounds { events: 100, bytes: 1 << 20 };

/// An event of a call, without its exchange.
struct Member {
    place: usize,
    run: Run,
    delivery: Delivery,
    handle: Handle,
}

/// A call on its way.
struct Call {
    shared: Arc<Shared>,
    exchanges: Vec<Exchange>,
    /// Of one of the events: all but its body holds for each.
    delivery: Delivery,
    bodies: Vec<Bytes>,
    draws_edges: Vec<bool>,
}

/// How a call ended.
enum Ended {
    /// Each event has its end. The edges of all of them, where the backend counts them.
    Told(Option<u64>),
    /// Nothing was taken: the events are to be sent one by one.
    Back {
        exchanges: Vec<Exchange>,
        /// So are all others.
        is_unsupported: bool,
    },
}

/// What a call leaves to be done.
struct Answered {
    told: Vec<Told>,
    back: Vec<Unit>,
    is_unsupported: bool,
}

/// Sends `items` in calls, one after the other.
pub(super) async fn in_calls(course: &Arc<Course>, items: Vec<Item>) -> Vec<Told> {
    let sizes: Vec<usize> = items.iter().map(|item| item.delivery.body.len()).collect();
    let mut items = items.into_iter();
    let mut all = Vec::new();
    let mut ended = HashSet::new();
    for chunk in chunks(&sizes, BOUNDS) {
        let (units, left) = admit(course, &ended, items.by_ref().take(chunk.len())).await;
        all.extend(left);
        let mut answered = call(course, units).await;
        if answered.is_unsupported {
            let (units, left) = admit(course, &ended, items.by_ref()).await;
            all.extend(left);
            answered.back.extend(units.into_iter().map(Unit::from));
        }
        answered.told.extend(fan_out(course, answered.back).await);
        let is_over = |told: &&Told| course.note(told).is_some();
        ended.extend(answered.told.iter().filter(is_over).map(|told| told.run.clone()));
        all.extend(answered.told);
    }
    all
}

/// Leaves those whose run has ended, or all where nothing more is begun.
async fn admit(course: &Course, ended: &HashSet<Run>, items: impl Iterator<Item = Item>) -> (Vec<Item>, Vec<Told>) {
    let (mut admitted, mut left) = (Vec::new(), Vec::new());
    for item in items {
        let earlier = ended.contains(&item.run).then_some(NotAttempted::EarlierFailed);
        match earlier.or_else(|| course.why_not()) {
            Some(why) => left.push(Unit::from(item).leave(why).await),
            None => admitted.push(item),
        }
    }
    (admitted, left)
}

/// Sends these events in one call, but for those that were delivered or are on their way already.
async fn call(course: &Course, items: Vec<Item>) -> Answered {
    let Course { deliverer, received, .. } = course;
    let (mut members, mut exchanges, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for Item { place, run, delivery, on_end } in items {
        let event = deliverer.shared.event(&delivery);
        let (exchange, handle) = deliverer.begin(event, *received, on_end);
        let member = Member { place, run, delivery, handle };
        match exchange {
            Some(exchange) => {
                exchanges.push(exchange);
                members.push(member);
            }
            None => others.push(member),
        }
    }
    let mut answered = send(course, members, exchanges).await;
    for member in others {
        answered.told.push(member.told().await);
    }
    answered
}

async fn send(course: &Course, members: Vec<Member>, exchanges: Vec<Exchange>) -> Answered {
    let shared = &course.deliverer.shared;
    let back = |members: Vec<Member>, exchanges| members.into_iter().zip(exchanges).map(Member::unit).collect();
    let first = match members.as_slice() {
        [] => return Answered { told: Vec::new(), back: Vec::new(), is_unsupported: false },
        // One event alone is answered more exactly than in a call.
        [_] => return Answered { told: Vec::new(), back: back(members, exchanges), is_unsupported: false },
        [first, ..] => first.delivery.clone(),
    };
    let bodies = members.iter().map(|member| member.delivery.body.clone()).collect();
    let draws_edges = members.iter().map(|member| member.delivery.draws_edges).collect();
    let call = Call { shared: Arc::clone(shared), exchanges, delivery: first, bodies, draws_edges };
    let ended = call.start(shared.queue_until(course.received));
    let mut edges = match timeout_at(course.answer_by(), ended).await {
        Ok(Ok(Ended::Back { exchanges, is_unsupported })) => {
            return Answered { told: Vec::new(), back: back(members, exchanges), is_unsupported };
        }
        Ok(Ok(Ended::Told(edges))) => edges,
        Ok(Err(_)) | Err(_) => None,
    };
    let mut told = Vec::with_capacity(members.len());
    let is_counted = edges.is_some();
    for member in members {
        let end = member.told().await;
        // The sum stands at the first event: which of them it belongs to, the backend does not say.
        told.push(if is_counted { Told { edges: Some(edges.take().unwrap_or(0)), ..end } } else { end });
    }
    Answered { told, back: Vec::new(), is_unsupported: false }
}

impl Member {
    async fn told(self) -> Told {
        Told::new(self.place, self.run, End::Sent(self.handle.outcome().await))
    }

    fn unit((member, exchange): (Self, Exchange)) -> Unit {
        let Self { place, run, delivery, handle } = member;
        Unit { place, run, delivery, state: State::Begun(exchange, handle) }
    }
}

impl Call {
    /// Runs it in a task, which goes on whoever leaves.
    fn start(self, queue_until: Instant) -> oneshot::Receiver<Ended> {
        let (tell, ended) = oneshot::channel();
        let tasks = self.shared.drain.tasks().clone();
        tasks.spawn(async move {
            let outcome = tokio::select! {
                outcome = caught(self.attempt(queue_until)) => {
                    outcome.unwrap_or(BatchOutcome::Whole(Outcome::Fault { status: 500 }))
                }
                () = self.shared.drain.aborted() => BatchOutcome::Whole(Outcome::Unknown(Unknown::Pending)),
            };
            if let Err(Ended::Back { exchanges, .. }) = tell.send(self.end(outcome)) {
                end_all(exchanges, &Outcome::NotSent);
            }
        });
        ended
    }

    async fn attempt(&self, queue_until: Instant) -> BatchOutcome {
        let Some(event) = self.exchanges.first().map(Exchange::event) else { return BatchOutcome::Unsupported };
        let send = self.shared.upstream.send_batch(&self.delivery, &self.bodies);
        let sent = self.shared.pass(event, queue_until, send, as_one).await;
        sent.unwrap_or(BatchOutcome::Whole(Outcome::NotSent))
    }

    fn end(self, outcome: BatchOutcome) -> Ended {
        let Self { shared, exchanges, draws_edges, .. } = self;
        match outcome {
            BatchOutcome::Each { outcomes, edges } => {
                let outcomes = plan::attributed(outcomes, &draws_edges);
                for (mut exchange, outcome) in exchanges.into_iter().zip(outcomes) {
                    let outcome = exchange.poisoned(outcome);
                    exchange.end(outcome);
                }
                Ended::Told(edges)
            }
            BatchOutcome::Unsupported => Ended::Back { exchanges, is_unsupported: true },
            BatchOutcome::Whole(Outcome::Rejected { .. } | Outcome::TooLarge) => {
                Ended::Back { exchanges, is_unsupported: false }
            }
            BatchOutcome::Whole(outcome) => {
                // Each is suspect, and goes alone when it comes again; which is poison, only that tells.
                for exchange in &exchanges {
                    shared.health.is_poison(exchange.event(), &outcome);
                }
                end_all(exchanges, &outcome);
                Ended::Told(None)
            }
        }
    }
}

fn end_all(exchanges: Vec<Exchange>, outcome: &Outcome) {
    for mut exchange in exchanges {
        exchange.end(outcome.clone());
    }
}

/// What a call says of the backend: it works if it took any of the events.
fn as_one(sent: &BatchOutcome) -> Outcome {
    match sent {
        BatchOutcome::Each { outcomes, .. } => {
            let telling = outcomes.iter().find(|outcome| is_delivery(outcome)).or_else(|| outcomes.first());
            telling.cloned().unwrap_or(Outcome::NotSent)
        }
        BatchOutcome::Whole(outcome) => outcome.clone(),
        BatchOutcome::Unsupported => Outcome::BadGateway("it has no batch call".to_owned()),
    }
}

#[cfg(test)]
mod tests;
