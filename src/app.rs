//! Configuration → a running gate. The only place that wires things together.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, Check, Described, Readiness, control, health};
use crate::auth::{self, Authenticator};
use crate::config::{
    Address, Config, EventTime, Fault, Listener, Metalakes, PolicyMode, Symlinks, UpstreamAuth, UpstreamKind,
};
use crate::deliver::{self, Deliverer};
use crate::dialect::Dialect;
use crate::event::body::{Bounds, Memory};
use crate::event::edit::{self, Plan};
use crate::event::{self, Rules};
use crate::gate::{Edits, Entrance, EventRules, Gate, Observer, Policy};
use crate::limit::{self, Limits};
use crate::listen::{self, Bound, Certificates, Drain};
use crate::observe::audit::{self, Audit};
use crate::observe::metrics::Metrics;
use crate::passthrough::Passthrough;
use crate::reload::{self, Target, Trigger};
use crate::route::Paths;
use crate::source::cache;
use crate::source::gravitino::{self, Gravitino};
use crate::source::{Files, Remote, Source};
use crate::upstream::{Lookup, ResolvesBy, Upstream};

mod source;

/// Pause between two looks whether the keys of all issuers have come.
const KEYS_POLL: Duration = Duration::from_millis(50);

/// Pause between two clean-ups of limit keys.
const LIMIT_SWEEP: Duration = Duration::from_secs(10);

/// How long the audit may take to write its last records.
const AUDIT_FLUSH: Duration = Duration::from_secs(5);

/// A gate that serves.
pub struct App {
    addresses: Addresses,
    drain: Drain,
    bounds: crate::config::Drain,
    readiness: Arc<Readiness>,
    observer: Arc<Observer>,
    trigger: Trigger,
    /// Ends what only helps the request path: fetching keys, watching files.
    helpers: CancellationToken,
    /// Ends the health and control listeners, last of all.
    pages: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

/// Where a gate listens, with the ports that the system chose.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// In the order of the configuration.
    pub listeners: Vec<Address>,
    /// The health listener.
    pub health: Address,
    /// The control listener.
    pub admin: Option<Address>,
}

/// Everything that files hold, read and checked.
struct Loaded {
    certificates: Vec<Option<Arc<Certificates>>>,
    passthroughs: Vec<Option<Passthrough>>,
    authenticator: Arc<Authenticator>,
    limits: Arc<Limits>,
    files: Option<Arc<Files>>,
    gravitino: Option<Arc<Gravitino>>,
    upstream: Arc<Upstream>,
    delivery: deliver::Settings,
    upstream_auth: UpstreamAuth,
    upstream_kind: UpstreamKind,
    plan: Arc<Plan>,
    lookup: Lookup,
    audit: Audit,
}

/// The counters of all stages.
struct Counters {
    listen: listen::Metrics,
    auth: Arc<auth::Metrics>,
    limit: limit::Metrics,
    event: event::Metrics,
    edit: edit::Metrics,
    policy: cache::Metrics,
    gravitino: gravitino::Metrics,
    deliver: deliver::Metrics,
    audit: audit::Metrics,
    admin: admin::Metrics,
    reload: reload::Metrics,
}

/// What is wrong inside the files that a configuration names, without making or locking any.
pub fn check(config: &Config) -> Vec<Fault> {
    let mut faults = Vec::new();
    faults.extend(certificates(config).err().unwrap_or_default());
    faults.extend(passthroughs(config).err().unwrap_or_default());
    let keys = Authenticator::new(&config.auth, Arc::new(auth::Metrics::default()));
    let unusable = keys.err().unwrap_or_default();
    let unusable = unusable.iter().filter(|fault| !matches!(fault, auth::Fault::Meaning { .. }));
    faults.extend(unusable.map(Fault::from));
    faults.extend(source::files(config).err().unwrap_or_default());
    // What the configuration itself says wrong of a policy source or a backend is told by `config::check` already.
    if config.policy.gravitino.as_ref().is_some_and(|settings| gravitino::check(settings).is_empty()) {
        faults.extend(source::gravitino(config, &gravitino::Metrics::default()).err().unwrap_or_default());
    }
    let is_sound = |settings: &&crate::config::Upstream| crate::upstream::check(settings).is_empty();
    let remote = config.upstreams.iter().filter(|settings| settings.kind != UpstreamKind::File);
    for settings in remote.filter(is_sound) {
        let error = Upstream::new(settings).err();
        faults.extend(error.map(|error| Fault::new("upstreams[0]", error.to_string())));
    }
    if let Some(admin) = &config.admin {
        let error = control::State::load(admin, Value::Null).err();
        faults.extend(error.map(|error| Fault::new("admin", error.to_string())));
    }
    faults
}

/// Sockets that listen and are not served yet.
struct Sockets {
    listeners: Vec<Bound>,
    health: admin::Bound,
    admin: Option<(admin::Bound, control::State)>,
}

impl App {
    /// Reads all files, listens on all addresses, and serves. `effective` is the configuration that the control listener
    /// shows.
    ///
    /// # Errors
    /// All faults of the files that the configuration names, or else all addresses that cannot be listened on. Nothing is
    /// served then.
    pub async fn start(config: &Config, effective: Value) -> Result<Self, Vec<Fault>> {
        let mut metrics = Metrics::new();
        let counters = Counters::register(&mut metrics);
        let loaded = Loaded::read(config, &counters)?;
        let sockets = Sockets::bind(config, effective).await?;
        Ok(Self::serve(config, metrics, &counters, loaded, sockets))
    }

    fn serve(config: &Config, metrics: Metrics, counters: &Counters, loaded: Loaded, sockets: Sockets) -> Self {
        let (drain, readiness) = (Drain::new(), Arc::new(Readiness::default()));
        let (helpers, pages) = (CancellationToken::new(), CancellationToken::new());
        let trigger = Trigger::default();
        let mut targets = loaded.reload_targets(config);
        targets.extend(sockets.admin.iter().filter_map(|(_, state)| state.reload_target()));
        let Loaded { certificates, passthroughs, authenticator, limits, files, gravitino, upstream, .. } = loaded;
        let Loaded { upstream_auth, upstream_kind, delivery, plan, lookup, audit, .. } = loaded;

        let settings = (&config.policy.cache).into();
        let by_name = config.policy.gravitino.as_ref().is_some_and(|gravitino| gravitino.metalakes != Metalakes::All);
        let remote =
            gravitino.clone().map(|gravitino| Remote::new(gravitino, by_name, settings, counters.policy.clone()));
        let policy = (config.policy.mode != PolicyMode::Off).then(|| Arc::new(Source::new(files, remote)));
        let observer = Arc::new(Observer { audit, metrics: Arc::new(metrics) });
        let name = Arc::clone(upstream.name());
        let protection = upstream.protection().clone();
        let deliverer = Deliverer::new(upstream, delivery, counters.deliver.clone(), drain.clone());
        let gate = Arc::new(Gate {
            authenticator: Arc::clone(&authenticator),
            limits: Arc::clone(&limits),
            bounds: Bounds::from(&config.event),
            memory: Memory::new(&config.event, counters.event.clone()),
            rules: event_rules(config, upstream_kind),
            edits: Edits { plan, lookup, metrics: counters.edit.clone() },
            max_batch: config.event.max_batch,
            batch_policy: config.event.batch_policy,
            policy: Policy { source: policy, mode: config.policy.mode, facets: config.policy.facet_references },
            protection,
            upstream: Arc::clone(&name),
            deliverer: deliverer.clone(),
            forwards_credentials: upstream_auth == UpstreamAuth::Forward,
            observer: Arc::clone(&observer),
        });

        let addresses = sockets.addresses();
        let mut tasks = Vec::new();
        authenticator.spawn_refresh(&helpers);
        let waiting = missing_keys(&authenticator, &readiness);
        tasks.push(tokio::spawn(announce_keys(authenticator, waiting, helpers.clone())));
        tasks.push(tokio::spawn(sweep(limits, helpers.clone())));
        let mut described = Vec::new();
        if let Some(gravitino) = gravitino {
            gravitino.spawn(&helpers);
            if let Some(check) = source::awaited(&readiness, config.policy.mode) {
                tasks.push(tokio::spawn(source::announce(Arc::clone(&gravitino), check, helpers.clone())));
            }
            described.extend(source::describe(&gravitino, config.policy.mode));
        }
        tasks.push(tokio::spawn(reload::watch(targets, counters.reload.clone(), trigger.clone(), helpers.clone())));
        described.push(Described::new(format!("circuit breaker of {name}"), move || deliverer.breaker()));
        let state =
            health::State { readiness: Arc::clone(&readiness), metrics: Arc::clone(&observer.metrics), described };
        let serving = health::serve(sockets.health, Arc::new(state), counters.admin.clone(), pages.clone());
        tasks.push(tokio::spawn(serving));
        if let Some((bound, state)) = sockets.admin {
            let state = state.with_policy(gate.policy.source.clone());
            let serving = control::serve(bound, Arc::new(state), counters.admin.clone(), pages.clone());
            tasks.push(tokio::spawn(serving));
        }
        let parts = config.listeners.iter().zip(sockets.listeners).zip(certificates).zip(passthroughs);
        for (((listener, bound), certificates), passthrough) in parts {
            let entrance = Arc::new(Entrance {
                gate: Arc::clone(&gate),
                paths: paths(listener),
                trusted_proxies: listener.trusted_proxies.clone(),
                body_timeout: listener.body_timeout.0,
                passthrough,
            });
            let handler = move |request, peer| {
                let entrance = Arc::clone(&entrance);
                async move { entrance.pass(request, peer).await }
            };
            let listener = Arc::new(listener.clone());
            let serving = listen::serve(bound, certificates, listener, handler, drain.clone(), counters.listen.clone());
            tasks.push(tokio::spawn(serving));
        }
        Self { addresses, drain, bounds: config.drain.clone(), readiness, observer, trigger, helpers, pages, tasks }
    }

    /// Where it listens.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// What is ready, and what is missing.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.readiness
    }

    /// Asks for a reading of all watched files at once.
    pub fn trigger(&self) -> &Trigger {
        &self.trigger
    }

    /// Ends: not ready from now on, accepting for `drain.grace`, requests in flight until `drain.deadline`, then the
    /// audit's last records. Tells how many connections had to be cut off.
    pub async fn end(self) -> usize {
        self.readiness.drain();
        let cut_off = self.drain.run(&self.bounds).await;
        self.helpers.cancel();
        if !self.observer.audit.flush(AUDIT_FLUSH).await {
            tracing::error!("the audit could not write its last records in {AUDIT_FLUSH:?}");
        }
        self.pages.cancel();
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the gate failed");
            }
        }
        cut_off
    }
}

impl Loaded {
    fn read(config: &Config, counters: &Counters) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let certificates = certificates(config).unwrap_or_else(|found| keep(&mut faults, found));
        let passthroughs = passthroughs(config).unwrap_or_else(|found| keep(&mut faults, found));
        let authenticator = Authenticator::new(&config.auth, Arc::clone(&counters.auth))
            .map(Arc::new)
            .map_err(|found| faults.extend(found.iter().map(Fault::from)));
        let limits = Limits::new(&config.limits, &counters.limit)
            .map(Arc::new)
            .map_err(|found| faults.extend(found.into_iter().map(|fault| Fault::new("limits", fault))));
        let files = source::files(config).unwrap_or_else(|found| keep(&mut faults, found));
        let gravitino = source::gravitino(config, &counters.gravitino).unwrap_or_else(|found| keep(&mut faults, found));
        let audit = Audit::open(&config.audit, counters.audit.clone())
            .map_err(|error| faults.push(Fault::new("audit.output", error.to_string())));
        let plan = edit_plan(config).map_err(|found| faults.extend(found));
        // The backend comes last: a `file` upstream makes its file, which nobody wants of a configuration that is refused.
        let settled = if faults.is_empty() { upstream(config) } else { Err(Vec::new()) };
        let upstream = settled.map_err(|found| faults.extend(found));
        match (authenticator, limits, upstream, audit, plan) {
            (Ok(authenticator), Ok(limits), Ok((upstream, settings)), Ok(audit), Ok((plan, lookup)))
                if faults.is_empty() =>
            {
                Ok(Self {
                    certificates,
                    passthroughs,
                    authenticator,
                    limits,
                    files,
                    gravitino,
                    upstream,
                    delivery: settings.into(),
                    upstream_auth: settings.auth.clone(),
                    upstream_kind: settings.kind,
                    plan,
                    lookup,
                    audit,
                })
            }
            _ => Err(faults),
        }
    }

    fn reload_targets(&self, config: &Config) -> Vec<Target> {
        let mut targets = Vec::new();
        for (listener, certificates) in config.listeners.iter().zip(&self.certificates) {
            let Some(certificates) = certificates.clone() else { continue };
            let (name, paths) = (format!("certificate of {}", listener.address), certificates.watched());
            targets.push(target(name, paths, move || certificates.reload().map_err(|error| error.to_string())));
        }
        let authenticator = Arc::clone(&self.authenticator);
        let keys = move || authenticator.reload().map_err(|faults| lines(&faults));
        targets.push(target("keys".to_owned(), self.authenticator.watched(), keys));
        if let Some(gravitino) = self.gravitino.clone() {
            let paths = gravitino.watched();
            let reload = move || gravitino.reload().map_err(|error| error.to_string());
            targets.push(target("credential of policy.gravitino".to_owned(), paths, reload));
        }
        if let Some(files) = self.files.clone() {
            let paths = files.paths();
            targets.push(target("policy".to_owned(), paths, move || files.reload().map_err(|faults| lines(&faults))));
        }
        let upstream = Arc::clone(&self.upstream);
        let (name, paths) = (format!("credential of upstream {}", upstream.name()), upstream.watched());
        targets.push(target(name, paths, move || upstream.reload().map_err(|error| error.to_string())));
        targets.retain(|target| !target.paths.is_empty());
        targets
    }
}

impl Counters {
    fn register(metrics: &mut Metrics) -> Self {
        let registry = metrics.registry_mut();
        Self {
            listen: listen::Metrics::register(registry),
            auth: Arc::new(auth::Metrics::register(registry)),
            limit: limit::Metrics::register(registry),
            event: event::Metrics::register(registry),
            edit: edit::Metrics::register(registry),
            policy: cache::Metrics::register(registry),
            gravitino: gravitino::Metrics::register(registry),
            deliver: deliver::Metrics::register(registry),
            audit: audit::Metrics::register(registry),
            admin: admin::Metrics::register(registry),
            reload: reload::Metrics::register(registry),
        }
    }
}

impl Sockets {
    async fn bind(config: &Config, effective: Value) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut listeners = Vec::new();
        for (index, listener) in config.listeners.iter().enumerate() {
            match Bound::bind(&listener.address) {
                Ok(bound) => listeners.push(bound),
                Err(error) => faults.push(Fault::new(format!("listeners[{index}].address"), error.to_string())),
            }
        }
        let health = health::bind(&config.health).await;
        let health = health.map_err(|error| faults.push(Fault::new("health.address", error.to_string())));
        let admin = match &config.admin {
            Some(admin) => control(admin, effective).await.map(Some),
            None => Ok(None),
        };
        let admin = admin.map_err(|error| faults.push(Fault::new("admin", error.to_string())));
        match (health, admin) {
            (Ok(health), Ok(admin)) if faults.is_empty() => Ok(Self { listeners, health, admin }),
            _ => Err(faults),
        }
    }

    fn addresses(&self) -> Addresses {
        Addresses {
            listeners: self.listeners.iter().map(|bound| bound.address().clone()).collect(),
            health: self.health.address().clone(),
            admin: self.admin.as_ref().map(|(bound, _)| bound.address().clone()),
        }
    }
}

async fn control(
    admin: &crate::config::Admin,
    effective: Value,
) -> Result<(admin::Bound, control::State), admin::Error> {
    let state = control::State::load(admin, effective)?;
    Ok((control::bind(admin).await?, state))
}

fn certificates(config: &Config) -> Result<Vec<Option<Arc<Certificates>>>, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut all = Vec::new();
    for (index, listener) in config.listeners.iter().enumerate() {
        match listener.tls.as_ref().map(Certificates::load).transpose() {
            Ok(certificates) => all.push(certificates.map(Arc::new)),
            Err(error) => faults.push(Fault::new(format!("listeners[{index}].tls"), error.to_string())),
        }
    }
    if faults.is_empty() { Ok(all) } else { Err(faults) }
}

fn passthroughs(config: &Config) -> Result<Vec<Option<Passthrough>>, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut all = Vec::new();
    for (index, listener) in config.listeners.iter().enumerate() {
        let (Some(settings), Some(upstream)) = (&listener.passthrough, config.upstreams.first()) else {
            all.push(None);
            continue;
        };
        match Passthrough::new(settings, upstream) {
            Ok(passthrough) => all.push(Some(passthrough)),
            Err(error) => faults.push(Fault::new(format!("listeners[{index}].passthrough"), error.to_string())),
        }
    }
    if faults.is_empty() { Ok(all) } else { Err(faults) }
}

fn upstream(config: &Config) -> Result<(Arc<Upstream>, &crate::config::Upstream), Vec<Fault>> {
    let [settings] = config.upstreams.as_slice() else {
        return Err(vec![Fault::new("upstreams", "name exactly one lineage backend")]);
    };
    let upstream = Upstream::new(settings);
    let upstream = upstream.map_err(|error| vec![Fault::new("upstreams[0]", error.to_string())])?;
    Ok((Arc::new(upstream), settings))
}

/// Other names of datasets matter where the backend looks datasets up by them.
fn edit_plan(config: &Config) -> Result<(Arc<Plan>, Lookup), Vec<Fault>> {
    let [settings] = config.upstreams.as_slice() else { return Err(Vec::new()) };
    let lookup = Lookup::new(settings, ResolvesBy::of(settings.kind));
    let plan = Plan::new(&config.rewrite, &config.facets, lookup.symlinks != Symlinks::Keep);
    let plan =
        plan.map_err(|faults| faults.into_iter().map(|fault| Fault::new("rewrite", fault)).collect::<Vec<_>>())?;
    Ok((Arc::new(plan), lookup))
}

fn paths(listener: &Listener) -> Paths {
    Paths {
        prefix: listener.path_prefix.clone(),
        default: Dialect::new(listener.dialect, listener.openmetadata),
        openmetadata: listener.openmetadata,
    }
}

/// What an `eventTime` without offset means is the backend's matter. Gravitino refuses it, and DataHub, which reads events
/// with the same library, fails at it. Marquez takes it (facts: marquez-and-clients-real 1), OpenMetadata's contract has all
/// times in UTC, and others are not known to mind.
///
/// Which kinds of event a backend takes is not asked here: those that it cannot take may be dropped instead of refused.
fn event_rules(config: &Config, kind: UpstreamKind) -> EventRules {
    let default_time = match kind {
        UpstreamKind::Gravitino | UpstreamKind::Datahub => EventTime::RequireOffset,
        UpstreamKind::Openlineage
        | UpstreamKind::File
        | UpstreamKind::Marquez
        | UpstreamKind::Openmetadata
        | UpstreamKind::Polaris => EventTime::AssumeUtc,
    };
    EventRules {
        gravitino: Arc::new(Rules::new(&config.event, EventTime::RequireOffset, true)),
        openmetadata: Arc::new(Rules::new(&config.event, default_time, true)),
        openlineage: Arc::new(Rules::new(&config.event, default_time, false)),
    }
}

/// Makes `/readyz` wait for the keys of all issuers that have none: before it is served, or it could say yes too early.
fn missing_keys(authenticator: &Authenticator, readiness: &Readiness) -> Vec<(Check, Arc<str>)> {
    let missing = authenticator.missing().into_iter();
    missing.map(|issuer| (readiness.register(format!("keys of {issuer}")), issuer)).collect()
}

/// Makes `/readyz` good once the keys of all issuers have come.
async fn announce_keys(
    authenticator: Arc<Authenticator>,
    mut waiting: Vec<(Check, Arc<str>)>,
    shutdown: CancellationToken,
) {
    while !waiting.is_empty() {
        if shutdown.run_until_cancelled(tokio::time::sleep(KEYS_POLL)).await.is_none() {
            return;
        }
        let missing = authenticator.missing();
        waiting.retain(|(check, issuer)| {
            let is_missing = missing.contains(issuer);
            if !is_missing {
                check.ready();
            }
            is_missing
        });
    }
}

async fn sweep(limits: Arc<Limits>, shutdown: CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(LIMIT_SWEEP)).await.is_some() {
        limits.sweep(tokio::time::Instant::now());
    }
}

fn target(
    name: String,
    paths: Vec<std::path::PathBuf>,
    reload: impl Fn() -> Result<bool, String> + Send + Sync + 'static,
) -> Target {
    Target { name, paths, reload: Box::new(reload) }
}

fn lines(faults: &[impl std::fmt::Display]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn keep<T: Default>(faults: &mut Vec<Fault>, found: Vec<Fault>) -> T {
    faults.extend(found);
    T::default()
}
