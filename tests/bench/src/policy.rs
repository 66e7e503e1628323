//! What a policy costs: to read, and for a decision.

use std::hint::black_box;
use std::time::Duration;

use anyhow::ensure;
use bytes::Bytes;
use lineage_gate::config::{self, EventTime, FacetReferences};
use lineage_gate::event::{self, Rules};
use lineage_gate::policy::{self, ActiveRoles, Identity, Judgement};
use lineage_gate::source::Files;
use tokio::time::Instant;

use crate::events;

const DECISIONS: u32 = 10_000;
pub const DATASETS: usize = 50;

/// What was measured of one policy.
pub struct Measured {
    /// Size of the file.
    pub bytes: u64,
    pub load: Duration,
    pub first: Duration,
    pub mean: Duration,
}

impl Measured {
    pub fn of(roles: usize) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("policy.json");
        std::fs::write(&path, events::policy(events::TABLES, roles))?;
        let began = Instant::now();
        let files = Files::load(&path).map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
        let load = began.elapsed();

        let rules = Rules::new(&config::Event::default(), EventTime::AssumeUtc, false);
        let event = event::parse(Bytes::from(events::event(DATASETS)), &rules)?;
        let who = Identity { subject: events::CALLER, groups: &[] };
        let world = files.world();
        let judge = || policy::judge(&world, &who, &ActiveRoles::All, &event, FacetReferences::Governed);
        let began = Instant::now();
        let judgement = black_box(judge());
        let first = began.elapsed();
        ensure!(matches!(judgement, Judgement::Allowed { .. }), "the event is not allowed: {judgement:?}");
        let began = Instant::now();
        for _ in 0..DECISIONS {
            black_box(judge());
        }
        let mean = began.elapsed() / DECISIONS;
        Ok(Self { bytes: std::fs::metadata(&path)?.len(), load, first, mean })
    }
}
