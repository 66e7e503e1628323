//! What the policy says of an event, and what becomes of an event that it says nothing of.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderValue;
use tokio::time::Instant;

use crate::answer::{Challenge, Outcome, Refusal};
use crate::auth::Caller;
use crate::config::{FacetReferences, PolicyMode};
use crate::event::Event;
use crate::limit::{Point, Subject};
use crate::policy::{ActiveRoles, GovernedBy, Judgement};
use crate::source::{Ask, Ruled, Unjudged};

use super::visit::{Ledger, Visit};
use super::{Gate, cost, governor};

/// Who has an event judged: with what it asks, and until when there must be a judgement.
pub(super) struct Petitioner<'a> {
    pub(super) caller: &'a Arc<Caller>,
    pub(super) roles: &'a ActiveRoles,
    pub(super) authorization: Option<&'a HeaderValue>,
    pub(super) active_roles: Option<&'a HeaderValue>,
    pub(super) deadline: Instant,
}

impl Petitioner<'_> {
    pub(super) fn ask<'a>(&'a self, event: &'a Event, facets: FacetReferences) -> Ask<'a> {
        Ask {
            caller: self.caller,
            authorization: self.authorization,
            roles: self.roles,
            active_roles: self.active_roles,
            event,
            facets,
            deadline: self.deadline,
        }
    }
}

impl Gate {
    pub(super) async fn judge(
        &self,
        event: &Event,
        petitioner: &Petitioner<'_>,
        client: Option<IpAddr>,
        visit: &mut Visit,
    ) -> Result<(), Refusal> {
        let began = Instant::now();
        let verdict = self.verdict(event, petitioner, &mut visit.ledger).await;
        visit.ledger.record.stages.policy = Some(began.elapsed());
        let governed_by = verdict?;
        let (metalake, namespace) = governor(&governed_by, event);
        let subject = Subject { peer: client, caller: Some(petitioner.caller), metalake, namespace };
        self.charge(Point::Judged, &subject, &cost(event), visit)
    }

    /// Asks the policy, and notes its answer. What governs an event that is only let through is nothing.
    pub(super) async fn verdict(
        &self,
        event: &Event,
        petitioner: &Petitioner<'_>,
        ledger: &mut Ledger,
    ) -> Result<GovernedBy, Refusal> {
        let Some(source) = self.policy.source.as_ref().filter(|_| self.policy.mode != PolicyMode::Off) else {
            return Ok(GovernedBy::Nothing);
        };
        let judgement = match source.judge(&petitioner.ask(event, self.policy.facets)).await {
            Ok(Ruled { judgement, stale }) => {
                ledger.record.stale |= stale;
                judgement
            }
            Err(unjudged) => return self.unjudged(&unjudged, ledger).map(|()| GovernedBy::Nothing),
        };
        match judgement {
            Judgement::Allowed { governed_by } => {
                ledger.allowed(&governed_by);
                Ok(governed_by)
            }
            Judgement::Denied(denied) => {
                ledger.denied(&denied, event);
                if self.policy.mode == PolicyMode::Shadow {
                    ledger.record.shadow = true;
                    return Ok(GovernedBy::Nothing);
                }
                Err(denied.refusal.into())
            }
        }
    }

    /// A policy that only reports refuses nobody, also where it is not known.
    pub(super) fn unjudged(&self, unjudged: &Unjudged, ledger: &mut Ledger) -> Result<(), Refusal> {
        ledger.unjudged(unjudged);
        if self.policy.mode == PolicyMode::Shadow {
            ledger.record.shadow = true;
            return Ok(());
        }
        Err(match unjudged {
            Unjudged::CallerUnauthenticated => {
                let reason = "the token is not accepted by the metadata server";
                Refusal::Unauthenticated(Challenge { token_sent: true, reason })
            }
            Unjudged::Unavailable(_) => Refusal::PolicyUnavailable,
        })
    }

    /// What the backend says of the caller's own credential is news of the caller, and of nobody else.
    pub(super) fn heed(&self, caller: &Caller, outcome: &Outcome) {
        if let (Outcome::CallerUnauthenticated | Outcome::CallerForbidden, Some(source)) =
            (outcome, &self.policy.source)
        {
            source.forget_caller(caller);
        }
    }
}
