//! Judgements with a fake source, and the proof that asking comes to the same as knowing.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::super::cache::{Metrics, Settings};
use super::*;
use crate::event::{DatasetType, JobName, Kind, Reference};
use crate::policy::file::{Format, parse};
use crate::policy::{Denied, GovernedBy, ObjectType, Refused, Why, compile};

const SETTINGS: Settings = Settings {
    fresh: Duration::from_secs(10),
    stale_if_error: Duration::from_secs(300),
    denied: Duration::from_secs(3),
    entries: 100_000,
    concurrency: 16,
};

const DEMO: &str = "
metalakes:
  - name: demo
    owner: { user: admin }
    users: [alice, bob]
    groups: [g]
    roles:
      - name: reader
        users: [alice]
        grants:
          - { on: catalog lake, allow: [USE_CATALOG] }
          - { on: schema lake.sales, allow: [USE_SCHEMA, SELECT_TABLE] }
          - { on: table lake.sales.salaries, deny: [SELECT_TABLE] }
          - { on: topic lake.sales.clicks, allow: [CONSUME_TOPIC] }
";

const RULES: &str = "
namespaces:
  - name: team
    callers: { users: [alice] }
    jobs: [{ namespace: orders, names: ['*'] }]
    inputs: [{ namespace: 'postgres://*', names: ['*'] }, { namespace: '*', names: ['*'] }]
    outputs: [{ namespace: 'postgres://*', names: ['*'] }]
    effect: allow
";

fn world(yaml: &str) -> World {
    let policy = parse(yaml, Format::Yaml).expect("the shape");
    compile(vec![policy::Source { file: "test.yaml".into(), policy }]).expect("the meaning")
}

fn event(job: &str, references: &[(Role, &str, &str)]) -> Event {
    let own = (Role::Job, job, "j");
    let references =
        std::iter::once(&own).chain(references).enumerate().map(|(at, (role, namespace, name))| Reference {
            role: *role,
            namespace: (*namespace).to_owned(),
            name: (*name).to_owned(),
            dataset_type: DatasetType::Absent,
            path: format!("place[{at}]"),
        });
    Event {
        kind: Kind::Run,
        body: Bytes::new(),
        job: Some(JobName { namespace: job.to_owned(), name: "j".to_owned() }),
        run_id: None,
        event_type: None,
        event_time: String::new(),
        producer: String::new(),
        schema_url: String::new(),
        deleted_facets: Vec::new(),
        data_sources: Vec::new(),
        references: references.collect(),
    }
}

fn caller(subject: &str, groups: &[&str]) -> Caller {
    Caller {
        issuer: "issuer".into(),
        subject: subject.into(),
        groups: groups.iter().map(|group| Arc::from(*group)).collect(),
        token_id: "t".into(),
        expires: std::time::SystemTime::UNIX_EPOCH,
        identity: [0; 32],
    }
}

/// A source that knows a world, answers for one caller, and may be in trouble.
struct Bench {
    files: World,
    server: Arc<World>,
    cache: Cache,
    caller: Caller,
    roles: ActiveRoles,
    facets: FacetReferences,
    unusable: Option<String>,
    trouble: Mutex<Option<Failure>>,
    fails_for: Mutex<Option<&'static str>>,
    takes: Duration,
    asked: Mutex<Vec<Question>>,
}

impl Bench {
    fn new(subject: &str) -> Self {
        Self {
            files: World::default(),
            server: Arc::new(world(DEMO)),
            cache: Cache::new(SETTINGS, Metrics::default(), Box::new(|| Box::pin(async { true }))),
            caller: caller(subject, &[]),
            roles: ActiveRoles::All,
            facets: FacetReferences::Governed,
            unusable: None,
            trouble: Mutex::default(),
            fails_for: Mutex::default(),
            takes: Duration::ZERO,
            asked: Mutex::default(),
        }
    }

    fn acting_as(self, roles: &str) -> Self {
        Self { roles: ActiveRoles::parse(Some(roles)).unwrap(), ..self }
    }

    fn trouble(&self, trouble: Option<Failure>) {
        *self.trouble.lock().unwrap() = trouble;
    }

    fn asked(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.iter().map(word).collect()
    }

    async fn judge(&self, event: &Event) -> Result<Ruled, Unjudged> {
        self.judge_as(&self.caller, event).await
    }

    async fn judge_as(&self, caller: &Caller, event: &Event) -> Result<Ruled, Unjudged> {
        let ask = Ask {
            caller,
            authorization: None,
            roles: &self.roles,
            active_roles: None,
            event,
            facets: self.facets,
            deadline: Instant::now() + Duration::from_millis(2_500),
        };
        let elsewhere = Elsewhere {
            governs: &|_, namespace| self.server.is_metalake(namespace),
            snapshots: &|_| None,
            stale: &|_| false,
            unusable: self.unusable.as_deref().map(Arc::from),
            cache: &self.cache,
        };
        elsewhere.judge(&self.files, &ask, |question| self.answer(caller, question)).await
    }

    fn answer(
        &self,
        caller: &Caller,
        question: Question,
    ) -> impl Future<Output = Result<Told, Failure>> + Send + use<> {
        self.asked.lock().unwrap().push(question.clone());
        let mut trouble = self.trouble.lock().unwrap().clone();
        if self.fails_for.lock().unwrap().is_some_and(|name| word(&question).ends_with(name)) {
            trouble = Some(Failure::Unavailable("down".to_owned()));
        }
        let (server, caller, roles, takes) = (Arc::clone(&self.server), caller.clone(), self.roles.clone(), self.takes);
        async move {
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            let who = Identity { subject: &caller.subject, groups: &caller.groups };
            let sees = |metalake, target| policy::sees(&server, &who, &roles, metalake, target).unwrap();
            let yes = match (trouble, question) {
                (Some(trouble), _) => return Err(trouble),
                (None, Question::Member { metalake }) => sees(&metalake, (ObjectType::Metalake, &metalake)),
                (None, Question::RolesHeld { metalake }) => policy::holds_roles(&server, &who, &roles, &metalake),
                (None, Question::Visible { metalake, kind, name }) => sees(&metalake, (kind, &name)),
            };
            Ok(Told { yes, keep: true })
        }
    }
}

fn word(question: &Question) -> String {
    match question {
        Question::Member { metalake } => format!("member {metalake}"),
        Question::RolesHeld { metalake } => format!("roles {metalake}"),
        Question::Visible { kind, name, .. } => format!("{} {name}", kind.word()),
    }
}

fn outcome(ruled: &Result<Ruled, Unjudged>) -> &'static str {
    match ruled {
        Ok(Ruled { judgement: Judgement::Allowed { .. }, .. }) => "allowed",
        Ok(Ruled { judgement: Judgement::Denied(Denied { refusal, .. }), .. }) => match refusal {
            Refused::NotVisible => "hidden",
            Refused::RolesNotHeld(_) => "roles",
            Refused::Unresolvable(_) => "unresolvable",
        },
        Err(Unjudged::CallerUnauthenticated) => "unauthenticated",
        Err(Unjudged::Unavailable(_)) => "unavailable",
    }
}

const ORDERS: (Role, &str, &str) = (Role::Input, "demo", "lake.sales.orders");
const SALARIES: (Role, &str, &str) = (Role::Output, "demo", "lake.sales.salaries");

/// Caller, its active roles, what the event names, the outcome, and what is asked.
type Row<'a> = (&'a str, &'a str, &'a [(Role, &'a str, &'a str)], &'a str, &'a [&'a str]);

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_that_cannot_change_the_answer() {
    let member = "member demo";
    let rows: [Row<'_>; 11] = [
        ("alice", "ALL", &[], "allowed", &[member]),
        ("alice", "ALL", &[ORDERS], "allowed", &[member, "table lake.sales.orders"]),
        ("alice", "ALL", &[ORDERS, ORDERS], "allowed", &[member, "table lake.sales.orders"]),
        ("alice", "ALL", &[SALARIES], "hidden", &[member, "table lake.sales.salaries"]),
        ("eve", "ALL", &[ORDERS, SALARIES], "hidden", &[member]),
        ("eve", "ALL", &[(Role::Input, "demo", "bad")], "hidden", &[member]),
        ("alice", "nope", &[ORDERS], "roles", &[member, "roles demo"]),
        ("alice", "reader", &[ORDERS], "allowed", &[member, "roles demo", "table lake.sales.orders"]),
        ("alice", "ALL", &[SALARIES, (Role::Output, "demo", "bad")], "unresolvable", &[member]),
        ("alice", "ALL", &[(Role::Input, "other", "lake.sales.orders")], "unresolvable", &[member]),
        ("alice", "NONE", &[ORDERS], "hidden", &[member, "table lake.sales.orders"]),
    ];
    for (subject, roles, named, expected, asked) in rows {
        let bench = Bench::new(subject).acting_as(roles);
        let ruled = bench.judge(&event("demo", named)).await;
        assert_eq!(
            (outcome(&ruled), bench.asked()),
            (expected, asked.iter().map(ToString::to_string).collect()),
            "{named:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_facets_dataset_is_asked_for_as_one_type_after_the_other_until_a_yes() {
    let bench = Bench::new("alice");
    let clicks = (Role::FacetDataset, "demo", "lake.sales.clicks");
    let ruled = bench.judge(&event("demo", &[clicks])).await;
    assert_eq!(outcome(&ruled), "allowed");
    assert_eq!(bench.asked(), ["member demo", "table lake.sales.clicks"]);
    let bench = Bench::new("alice");
    let hidden = (Role::FacetDataset, "demo", "lake.sales.salaries");
    assert_eq!(outcome(&bench.judge(&event("demo", &[hidden])).await), "hidden");
    let kinds = ["table", "view", "fileset", "model", "topic"].map(|kind| format!("{kind} lake.sales.salaries"));
    assert_eq!(bench.asked()[1..], kinds);
    let bench = Bench { facets: FacetReferences::Ignore, ..Bench::new("alice") };
    assert_eq!(outcome(&bench.judge(&event("demo", &[hidden])).await), "allowed");
    assert_eq!(bench.asked(), ["member demo"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_namespace_rule_is_asked_about_where_it_names_a_metalake() {
    let table = (Role::Input, "postgres://w:5432", "a.b.c");
    for (named, expected, asked) in [
        (vec![table], "allowed", 0),
        (vec![table, ORDERS], "allowed", 2),
        (vec![table, (Role::Input, "demo", "lake.sales.salaries")], "hidden", 2),
        (vec![(Role::Output, "s3://elsewhere", "a"), ORDERS], "hidden", 1),
    ] {
        let bench = Bench { files: world(RULES), ..Bench::new("alice") };
        let ruled = bench.judge(&event("orders", &named)).await;
        assert_eq!((outcome(&ruled), bench.asked().len()), (expected, asked), "{named:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_known_is_not_asked_again_and_the_rule_is_told() {
    let bench = Bench::new("alice");
    let first = bench.judge(&event("demo", &[ORDERS])).await.unwrap();
    assert_eq!(first.judgement, Judgement::Allowed { governed_by: GovernedBy::Metalake("demo".into()) });
    bench.asked();
    assert_eq!(bench.judge(&event("demo", &[ORDERS])).await.unwrap(), first);
    assert!(bench.asked().is_empty());
    let Judgement::Denied(denied) = bench.judge(&event("demo", &[SALARIES])).await.unwrap().judgement else {
        panic!("allowed")
    };
    let on = "table lake.sales.salaries of metalake demo".to_owned();
    assert_eq!((denied.reference, denied.why), (Some(1), Why::Source { on, visible: false }));
}

#[tokio::test(start_paused = true)]
async fn trouble_is_never_a_no_and_a_no_needs_no_more_answers() {
    let down = || Some(Failure::Unavailable("down".to_owned()));
    let bench = Bench::new("alice");
    bench.trouble(down());
    assert_eq!(bench.judge(&event("demo", &[])).await, Err(Unjudged::Unavailable("down".to_owned())));
    bench.trouble(Some(Failure::CallerUnauthenticated));
    assert_eq!(bench.judge(&event("demo", &[])).await, Err(Unjudged::CallerUnauthenticated));
    bench.trouble(None);
    *bench.fails_for.lock().unwrap() = Some("orders");
    assert_eq!(outcome(&bench.judge(&event("demo", &[ORDERS])).await), "unavailable");
    assert_eq!(outcome(&bench.judge(&event("demo", &[ORDERS, SALARIES])).await), "hidden");
    assert_eq!(
        outcome(&bench.judge(&event("demo", &[(Role::FacetDataset, "demo", "lake.sales.orders")])).await),
        "unavailable"
    );
}

#[tokio::test(start_paused = true)]
async fn old_answers_are_marked_and_end() {
    let bench = Bench::new("alice");
    let event = event("demo", &[ORDERS]);
    assert!(!bench.judge(&event).await.unwrap().stale);
    bench.trouble(Some(Failure::Unavailable("down".to_owned())));
    tokio::time::advance(SETTINGS.fresh).await;
    assert!(bench.judge(&event).await.unwrap().stale);
    tokio::time::advance(SETTINGS.stale_if_error).await;
    assert_eq!(outcome(&bench.judge(&event).await), "unavailable");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_cannot_be_relied_on_is_not_believed_from_the_cache_either() {
    let mut bench = Bench::new("alice");
    assert_eq!(outcome(&bench.judge(&event("demo", &[])).await), "allowed");
    bench.unusable = Some("authorization is off".to_owned());
    let ruled = bench.judge(&event("demo", &[])).await;
    assert_eq!(ruled, Err(Unjudged::Unavailable("authorization is off".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_cold_burst_asks_once_a_key_and_refuses_nobody() {
    let callers: Vec<Caller> = (0..20).map(|at| caller(&format!("u{at}"), &[])).collect();
    let yaml = "
metalakes:
  - name: demo
    owner: { user: admin }
    users: [u0, u1, u2, u3, u4, u5, u6, u7, u8, u9, u10, u11, u12, u13, u14, u15, u16, u17, u18, u19]
    groups: [all]
    roles:
      - { name: all, groups: [all], grants: [{ on: metalake, allow: [USE_CATALOG, USE_SCHEMA, SELECT_TABLE] }] }
";
    let callers: Vec<Caller> =
        callers.into_iter().map(|one| Caller { groups: Arc::from(["all".into()]), ..one }).collect();
    let bench = Bench { server: Arc::new(world(yaml)), takes: Duration::from_millis(20), ..Bench::new("u0") };
    let bench = Arc::new(bench);
    let names: Vec<String> = (0..50).map(|at| format!("c.s.t{at}")).collect();
    let named: Vec<_> = names.iter().map(|name| (Role::Input, "demo", name.as_str())).collect();
    let event = Arc::new(event("demo", &named));
    let began = Instant::now();
    let mut requests = tokio::task::JoinSet::new();
    for at in 0..1_000 {
        let (bench, event, caller) = (Arc::clone(&bench), Arc::clone(&event), callers[at % 20].clone());
        requests.spawn(async move { outcome(&bench.judge_as(&caller, &event).await) });
    }
    let outcomes = requests.join_all().await;
    assert!(outcomes.iter().all(|outcome| *outcome == "allowed"));
    assert_eq!(bench.asked().len(), 20 + 1_000, "one question a key: a membership and 50 datasets a caller");
    assert!(began.elapsed() < Duration::from_millis(1_500), "{:?}", began.elapsed());
}

/// An event that reads that many tables which nobody was asked about.
fn wide_event(datasets: usize) -> Event {
    let names: Vec<String> = (0..datasets).map(|at| format!("lake.sales.t{at}")).collect();
    let named: Vec<_> = names.iter().map(|name| (Role::Input, "demo", name.as_str())).collect();
    event("demo", &named)
}

#[tokio::test(start_paused = true)]
async fn the_answers_that_came_before_the_deadline_are_kept_and_not_asked_for_again() {
    let bench = Bench { takes: Duration::from_millis(60), ..Bench::new("alice") };
    let event = wide_event(500);
    let began = Instant::now();
    assert_eq!(outcome(&bench.judge(&event).await), "unavailable");
    assert_eq!(began.elapsed(), Duration::from_millis(2_500), "the deadline, not earlier and not later");
    let began = Instant::now();
    assert_eq!(outcome(&bench.judge(&wide_event(300)).await), "allowed", "8 at once, 40 times");
    assert_eq!(began.elapsed(), Duration::ZERO, "from what is kept");
    assert_eq!(outcome(&bench.judge(&event).await), "allowed");
    assert_eq!(bench.asked().len(), 501, "nothing was asked twice");
}

#[tokio::test(start_paused = true)]
async fn an_event_too_large_to_be_asked_about_in_time_passes_when_it_comes_again() {
    // Eight at once, so all 500 answers take 63 times as long as one, in the last row nearly as long as an answer is fresh.
    for (takes, most) in [(30, 1), (60, 2), (100, 3), (150, 4)] {
        let bench = Bench { takes: Duration::from_millis(takes), ..Bench::new("alice") };
        let event = wide_event(500);
        let mut sent = 1;
        let ruled = loop {
            let began = Instant::now();
            let ruled = bench.judge(&event).await;
            assert!(began.elapsed() <= Duration::from_millis(2_500), "{takes} ms: {:?}", began.elapsed());
            if outcome(&ruled) != "unavailable" || sent == most {
                break ruled;
            }
            sent += 1;
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        assert_eq!((outcome(&ruled), sent > 1), ("allowed", takes > 40), "{takes} ms, sent {sent} times");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_cannot_keep_a_revoked_grant_by_a_flood_of_its_own() {
    let mut bench = Bench { takes: Duration::from_millis(150), ..Bench::new("alice") };
    let event = event("demo", &[ORDERS]);
    assert_eq!(outcome(&bench.judge(&event).await), "allowed");
    bench.server = Arc::new(world(
        &DEMO.replace("SELECT_TABLE] }\n          - { on: table", "USE_SCHEMA] }\n          - { on: table"),
    ));
    tokio::time::advance(SETTINGS.fresh).await;
    let bench = Arc::new(bench);
    let flooding = Arc::clone(&bench);
    let flood = tokio::spawn(async move { outcome(&flooding.judge(&wide_event(500)).await) });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(outcome(&bench.judge(&event).await), "unavailable", "its question waits");
    assert_ne!(flood.await.unwrap(), "allowed");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(outcome(&bench.judge(&event).await), "hidden");
}

#[tokio::test(start_paused = true)]
async fn while_grants_change_no_request_fails_and_each_change_holds_in_time() {
    let mut bench = Bench::new("alice");
    let event = event("demo", &[ORDERS]);
    let revoked = Arc::new(world(
        &DEMO.replace("SELECT_TABLE] }\n          - { on: table", "USE_SCHEMA] }\n          - { on: table"),
    ));
    let granted = Arc::clone(&bench.server);
    let mut changed = Instant::now();
    for second in 0..120_u32 {
        let is_revoked = second / 30 % 2 == 1;
        if second % 30 == 0 {
            bench.server = Arc::clone(if is_revoked { &revoked } else { &granted });
            changed = Instant::now();
        }
        let found = outcome(&bench.judge(&event).await);
        assert_ne!(found, "unavailable");
        if changed.elapsed() >= SETTINGS.fresh {
            assert_eq!(found, if is_revoked { "hidden" } else { "allowed" }, "{second}");
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
    }
}

#[test]
fn what_governs_a_namespace_is_the_files_first_and_then_the_server() {
    let files = world(&format!("{DEMO}{RULES}"));
    let rows = [
        ("demo", Role::Job, false, false),
        ("other", Role::Job, true, true),
        ("other", Role::Input, true, true),
        ("other", Role::FacetDataset, true, false),
        ("orders", Role::Job, true, false),
        ("postgres://w", Role::Input, true, false),
        // Named by a rule as a place of datasets only, and still the rules' as a whole.
        ("postgres://w", Role::Job, true, false),
        ("s3://bucket", Role::Job, true, true),
        ("s3://bucket", Role::Input, true, false),
        ("", Role::Output, true, false),
    ];
    for (namespace, role, by_name, otherwise) in rows {
        let found = [true, false].map(|listed| is_elsewhere(&files, listed, role, namespace));
        assert_eq!(found, [by_name, otherwise], "{namespace} {role:?}");
    }
}

const OBJECTS: [&str; 6] = ["metalake", "catalog a", "schema a.s", "table a.s.t", "view a.s.v", "fileset b.s.f"];
const NAMES: [&str; 7] = ["a.s.t", "a.s.u", "a.s.v", "b.s.f", "a.s", "a..t", "*.s.t"];
const TYPES: [&str; 4] = ["TABLE", "VIEW", "FILESET", "NOPE"];

fn grants() -> impl Strategy<Value = String> {
    let levels = |on: &str| match on {
        "metalake" => &["USE_CATALOG", "USE_SCHEMA", "SELECT_TABLE", "SELECT_VIEW", "READ_FILESET"][..],
        "catalog a" => &["USE_CATALOG", "USE_SCHEMA", "SELECT_TABLE", "SELECT_VIEW"][..],
        "schema a.s" => &["USE_SCHEMA", "SELECT_TABLE", "SELECT_VIEW"][..],
        "table a.s.t" => &["SELECT_TABLE"][..],
        "view a.s.v" => &["SELECT_VIEW"][..],
        _ => &["READ_FILESET"][..],
    };
    (select(&OBJECTS[..]), prop::collection::vec(0..5_usize, 1..5), any::<bool>()).prop_map(move |(on, picks, deny)| {
        let known = levels(on);
        let mut names: Vec<&str> = picks.iter().map(|pick| known[pick % known.len()]).collect();
        names.sort_unstable();
        names.dedup();
        let word = if deny && names.len() == 1 { "deny" } else { "allow" };
        format!("          - {{ on: {on}, {word}: [{}] }}\n", names.join(", "))
    })
}

fn some_world() -> impl Strategy<Value = String> {
    let role = (subsequence(vec!["u", "v"], 0..=2), any::<bool>(), prop::collection::vec(grants(), 1..5));
    let owners = subsequence(OBJECTS[1..].to_vec(), 0..3);
    (prop::collection::vec(role, 1..4), owners).prop_map(|(roles, owners)| {
        let mut yaml =
            "metalakes:\n  - name: m\n    owner: { user: admin }\n    users: [u, v]\n    groups: [g]\n    roles:\n"
                .to_owned();
        for (at, (users, group, grants)) in roles.iter().enumerate() {
            let groups = if *group { "g" } else { "" };
            yaml += &format!(
                "      - name: r{at}\n        users: [{}]\n        groups: [{groups}]\n        grants:\n",
                users.join(", ")
            );
            yaml.extend(grants.iter().map(String::as_str));
        }
        if !owners.is_empty() {
            yaml += "    owners:\n";
        }
        for on in owners {
            yaml += &format!("      - {{ on: {on}, user: u }}\n");
        }
        yaml
    })
}

fn some_event() -> impl Strategy<Value = Event> {
    let role = select(vec![Role::Input, Role::Output, Role::FacetDataset, Role::FacetJob]);
    let kind = prop_oneof![3 => Just(DatasetType::Absent), 1 => Just(DatasetType::Blank),
        3 => select(&TYPES[..]).prop_map(|name| DatasetType::Named(name.to_owned()))];
    let reference = (role, prop_oneof![12 => Just("m"), 1 => Just("other")], select(&NAMES[..]), kind);
    prop::collection::vec(reference, 0..6).prop_map(|references| {
        let named: Vec<_> = references.iter().map(|(role, namespace, name, _)| (*role, *namespace, *name)).collect();
        let mut event = event("m", &named);
        for (reference, (.., kind)) in event.references.iter_mut().skip(1).zip(references) {
            reference.dataset_type = kind;
        }
        event
    })
}

/// What the caller is told. Which of several roles is not held the server does not say.
fn told(judgement: &Judgement) -> Option<Refused> {
    match judgement {
        Judgement::Allowed { .. } => None,
        Judgement::Denied(Denied { refusal: Refused::RolesNotHeld(_), .. }) => {
            Some(Refused::RolesNotHeld(String::new()))
        }
        Judgement::Denied(denied) => Some(denied.refusal.clone()),
    }
}

proptest! {
    #[test]
    fn asking_comes_to_the_same_as_knowing(
        yaml in some_world(),
        events in prop::collection::vec(some_event(), 1..4),
        subject in select(vec!["u", "v", "admin", "stranger"]),
        groups in subsequence(vec!["g", "h"], 0..=2),
        roles in select(vec!["ALL", "NONE", "r0", "r0,r1", "nope"]),
        facets in select(vec![FacetReferences::Ignore, FacetReferences::Governed, FacetReferences::All]),
    ) {
        let bench = Bench { server: Arc::new(world(&yaml)), facets, ..Bench::new(subject) }.acting_as(roles);
        let bench = Bench { caller: caller(subject, &groups), ..bench };
        let who = Identity { subject, groups: &bench.caller.groups };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        // Later events find a part of the answers in the cache.
        for event in &events {
            let known = policy::judge(&bench.server, &who, &bench.roles, event, facets);
            let asked = runtime.block_on(bench.judge(event)).expect("no trouble");
            prop_assert_eq!(told(&asked.judgement), told(&known), "{:?}", event.references);
            if let (Judgement::Allowed { governed_by: a }, Judgement::Allowed { governed_by: b }) = (&asked.judgement, &known) {
                prop_assert_eq!(a, b);
            }
        }
    }
}
