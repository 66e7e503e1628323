use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;
use prometheus_client::registry::Registry;
use proptest::prelude::*;

use super::*;

const CALLER_AND_METALAKE: &str = "
- { name: caller, per: caller, rate: 100/s, burst: 200 }
- { name: caller-bytes, per: caller, unit: bytes, rate: 10MiB/s, burst: 20MiB }
- { name: lake, per: metalake, unit: events, rate: 1/s, burst: 3 }
- { name: network, per: peer, rate: 10/s, burst: 10 }
";

fn parse(yaml: &str) -> Vec<config::Limit> {
    serde_saphyr::from_str(yaml).unwrap()
}

fn limits(yaml: &str) -> Limits {
    Limits::new(&parse(yaml), &Metrics::default()).unwrap()
}

fn caller(subject: &str, groups: &[&str]) -> Caller {
    Caller {
        issuer: "https://idp.example.com/".into(),
        subject: subject.into(),
        groups: groups.iter().map(|group| Arc::from(*group)).collect(),
        token_id: "t".into(),
        expires: SystemTime::UNIX_EPOCH,
        identity: [0; 32],
    }
}

fn by(caller: &Caller) -> Subject<'_> {
    Subject { caller: Some(caller), ..Subject::default() }
}

fn event(bytes: u64) -> Cost {
    Cost { events: 1, bytes }
}

/// What is refused, and why; nothing if it passed.
fn refusal(result: &Result<Standings, Exceeded>) -> Option<(&'static str, String)> {
    match result {
        Ok(_) => None,
        Err(Exceeded::Limited { limit, .. }) => Some(("limited", limit.to_string())),
        Err(Exceeded::OverBurst { limit, .. }) => Some(("over burst", limit.to_string())),
    }
}

fn fields(standings: &Standings) -> (String, String) {
    let mut headers = HeaderMap::new();
    standings.write(&mut headers);
    let text = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    (text("ratelimit-policy"), text("ratelimit"))
}

/// How many of `tries` requests of `subject` pass at once.
fn passing(limits: &Limits, subject: &Subject<'_>, tries: u32) -> u32 {
    let now = Instant::now();
    let passes = |_: &u32| limits.charge(Point::Identified, subject, &Cost::default(), now).is_ok();
    u32::try_from((0..tries).filter(passes).count()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_burst_passes_at_once_and_the_rate_passes_afterwards() {
    let limits = limits("[{ name: caller, per: caller, rate: 10/s, burst: 5 }]");
    let alice = caller("alice", &[]);
    assert_eq!(passing(&limits, &by(&alice), 20), 5);
    tokio::time::advance(Duration::from_millis(99)).await;
    assert_eq!(passing(&limits, &by(&alice), 20), 0);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(passing(&limits, &by(&alice), 20), 1);
    tokio::time::advance(Duration::from_millis(250)).await;
    assert_eq!(passing(&limits, &by(&alice), 20), 2);
    tokio::time::advance(Duration::from_secs(3_600)).await;
    assert_eq!(passing(&limits, &by(&alice), 20), 5);
}

#[tokio::test(start_paused = true)]
async fn callers_and_peers_have_buckets_of_their_own() {
    let limits = limits(
        "[{ name: caller, per: caller, rate: 1/s, burst: 2 }, { name: network, per: peer, rate: 1/s, burst: 3 }]",
    );
    let (alice, bob) = (caller("alice", &[]), caller("bob", &[]));
    let alice_elsewhere = Caller { issuer: "https://other.example.com/".into(), ..alice.clone() };
    for caller in [&alice, &bob, &alice_elsewhere] {
        assert_eq!(passing(&limits, &by(caller), 9), 2);
    }
    for (peer, passes) in [("192.0.2.1", 3), ("192.0.2.2", 3), ("2001:db8::1", 3), ("2001:db8::2", 0)] {
        let peer = Subject { peer: Some(peer.parse().unwrap()), ..Subject::default() };
        let passing =
            (0..9).filter(|_| limits.charge(Point::Arrival, &peer, &Cost::default(), Instant::now()).is_ok()).count();
        assert_eq!(passing, passes, "{peer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn peers_of_a_unix_socket_are_limited_together() {
    let limits = limits("[{ name: network, per: peer, rate: 1/s, burst: 2 }]");
    let charge = || limits.charge(Point::Arrival, &Subject::default(), &Cost::default(), Instant::now());
    assert_eq!([charge().is_ok(), charge().is_ok(), charge().is_ok()], [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn each_limit_is_charged_at_its_point_only() {
    let names = |point: Point| -> Vec<String> {
        let mut charged = Vec::new();
        for per in ["peer", "caller", "metalake", "namespace"] {
            for unit in ["requests", "events", "bytes"] {
                let limits = limits(&format!("[{{ name: x, per: {per}, unit: {unit}, rate: 1/h, burst: 1 }}]"));
                let alice = caller("alice", &[]);
                let subject = Subject { metalake: Some("demo"), namespace: Some("team"), ..by(&alice) };
                let charge = || limits.charge(point, &subject, &event(1), Instant::now());
                if charge().is_ok() && charge().is_err() {
                    charged.push(format!("{per} {unit}"));
                }
            }
        }
        charged
    };
    assert_eq!(names(Point::Arrival), ["peer requests"]);
    assert_eq!(names(Point::Identified), ["caller requests"]);
    assert_eq!(names(Point::Parsed), ["peer events", "peer bytes", "caller events", "caller bytes"]);
    assert_eq!(
        names(Point::Judged),
        [
            "metalake requests",
            "metalake events",
            "metalake bytes",
            "namespace requests",
            "namespace events",
            "namespace bytes"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn limits_of_a_metalake_leave_other_events_alone() {
    let limits = limits(
        "[{ name: lake, per: metalake, rate: 1/h, burst: 1 }, { name: ns, per: namespace, rate: 1/h, burst: 2 }]",
    );
    let alice = caller("alice", &[]);
    let passing = |subject: Subject<'_>| {
        (0..9).filter(|_| limits.charge(Point::Judged, &subject, &event(1), Instant::now()).is_ok()).count()
    };
    assert_eq!(passing(Subject { metalake: Some("demo"), ..by(&alice) }), 1);
    assert_eq!(passing(Subject { metalake: Some("other"), ..by(&alice) }), 1);
    assert_eq!(passing(Subject { namespace: Some("demo"), ..by(&alice) }), 2);
}

#[tokio::test(start_paused = true)]
async fn a_users_override_beats_its_groups_and_of_groups_the_widest_counts() {
    let limits = limits(
        "
- name: caller
  per: caller
  rate: 1/s
  burst: 2
  overrides:
    users: { slow: { rate: 1/s, burst: 1 }, 'idp:fast': { rate: 100/s } }
    groups: { few: { rate: 5/s, burst: 5 }, many: { rate: 50/s, burst: 6 }, wide: { rate: 300/m, burst: 9 } }
",
    );
    for (subject, groups, passes) in [
        ("other", &[][..], 2),
        ("slow", &["many"][..], 1),
        ("idp:fast", &["few"][..], 100),
        ("a", &["few"][..], 5),
        ("b", &["few", "many", "unknown"][..], 6),
        ("c", &["many", "few"][..], 6),
        ("d", &["few", "wide"][..], 9),
        ("e", &["unknown"][..], 2),
    ] {
        assert_eq!(passing(&limits, &by(&caller(subject, groups)), 200), passes, "{subject}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_charged_when_one_limit_of_a_plan_refuses() {
    let limits = limits(
        "
- { name: events, per: caller, unit: events, rate: 1/h, burst: 5 }
- { name: bytes, per: caller, unit: bytes, rate: 1/h, burst: 100 }
- { name: network, per: peer, unit: bytes, rate: 1/h, burst: 1000 }
",
    );
    let alice = caller("alice", &[]);
    let charge = |bytes| limits.charge(Point::Parsed, &by(&alice), &event(bytes), Instant::now());
    assert_eq!(refusal(&charge(90)), None);
    for _ in 0..20 {
        assert_eq!(refusal(&charge(11)), Some(("limited", "bytes".to_owned())));
    }
    let last = charge(10).unwrap();
    assert_eq!(fields(&last).1, r#""events";r=3;t=7200, "bytes";r=0;t=360000"#);
}

#[tokio::test(start_paused = true)]
async fn a_request_over_a_whole_burst_is_told_so_and_charges_nothing() {
    let limits = limits(
        "
- { name: events, per: caller, unit: events, rate: 1/h, burst: 1 }
- { name: bytes, per: caller, unit: bytes, rate: 1/s, burst: 100 }
",
    );
    let alice = caller("alice", &[]);
    let charge = |bytes| limits.charge(Point::Parsed, &by(&alice), &event(bytes), Instant::now());
    for bytes in [101, u64::from(u32::MAX) + 1, u64::MAX] {
        assert_eq!(refusal(&charge(bytes)), Some(("over burst", "bytes".to_owned())));
    }
    assert_eq!(refusal(&charge(100)), None);
    // Waiting does not help the first, whatever the other limit says.
    assert_eq!(refusal(&charge(101)), Some(("over burst", "bytes".to_owned())));
    assert_eq!(refusal(&charge(1)), Some(("limited", "events".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_full_store_falls_back_to_one_shared_bucket_and_never_to_none() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let limits =
        Limits::new(&parse("[{ name: caller, per: caller, rate: 1/s, burst: 10, max_keys: 3 }]"), &metrics).unwrap();
    let known: Vec<Caller> = (0..3).map(|i| caller(&format!("known-{i}"), &[])).collect();
    for caller in &known {
        assert_eq!(passing(&limits, &by(caller), 3), 3);
    }
    let late: u32 = (0..50).map(|i| passing(&limits, &by(&caller(&format!("late-{i}"), &[])), 4)).sum();
    assert_eq!(late, 10);
    for caller in &known {
        assert_eq!(passing(&limits, &by(caller), 20), 7);
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"limit_decisions_total{limit="caller",result="allowed"} 40"#,
        r#"limit_decisions_total{limit="caller",result="refused"} 229"#,
        r#"limit_decisions_total{limit="caller",result="over_burst"} 0"#,
        r#"limit_keys{limit="caller"} 3"#,
        r#"limit_fallbacks_total{limit="caller"} 200"#,
    ] {
        assert!(text.lines().any(|have| have == line), "{line} is not in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_override_does_not_apply_to_the_shared_bucket() {
    let limits = limits(
        "
- name: caller
  per: caller
  rate: 1/s
  burst: 10
  max_keys: 1
  overrides: { users: { slow: { rate: 1/h, burst: 1 }, fast: { rate: 1000/s } } }
",
    );
    assert_eq!(passing(&limits, &by(&caller("first", &[])), 1), 1);
    assert_eq!(passing(&limits, &by(&caller("slow", &[])), 1), 1);
    assert_eq!(passing(&limits, &by(&caller("fast", &[])), 1_000), 9);
    tokio::time::advance(Duration::from_millis(900)).await;
    assert_eq!(passing(&limits, &by(&caller("other", &[])), 9), 0);
    tokio::time::advance(Duration::from_millis(100)).await;
    assert_eq!(passing(&limits, &by(&caller("other", &[])), 9), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_drops_full_buckets_and_keeps_the_others() {
    let limits = limits("[{ name: caller, per: caller, rate: 1/s, burst: 10 }]");
    for i in 0..1_000 {
        assert_eq!(passing(&limits, &by(&caller(&format!("c-{i}"), &[])), 1), 1);
    }
    let busy = caller("busy", &[]);
    assert_eq!(passing(&limits, &by(&busy), 10), 10);
    let keys = || limits.limits.first().unwrap().store.len();
    limits.sweep(Instant::now());
    assert_eq!(keys(), 1_001);
    tokio::time::advance(Duration::from_secs(1)).await;
    limits.sweep(Instant::now());
    assert_eq!(keys(), 1);
    assert_eq!(passing(&limits, &by(&busy), 10), 1);
    tokio::time::advance(Duration::from_secs(60)).await;
    limits.sweep(Instant::now());
    assert_eq!(keys(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_store_makes_room_by_itself_once_buckets_are_full_again() {
    let limits = limits("[{ name: caller, per: caller, rate: 1/s, burst: 2, max_keys: 1 }]");
    assert_eq!(passing(&limits, &by(&caller("a", &[])), 2), 2);
    assert_eq!(passing(&limits, &by(&caller("a", &[])), 2), 0);
    tokio::time::advance(Duration::from_secs(2)).await;
    // Found by a key of the same shard.
    let same_shard = |name: &String| {
        let key = |subject| Key::of(LimitScope::Caller, &by(&caller(subject, &[]))).unwrap().spread() % 64;
        key(name) == key("a")
    };
    let next = (0..).map(|i| format!("b-{i}")).find(same_shard).unwrap();
    assert_eq!(passing(&limits, &by(&caller(&next, &[])), 2), 2);
    assert_eq!(passing(&limits, &by(&caller("c", &[])), 3), 2, "the shared bucket was not touched before");
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_refused_takes_no_key() {
    let limits = limits(
        "
- { name: caller, per: caller, unit: events, rate: 1/h, burst: 5 }
- { name: network, per: peer, unit: events, rate: 1/h, burst: 1 }
",
    );
    for i in 0..5 {
        let caller = caller(&format!("c-{i}"), &[]);
        let _ = limits.charge(Point::Parsed, &by(&caller), &event(1), Instant::now());
    }
    assert_eq!(limits.limits.first().unwrap().store.len(), 1);
}

#[test]
fn threads_together_never_take_more_than_the_bucket_holds() {
    let limits = limits(
        "
- { name: caller, per: caller, unit: events, rate: 1/h, burst: 400 }
- { name: network, per: peer, unit: events, rate: 1/h, burst: 1000 }
- { name: bytes, per: caller, unit: bytes, rate: 1/h, burst: 3000 }
",
    );
    let callers: Vec<Caller> = (0..4).map(|i| caller(&format!("c-{i}"), &[])).collect();
    let passed: Vec<AtomicU32> = callers.iter().map(|_| AtomicU32::new(0)).collect();
    let now = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (limits, callers, passed) = (&limits, &callers, &passed);
            scope.spawn(move || {
                for turn in 0..400 {
                    let who = (thread + turn) % callers.len();
                    if limits.charge(Point::Parsed, &by(&callers[who]), &event(10), now).is_ok() {
                        passed[who].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let passed: Vec<u32> = passed.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    assert_eq!(passed.iter().sum::<u32>(), 1_000);
    assert!(passed.iter().all(|count| *count <= 300), "{passed:?}");
    for (caller, passed) in callers.iter().zip(passed) {
        let none = Cost::default();
        let standings = limits.charge(Point::Identified, &by(caller), &none, now).unwrap();
        let (events, bytes) = (400 - passed, 3_000 - 10 * passed);
        let remaining = fields(&standings).1;
        assert!(remaining.starts_with(&format!(r#""caller";r={events};"#)), "{remaining}");
        assert!(remaining.contains(&format!(r#""bytes";r={bytes};"#)), "{remaining}");
    }
}

#[test]
fn threads_together_keep_the_bound_on_keys_and_share_what_is_left() {
    let limits = limits(
        "
- { name: caller, per: caller, unit: events, rate: 1/h, burst: 100, max_keys: 8 }
- { name: network, per: peer, unit: events, rate: 1/s, burst: 100000 }
",
    );
    let now = Instant::now();
    let passed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (limits, passed) = (&limits, &passed);
            scope.spawn(move || {
                for turn in 0..2_000 {
                    let caller = caller(&format!("c-{}", (thread + turn) % 50), &[]);
                    if limits.charge(Point::Parsed, &by(&caller), &event(1), now).is_ok() {
                        passed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(limits.limits.first().unwrap().store.len(), 8);
    assert_eq!(passed.into_inner(), 8 * 100 + 100);
}

#[tokio::test(start_paused = true)]
async fn fields_name_the_callers_limits_from_the_first_and_the_metalakes_once_it_is_known_to_be_a_member() {
    let limits = limits(CALLER_AND_METALAKE);
    let alice = caller("alice", &[]);
    let peer = Subject { peer: Some("192.0.2.1".parse().unwrap()), ..Subject::default() };
    let now = Instant::now();

    let mut standings = limits.charge(Point::Arrival, &peer, &Cost::default(), now).unwrap();
    assert_eq!(fields(&standings), (String::new(), String::new()));

    standings.merge(limits.charge(Point::Identified, &by(&alice), &Cost::default(), now).unwrap());
    let own = r#""caller";q=200;w=2, "caller-bytes";q=20971520;qu="content-bytes";w=2"#;
    assert_eq!(fields(&standings), (own.into(), r#""caller";r=199;t=1, "caller-bytes";r=20971520;t=0"#.into()));

    standings.merge(limits.charge(Point::Parsed, &by(&alice), &event(971_520), now).unwrap());
    assert_eq!(fields(&standings), (own.into(), r#""caller";r=199;t=1, "caller-bytes";r=20000000;t=1"#.into()));

    let member = Subject { metalake: Some("demo"), ..by(&alice) };
    standings.merge(limits.charge(Point::Judged, &member, &event(971_520), now).unwrap());
    let (policy, remaining) = fields(&standings);
    assert_eq!(policy, format!(r#"{own}, "lake";q=3;w=3"#));
    assert_eq!(remaining, r#""caller";r=199;t=1, "caller-bytes";r=20000000;t=1, "lake";r=2;t=1"#);
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_retry_after_says_no_other_time() {
    let limits = limits("[{ name: caller, per: caller, rate: 100/s, burst: 200 }]");
    let alice = caller("alice", &[]);
    assert_eq!(passing(&limits, &by(&alice), 150), 150);
    let charge = || limits.charge(Point::Identified, &by(&alice), &Cost::default(), Instant::now());
    assert_eq!(fields(&charge().unwrap()).1, r#""caller";r=49;t=2"#);
    assert_eq!(passing(&limits, &by(&alice), 150), 49);
    let Err(Exceeded::Limited { standings, .. }) = charge() else { panic!("the bucket is empty") };
    let mut headers = HeaderMap::from_iter([(RETRY_AFTER, http::HeaderValue::from_static("1"))]);
    standings.write(&mut headers);
    assert_eq!(headers.get("ratelimit").unwrap(), r#""caller";r=0"#);
    assert_eq!(headers.get("ratelimit-policy").unwrap(), r#""caller";q=200;w=2"#);
}

#[tokio::test(start_paused = true)]
async fn a_refused_peer_learns_nothing_of_its_limit() {
    let limits = limits("[{ name: network, per: peer, rate: 1/h, burst: 1 }]");
    let charge = || limits.charge(Point::Arrival, &Subject::default(), &Cost::default(), Instant::now());
    charge().unwrap();
    let Err(Exceeded::Limited { standings, .. }) = charge() else { panic!("the bucket is empty") };
    assert_eq!(standings, Standings::default());
}

#[test]
fn all_faults_are_reported_together_with_the_limit_they_are_about() {
    let faults = check(&parse(
        "
- { name: '', per: caller, rate: 1/s }
- { name: 'a b', per: caller, rate: 1/s, burst: 0 }
- { name: ok, per: caller, rate: 1/s, max_keys: 0 }
- { name: ok, per: peer, rate: 3GiB/s, overrides: { users: { bob: { rate: 1/s } } } }
- { name: good, per: caller, rate: 1/s, overrides: { users: { bob: { rate: 1/s, burst: 0 } } } }
- { name: fine, per: namespace, unit: bytes, rate: 10MiB/s, burst: 32MiB }
",
    ));
    for (number, (limit, part)) in [
        ("limits[0] (``)", "a name is made of"),
        ("limits[1] (`a b`)", "a name is made of"),
        ("limits[1] (`a b`)", "burst must be at least 1"),
        ("limits[2] (`ok`)", "max_keys must be at least 1"),
        ("limits[3] (`ok`)", "another limit has this name"),
        ("limits[3] (`ok`)", "overrides are for `per: caller` only"),
        ("limits[3] (`ok`)", "rate 3221225472/s is above 1GiB/s"),
        ("limits[4] (`good`)", "overrides.users `bob`: burst must be at least 1"),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(faults[number].starts_with(limit) && faults[number].contains(part), "{number}: {faults:#?}");
    }
    assert_eq!(faults.len(), 8, "{faults:#?}");
    assert!(check(&parse(CALLER_AND_METALAKE)).is_empty());
    assert!(Limits::new(&parse("[{ name: '', per: caller, rate: 1/s }]"), &Metrics::default()).is_err());
}

/// A bucket as one would explain it: what was taken leaks out with time.
#[derive(Default)]
struct Leaky {
    nanos: u128,
    at: u128,
}

/// Name, scope, unit, nanoseconds for one, burst.
type Row = (&'static str, LimitScope, LimitUnit, u128, u64);

const MODEL: [Row; 5] = [
    ("a", LimitScope::Caller, LimitUnit::Events, 100_000_000, 5),
    ("b", LimitScope::Peer, LimitUnit::Bytes, 10_000_000, 300),
    ("c", LimitScope::Caller, LimitUnit::Bytes, 25_000_000, 100),
    ("d", LimitScope::Metalake, LimitUnit::Events, 50_000_000, 4),
    ("e", LimitScope::Metalake, LimitUnit::Requests, 500_000_000, 2),
];

const MODEL_YAML: &str = "
- { name: a, per: caller, unit: events, rate: 10/s, burst: 5 }
- { name: b, per: peer, unit: bytes, rate: 100/s, burst: 300 }
- { name: c, per: caller, unit: bytes, rate: 40/s, burst: 100 }
- { name: d, per: metalake, unit: events, rate: 20/s, burst: 4 }
- { name: e, per: metalake, unit: requests, rate: 2/s, burst: 2 }
";

#[derive(Debug, Clone)]
struct Step {
    millis: u64,
    judged: bool,
    who: usize,
    cost: Cost,
}

fn step() -> impl Strategy<Value = Step> {
    (0..400u64, any::<bool>(), 0..3usize, 0..6u64, 0..130u64).prop_map(|(millis, judged, who, events, bytes)| Step {
        millis,
        judged,
        who,
        cost: Cost { events, bytes },
    })
}

/// Decides one step and charges all or none, in the most naive way.
fn naive(buckets: &mut HashMap<(&'static str, usize), Leaky>, step: &Step, at: u128) -> Option<(&'static str, String)> {
    let wanted: Vec<(Row, usize, u64)> = MODEL
        .into_iter()
        .filter(|row| (row.1 == LimitScope::Metalake) == step.judged)
        .map(|row| {
            let key = if row.1 == LimitScope::Peer { 0 } else { step.who };
            let amount = match row.2 {
                LimitUnit::Requests => 1,
                LimitUnit::Events => step.cost.events,
                LimitUnit::Bytes => step.cost.bytes,
            };
            (row, key, amount)
        })
        .collect();
    if let Some((row, ..)) = wanted.iter().find(|(row, _, amount)| *amount > row.4) {
        return Some(("over burst", row.0.to_owned()));
    }
    for (row, key, amount) in &wanted {
        let bucket = buckets.entry((row.0, *key)).or_default();
        bucket.nanos = bucket.nanos.saturating_sub(at - bucket.at);
        bucket.at = at;
        if *amount > 0 && bucket.nanos + row.3 * u128::from(*amount) > row.3 * u128::from(row.4) {
            return Some(("limited", row.0.to_owned()));
        }
    }
    for (row, key, amount) in &wanted {
        buckets.get_mut(&(row.0, *key)).unwrap().nanos += row.3 * u128::from(*amount);
    }
    None
}

proptest! {
    #[test]
    fn plans_are_charged_as_by_a_naive_model(steps in prop::collection::vec(step(), 1..60), sweep in any::<bool>()) {
        let limits = limits(MODEL_YAML);
        let callers: Vec<Caller> = (0..3).map(|i| caller(&format!("c-{i}"), &[])).collect();
        let metalakes = ["x", "y", "z"];
        let mut buckets = HashMap::new();
        let mut elapsed = Duration::ZERO;
        for step in &steps {
            elapsed += Duration::from_millis(step.millis);
            let now = limits.epoch + elapsed;
            let point = if step.judged { Point::Judged } else { Point::Parsed };
            let subject = Subject { metalake: Some(metalakes[step.who]), ..by(&callers[step.who]) };
            let result = limits.charge(point, &subject, &step.cost, now);
            prop_assert_eq!(refusal(&result), naive(&mut buckets, step, elapsed.as_nanos()));
            if sweep {
                limits.sweep(now);
            }
        }
    }
}
