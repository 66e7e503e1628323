//! The sentences of the cache's documentation, with time that only tests move.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::time::{advance, sleep};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

const SETTINGS: Settings = Settings {
    fresh: Duration::from_secs(10),
    stale_if_error: Duration::from_secs(300),
    denied: Duration::from_secs(3),
    entries: 1_000,
    concurrency: 16,
};

/// A source that says what it is told to.
#[derive(Clone)]
struct Fake {
    says: Arc<Mutex<End>>,
    takes: Arc<Mutex<Duration>>,
    asked: Arc<AtomicUsize>,
    at_once: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    ended: Arc<Notify>,
}

impl Fake {
    fn new(says: End) -> Self {
        Self {
            says: Arc::new(Mutex::new(says)),
            takes: Arc::default(),
            asked: Arc::default(),
            at_once: Arc::default(),
            most: Arc::default(),
            ended: Arc::default(),
        }
    }

    fn says(&self, end: End) {
        *self.says.lock().unwrap() = end;
    }

    fn takes(&self, time: Duration) {
        *self.takes.lock().unwrap() = time;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn question(&self) -> impl Future<Output = Result<Told, Failure>> + Send + use<> {
        let this = self.clone();
        async move {
            this.asked.fetch_add(1, Ordering::SeqCst);
            this.most.fetch_max(this.at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let (says, takes) = (this.says.lock().unwrap().clone(), *this.takes.lock().unwrap());
            if !takes.is_zero() {
                sleep(takes).await;
            }
            this.at_once.fetch_sub(1, Ordering::SeqCst);
            this.ended.notify_one();
            says.map(|yes| Told { yes, keep: true })
        }
    }
}

fn down() -> End {
    Err(Failure::Unavailable("down".to_owned()))
}

fn actor(subject: &str) -> Actor {
    actor_of(&caller(subject))
}

fn actor_of(caller: &crate::auth::Caller) -> Actor {
    Actor::new(caller, &crate::policy::ActiveRoles::All)
}

fn caller(subject: &str) -> crate::auth::Caller {
    crate::auth::Caller {
        issuer: "issuer".into(),
        subject: subject.into(),
        groups: Arc::from([]),
        token_id: "t".into(),
        expires: std::time::SystemTime::UNIX_EPOCH,
        identity: [0; 32],
    }
}

fn about(actor: &Actor, name: &str) -> About {
    let kind = crate::policy::ObjectType::Table;
    let inquiry = crate::policy::Inquiry { metalake: "m", about: crate::policy::About::Visible { kind, name } };
    About { key: actor.key(&inquiry), caller: actor.caller, metalake: "m".into() }
}

/// What a request is answered: what is known, else what is asked, else what is old.
async fn look(cache: &Cache, about: &About, fake: &Fake) -> (End, bool) {
    match cache.view(about.caller, Instant::now()).known(&about.key, &about.metalake) {
        Some(Known::Denied) => return (Ok(false), false),
        Some(Known::Allowed { ageing }) => {
            if ageing {
                cache.refresh(about, || fake.question());
            }
            return (Ok(true), false);
        }
        None => {}
    }
    let end = match cache.ask(about, || fake.question()) {
        Ok(flight) => flight.end(Instant::now() + SECOND * 5 / 2).await,
        Err(failure) => Err(failure),
    };
    match end {
        Err(Failure::Unavailable(_) | Failure::Undecided(_)) if cache.serves_stale(about) => (Ok(true), true),
        end => (end, false),
    }
}

/// Whose trials find the source as questions do.
fn cache_of(fake: &Fake) -> Cache {
    let fake = fake.clone();
    let trial: Trial = Box::new(move || {
        let fake = fake.clone();
        Box::pin(async move { fake.question().await.is_ok() })
    });
    Cache::new(SETTINGS, Metrics::default(), trial)
}

/// Whose trials find the source well.
fn cache() -> Cache {
    Cache::new(SETTINGS, Metrics::default(), Box::new(|| Box::pin(async { true })))
}

#[tokio::test(start_paused = true)]
async fn an_allow_is_used_until_fresh_is_over_and_then_the_source_is_asked_first() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(true)), about(&actor("a"), "c.s.t"));
    assert_eq!(look(&cache, &about, &fake).await, (Ok(true), false));
    fake.says(Ok(false));
    advance(SETTINGS.fresh / 2).await;
    assert_eq!(look(&cache, &about, &fake).await, (Ok(true), false));
    assert_eq!(fake.asked(), 1);
    advance(SETTINGS.fresh / 2).await;
    assert_eq!(look(&cache, &about, &fake).await, (Ok(false), false), "a revocation holds after `fresh`");
    assert_eq!(fake.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_revocation_holds_also_for_a_caller_that_comes_much_later() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(true)), about(&actor("a"), "c.s.t"));
    drop(look(&cache, &about, &fake).await);
    fake.says(Ok(false));
    advance(SETTINGS.stale_if_error * 2 / 3).await;
    assert_eq!(look(&cache, &about, &fake).await, (Ok(false), false));
}

#[tokio::test(start_paused = true)]
async fn age_counts_from_when_the_question_went_out() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(true)), about(&actor("a"), "c.s.t"));
    fake.takes(SECOND);
    drop(look(&cache, &about, &fake).await);
    advance(SETTINGS.fresh - SECOND).await;
    drop(look(&cache, &about, &fake).await);
    assert_eq!(fake.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_allow_in_use_is_refreshed_ahead_and_one_that_is_not_is_left() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(true)), about(&actor("a"), "c.s.t"));
    for round in 0..20 {
        assert_eq!(look(&cache, &about, &fake).await, (Ok(true), false), "never waits: {round}");
        advance(SECOND).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(fake.asked(), 3, "at 0 s, 8 s and 16 s");
    advance(SECOND * 60).await;
    assert_eq!(fake.asked(), 3, "nobody used it");
}

#[tokio::test(start_paused = true)]
async fn only_one_refresh_runs_whoever_uses_the_answer() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(true)), about(&actor("a"), "c.s.t"));
    drop(look(&cache, &about, &fake).await);
    advance(SECOND * 8).await;
    fake.takes(SECOND);
    for _ in 0..100 {
        assert_eq!(look(&cache, &about, &fake).await, (Ok(true), false));
        tokio::task::yield_now().await;
    }
    assert_eq!(fake.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_old_allow_serves_only_while_the_source_fails_and_not_too_long() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(true)), about(&actor("a"), "c.s.t"));
    drop(look(&cache, &about, &fake).await);
    fake.says(down());
    advance(SETTINGS.fresh).await;
    assert_eq!(look(&cache, &about, &fake).await, (Ok(true), true));
    advance(SETTINGS.stale_if_error - SETTINGS.fresh - Duration::from_millis(1)).await;
    assert_eq!(look(&cache, &about, &fake).await, (Ok(true), true));
    advance(Duration::from_millis(1)).await;
    assert_eq!(look(&cache, &about, &fake).await, (down(), false));
    fake.says(Ok(true));
    assert_eq!(look(&cache, &about, &fake).await, (Ok(true), false), "a source that is back is used again");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_silent_has_failed_too() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(true)), about(&actor("a"), "c.s.t"));
    drop(look(&cache, &about, &fake).await);
    fake.takes(SECOND * 60);
    advance(SETTINGS.fresh).await;
    let began = Instant::now();
    assert_eq!(look(&cache, &about, &fake).await, (Ok(true), true));
    assert_eq!(began.elapsed(), ANSWER_TIME);
}

#[tokio::test(start_paused = true)]
async fn a_no_a_refused_credential_and_another_4xx_take_the_place_of_an_allow() {
    for no in [Ok(false), Err(Failure::CallerUnauthenticated), Err(Failure::Rejected("400".to_owned()))] {
        let (cache, fake, about) = (cache(), Fake::new(Ok(true)), about(&actor("a"), "c.s.t"));
        drop(look(&cache, &about, &fake).await);
        fake.says(no.clone());
        advance(SETTINGS.fresh).await;
        assert_eq!(look(&cache, &about, &fake).await, (no, false));
        fake.says(down());
        advance(SETTINGS.denied).await;
        assert_eq!(look(&cache, &about, &fake).await, (down(), false), "what was known is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn what_follows_from_something_older_is_not_kept() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(false)), about(&actor("a"), "c.s.t"));
    let flight = cache.ask(&about, || async { Ok(Told { yes: true, keep: false }) }).unwrap();
    assert_eq!(flight.end(Instant::now() + SECOND).await, Ok(true));
    assert_eq!(look(&cache, &about, &fake).await, (Ok(false), false));
}

#[tokio::test(start_paused = true)]
async fn only_what_is_distrusted_makes_what_was_read_unbelievable() {
    let (cache, alice) = (cache(), actor("alice").caller);
    cache.forget(Drops::Caller(alice));
    assert_eq!(cache.distrusted_at(alice, "m"), None);
    advance(SECOND).await;
    cache.distrust(Drops::Caller(alice));
    assert_eq!(cache.distrusted_at(alice, "m"), Some(Instant::now()));
    assert_eq!(cache.distrusted_at(actor("bob").caller, "m"), None);
}

#[tokio::test(start_paused = true)]
async fn a_denial_has_a_shorter_time_and_never_serves_when_old() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(false)), about(&actor("a"), "c.s.t"));
    drop(look(&cache, &about, &fake).await);
    fake.says(Ok(true));
    advance(SETTINGS.denied - Duration::from_millis(1)).await;
    assert_eq!(look(&cache, &about, &fake).await, (Ok(false), false));
    advance(Duration::from_millis(1)).await;
    assert_eq!(look(&cache, &about, &fake).await, (Ok(true), false), "a new grant admits");
}

#[tokio::test(start_paused = true)]
async fn unique_bad_names_push_out_no_good_entry() {
    let (cache, fake) = (cache(), Fake::new(Ok(true)));
    let actor = actor("a");
    for at in 0..100 {
        drop(look(&cache, &about(&actor, &format!("good{at}")), &fake).await);
    }
    fake.says(Ok(false));
    for at in 0..5_000 {
        drop(look(&cache, &about(&actor, &format!("bad{at}")), &fake).await);
    }
    cache.0.denials.run_pending_tasks();
    assert!(cache.0.denials.entry_count() <= SETTINGS.entries / 10);
    let asked = fake.asked();
    for at in 0..100 {
        assert_eq!(look(&cache, &about(&actor, &format!("good{at}")), &fake).await, (Ok(true), false));
    }
    assert_eq!(fake.asked(), asked);
}

#[tokio::test(start_paused = true)]
async fn all_who_want_one_answer_share_one_question() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(true)), about(&actor("a"), "c.s.t"));
    fake.takes(SECOND);
    let flights: Vec<_> = (0..50).map(|_| cache.ask(&about, || fake.question()).unwrap()).collect();
    for flight in flights {
        assert_eq!(flight.end(Instant::now() + SECOND * 2).await, Ok(true));
    }
    assert_eq!(fake.asked(), 1);
    assert!(cache.0.flights().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_who_leaves_cancels_nothing() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(true)), about(&actor("a"), "c.s.t"));
    fake.takes(SECOND);
    let ended = fake.ended.notified();
    let flight = cache.ask(&about, || fake.question()).unwrap();
    assert!(timeout(SECOND / 2, flight.end(Instant::now() + SECOND * 2)).await.is_err());
    ended.await;
    tokio::task::yield_now().await;
    assert_eq!(look(&cache, &about, &fake).await, (Ok(true), false));
    assert_eq!(fake.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_panics_leaves_nothing_behind() {
    let (cache, fake, about) = (cache(), Fake::new(Ok(true)), about(&actor("a"), "c.s.t"));
    let flight = cache.ask(&about, || async { panic!("a test") }).unwrap();
    assert_eq!(flight.end(Instant::now() + SECOND).await, Err(Failure::broken_off()));
    assert!(cache.0.flights().is_empty());
    assert_eq!(look(&cache, &about, &fake).await, (Ok(true), false));
}

#[tokio::test(start_paused = true)]
async fn one_caller_gets_half_of_the_places_and_the_others_the_rest() {
    let (cache, fake) = (cache(), Fake::new(Ok(true)));
    fake.takes(SECOND);
    let greedy = actor("greedy");
    for at in 0..1_000 {
        cache.ask(&about(&greedy, &at.to_string()), || fake.question()).unwrap();
    }
    sleep(SECOND / 2).await;
    assert_eq!(fake.most.load(Ordering::SeqCst), 8);
    let began = Instant::now();
    let other = about(&actor("other"), "c.s.t");
    assert_eq!(look(&cache, &other, &fake).await, (Ok(true), false));
    assert_eq!(began.elapsed(), SECOND, "no wait behind a thousand");
    let names: Vec<_> = (0..9).map(|at| actor(&at.to_string())).collect();
    for (name, at) in names.iter().flat_map(|name| (0..10).map(move |at| (name, at))) {
        cache.ask(&about(name, &at.to_string()), || fake.question()).unwrap();
    }
    sleep(SECOND * 5).await;
    assert_eq!(fake.most.load(Ordering::SeqCst), 16);
}

#[tokio::test(start_paused = true)]
async fn open_questions_are_bounded_and_no_caller_takes_them_all() {
    let (cache, fake) = (cache(), Fake::new(Ok(true)));
    fake.takes(SECOND);
    let (greedy, other) = (actor("greedy"), actor("other"));
    let mut open = 0;
    while cache.ask(&about(&greedy, &open.to_string()), || fake.question()).is_ok() {
        open += 1;
    }
    assert_eq!(open, flight::MAX_OPEN_PER_CALLER);
    while cache.ask(&about(&other, &open.to_string()), || fake.question()).is_ok() {
        open += 1;
    }
    assert_eq!(open, flight::MAX_OPEN);
    sleep(QUEUE_TIME + ANSWER_TIME).await;
    assert!(cache.0.flights().is_empty(), "what waits too long gives up");
}

#[tokio::test(start_paused = true)]
async fn what_is_dropped_is_asked_again_and_no_old_question_brings_it_back() {
    let alice = actor("alice");
    let other = actor("bob");
    let drops = [
        (Drops::All, false),
        (Drops::Caller(alice.caller), true),
        (Drops::Metalake("m".into()), false),
        (Drops::Metalake("other".into()), true),
    ];
    for (at, (drops, others_stay)) in drops.into_iter().enumerate() {
        let (cache, fake) = (cache(), Fake::new(Ok(true)));
        let (mine, theirs) = (about(&alice, "c.s.t"), about(&other, "c.s.t"));
        drop(look(&cache, &mine, &fake).await);
        drop(look(&cache, &theirs, &fake).await);
        fake.takes(SECOND);
        let old = cache.ask(&about(&alice, "late"), || fake.question()).unwrap();
        tokio::task::yield_now().await;
        cache.forget(drops);
        fake.takes(Duration::ZERO);
        fake.says(Ok(false));
        let expected = if at == 3 { Ok(true) } else { Ok(false) };
        assert_eq!(look(&cache, &mine, &fake).await.0, expected);
        assert_eq!(look(&cache, &theirs, &fake).await.0, Ok(others_stay));
        if at != 3 {
            let new = cache.ask(&about(&alice, "late"), || fake.question()).unwrap();
            assert!(!new.is_joined());
            assert_eq!(new.end(Instant::now() + SECOND).await, Ok(false));
            assert_eq!(old.end(Instant::now() + SECOND * 2).await, Ok(true));
            assert_eq!(look(&cache, &about(&alice, "late"), &fake).await.0, Ok(false), "the old yes is not kept");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_allow_does_not_serve_because_its_question_waits_behind_others() {
    let (cache, fake, greedy) = (cache(), Fake::new(Ok(true)), actor("greedy"));
    let mine = about(&greedy, "c.s.t");
    drop(look(&cache, &mine, &fake).await);
    advance(SETTINGS.fresh).await;
    fake.says(Ok(false));
    fake.takes(SECOND);
    for at in 0..1_000 {
        cache.ask(&about(&greedy, &at.to_string()), || fake.question()).unwrap();
    }
    let (end, is_stale) = look(&cache, &mine, &fake).await;
    assert!(matches!(end, Err(Failure::NotAsked(_))), "{end:?}");
    assert!(!is_stale);
    let other = about(&actor("other"), "c.s.t");
    assert_eq!(look(&cache, &other, &fake).await, (Ok(false), false), "others have their turn");
}

#[tokio::test(start_paused = true)]
async fn a_dead_source_does_not_cost_every_request_its_deadline() {
    let fake = Fake::new(Ok(true));
    let (cache, actor) = (cache_of(&fake), actor("a"));
    let old = about(&actor, "old");
    drop(look(&cache, &old, &fake).await);
    advance(SETTINGS.fresh).await;
    fake.takes(SECOND * 60);
    for at in 0..breaker::THRESHOLD {
        assert!(look(&cache, &about(&actor, &at.to_string()), &fake).await.0.is_err());
    }
    sleep(ANSWER_TIME).await;
    let (began, asked) = (Instant::now(), fake.asked());
    for at in 0..100 {
        assert!(look(&cache, &about(&actor, &format!("more{at}")), &fake).await.0.is_err());
    }
    assert_eq!(look(&cache, &old, &fake).await, (Ok(true), true));
    assert_eq!((began.elapsed(), fake.asked()), (Duration::ZERO, asked));
    fake.takes(Duration::ZERO);
    sleep(PAUSE + ANSWER_TIME + PAUSE).await;
    assert_eq!(look(&cache, &about(&actor, "more0"), &fake).await, (Ok(true), false));
}

#[tokio::test(start_paused = true)]
async fn trials_of_a_source_that_is_given_up_end_with_the_cache() {
    let fake = Fake::new(down());
    let (cache, actor) = (cache_of(&fake), actor("a"));
    for at in 0..breaker::THRESHOLD {
        assert_eq!(look(&cache, &about(&actor, &at.to_string()), &fake).await, (down(), false));
    }
    sleep(PAUSE * 10).await;
    let tried = fake.asked();
    assert!(tried > 10);
    drop(cache);
    sleep(PAUSE * 10).await;
    assert_eq!(fake.asked(), tried);
}

#[tokio::test(start_paused = true)]
async fn callers_cannot_open_the_breaker_by_what_they_ask() {
    for takes in [Duration::ZERO, SECOND * 60] {
        let (cache, fake) = (cache(), Fake::new(down()));
        fake.takes(takes);
        for at in 0..100 {
            let actor = actor(&(at % 3).to_string());
            assert!(look(&cache, &about(&actor, &at.to_string()), &fake).await.0.is_err());
        }
        assert_eq!(fake.asked(), 100);
        fake.says(Ok(true));
        fake.takes(Duration::ZERO);
        assert_eq!(look(&cache, &about(&actor("b"), "c.s.t"), &fake).await, (Ok(true), false));
    }
}

#[test]
fn keys_differ_by_everything_that_a_source_may_decide_by() {
    use crate::policy::{About as What, ActiveRoles, Inquiry, ObjectType};
    let base = caller("alice");
    let inquiry = |about| Inquiry { metalake: "m", about };
    let table = What::Visible { kind: ObjectType::Table, name: "c.s.t" };
    let mut keys = vec![
        actor_of(&base).key(&inquiry(table)),
        actor_of(&base).key(&inquiry(What::Member)),
        actor_of(&base).key(&inquiry(What::RolesHeld)),
        actor_of(&base).key(&inquiry(What::Visible { kind: ObjectType::View, name: "c.s.t" })),
        actor_of(&base).key(&inquiry(What::Visible { kind: ObjectType::Table, name: "c.s.u" })),
        actor_of(&base).key(&Inquiry { metalake: "n", about: table }),
    ];
    let others = [
        crate::auth::Caller { issuer: "other".into(), ..base.clone() },
        crate::auth::Caller { subject: "bob".into(), ..base.clone() },
        crate::auth::Caller { groups: Arc::from(["g".into()]), ..base.clone() },
        crate::auth::Caller { groups: Arc::from(["g".into(), "h".into()]), ..base.clone() },
        crate::auth::Caller { identity: [1; 32], ..base.clone() },
    ];
    keys.extend(others.iter().map(|other| actor_of(other).key(&inquiry(table))));
    for roles in ["NONE", "a", "a,b", "ab"] {
        let roles = ActiveRoles::parse(Some(roles)).unwrap();
        keys.push(Actor::new(&base, &roles).key(&inquiry(table)));
    }
    let renewed = crate::auth::Caller { token_id: "u".into(), ..base };
    assert_eq!(actor_of(&renewed).key(&inquiry(table)), keys[0], "a renewed token is the same caller");
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{at}");
    }
}
