//! What a warm decision costs: `cargo run --release --example policy_bench`.
//!
//! Prints the time of one decision about an event with 1, 50 and 500 datasets whose answers are all in the cache, beside
//! the same decision by policy files. It is the pure evaluator with the cache behind it: no source is asked.

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lineage_gate::auth::Caller;
use lineage_gate::config::{EventTime, FacetReferences};
use lineage_gate::event::{self, Event, Kind, Rules};
use lineage_gate::policy::file::{Format, parse};
use lineage_gate::policy::{self, ActiveRoles, Hearing, Identity, Inquiry, Witness, World};
use lineage_gate::source::cache::{About, Actor, Cache, Known, Metrics, Settings, Told};
use tokio::time::Instant;

const ROUNDS: u32 = 20_000;

const POLICY: &str = "
metalakes:
  - name: demo
    owner: { user: admin }
    users: [alice]
    roles:
      - { name: reader, users: [alice], grants: [{ on: metalake, allow: [USE_CATALOG, USE_SCHEMA, SELECT_TABLE] }] }
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), String> {
    let settings = Settings {
        fresh: Duration::from_secs(3_600),
        stale_if_error: Duration::from_secs(3_600),
        denied: Duration::from_secs(3),
        entries: 100_000,
        concurrency: 16,
    };
    let caller = Caller {
        issuer: "https://idp.example.com/".into(),
        subject: "alice".into(),
        groups: Arc::from(["analysts".into()]),
        token_id: "t".into(),
        expires: SystemTime::UNIX_EPOCH,
        identity: [7; 32],
    };
    let mut out = std::io::stdout();
    writeln!(out, "{:>8}  {:>12}  {:>12}", "datasets", "cached", "files").map_err(|error| error.to_string())?;
    for datasets in [1, 50, 500] {
        let event = event_of(datasets)?;
        let cache = Cache::new(settings, Metrics::default(), Box::new(|| Box::pin(async { true })));
        let cached = warm(&cache, &caller, &event).await?;
        let (cached, files) = (micros(cached), micros(by_files(&caller, &event)?));
        writeln!(out, "{datasets:>8}  {cached:>9.2} µs  {files:>9.2} µs").map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn warm(cache: &Cache, caller: &Caller, event: &Event) -> Result<Duration, String> {
    let (world, mut actor) = (World::default(), Actor::new(caller, &ActiveRoles::All));
    while let Hearing::Open(open) = decide(&world, cache, &actor, caller, event) {
        for inquiry in open {
            let about = About { key: actor.key(&inquiry), caller: actor.caller, metalake: inquiry.metalake.into() };
            let flight = cache
                .ask(&about, || async { Ok(Told { yes: true, keep: true }) })
                .map_err(|failure| failure.to_string())?;
            let deadline = Instant::now() + Duration::from_secs(10);
            flight.end(deadline).await.map_err(|failure| failure.to_string())?;
        }
    }
    let began = Instant::now();
    for _ in 0..ROUNDS {
        actor = Actor::new(black_box(caller), &ActiveRoles::All);
        black_box(decide(&world, cache, &actor, caller, event));
    }
    Ok(began.elapsed() / ROUNDS)
}

fn decide<'e>(world: &'e World, cache: &Cache, actor: &Actor, caller: &Caller, event: &'e Event) -> Hearing<'e> {
    let view = cache.view(actor.caller, Instant::now());
    let answers = |inquiry: &Inquiry<'_>| match view.known(&actor.key(inquiry), inquiry.metalake)? {
        Known::Allowed { .. } => Some(true),
        Known::Denied => Some(false),
    };
    let witness = Witness { governs: &|_, namespace| namespace == "demo", answers: &answers };
    let who = Identity { subject: &caller.subject, groups: &caller.groups };
    policy::hear(world, (&who, &ActiveRoles::All), event, FacetReferences::Governed, witness)
}

fn by_files(caller: &Caller, event: &Event) -> Result<Duration, String> {
    let policy = parse(POLICY, Format::Yaml).map_err(|error| error.message)?;
    let source = policy::Source { file: "bench.yaml".into(), policy };
    let world = policy::compile(vec![source]).map_err(|faults| format!("{faults:?}"))?;
    let who = Identity { subject: &caller.subject, groups: &caller.groups };
    let began = Instant::now();
    for _ in 0..ROUNDS {
        black_box(policy::judge(&world, &who, &ActiveRoles::All, black_box(event), FacetReferences::Governed));
    }
    Ok(began.elapsed() / ROUNDS)
}

fn event_of(datasets: usize) -> Result<Event, String> {
    let inputs: Vec<String> =
        (0..datasets).map(|at| format!(r#"{{"namespace":"demo","name":"lake.sales.orders_{at}"}}"#)).collect();
    let json = format!(
        r#"{{"eventTime":"2026-01-01T00:00:00Z","producer":"https://example.com","schemaURL":"https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent","run":{{"runId":"0190c7b0-0000-7000-8000-000000000000"}},"job":{{"namespace":"demo","name":"j"}},"inputs":[{}]}}"#,
        inputs.join(",")
    );
    let rules = Rules {
        event_time: EventTime::RequireOffset,
        kinds: vec![Kind::Run],
        runs_only: true,
        max_depth: 100,
        max_references: 10_000,
    };
    event::parse(json.into(), &rules).map_err(|error| error.to_string())
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
