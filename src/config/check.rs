//! What a configuration of the right shape may still get wrong. All faults are found together.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::fault::Fault;
use super::{
    Address, Admin, AuditOutput, Config, Event, GravitinoMode, Http1, Http2, Listener, Plaintext, PolicyMode, Size,
    Span,
};
use crate::event::edit::Plan;
use crate::{auth, limit, passthrough, source, upstream};

/// Clients keep idle connections up to 90 s (facts: marquez and clients 3).
const LEAST_IDLE: Span = Span::secs(95);

/// hyper's smallest HTTP/1 buffer.
const LEAST_HEAD: Size = Size::kib(8);

/// `sun_path` of Linux, less its final zero byte.
const LONGEST_SOCKET_PATH: usize = 107;

/// All faults of meaning, in the order of the file. Nothing is read: whether files are there and hold what they should
/// is for others to say.
pub fn check(config: &Config) -> Vec<Fault> {
    let mut faults = Faults::default();
    listeners(config, &mut faults);
    policy(config, &mut faults);
    event(&config.event, &mut faults);
    if config.upstreams.len() != 1 {
        faults.add("upstreams", format!("expected exactly one, found {}", config.upstreams.len()));
    }
    if let Some(admin) = &config.admin {
        control(admin, &mut faults);
    }
    addresses(config, &mut faults);
    files(config, &mut faults);
    faults.span("drain.deadline", config.drain.deadline);
    if config.drain.grace >= config.drain.deadline {
        let (grace, deadline) = (config.drain.grace, config.drain.deadline);
        faults
            .add("drain.grace", format!("{grace} leaves no time before drain.deadline ({deadline}); make it shorter"));
    }
    faults.0.extend(stages(config));
    faults.0
}

/// What each stage says of its own part.
fn stages(config: &Config) -> Vec<Fault> {
    let mut faults: Vec<Fault> = auth::check(&config.auth).iter().map(Fault::from).collect();
    faults.extend(limit::check(&config.limits).iter().map(|fault| placed("limits", fault)));
    if let Err(found) = Plan::new(&config.rewrite, &config.facets, false) {
        let key = |fault: &str| if fault.starts_with("facets") { "facets" } else { "rewrite" };
        faults.extend(found.iter().map(|fault| placed(key(fault), fault)));
    }
    for (index, settings) in config.upstreams.iter().enumerate() {
        let place = format!("upstreams[{index}]");
        faults.extend(upstream::check(settings).iter().map(|fault| placed(&place, fault)));
    }
    if let Some(gravitino) = &config.policy.gravitino {
        faults.extend(source::gravitino::check(gravitino).iter().map(|fault| placed("policy.gravitino", fault)));
    }
    faults
}

/// A stage's line, which begins with a place of its own where it knows a closer one.
fn placed(place: &str, line: &str) -> Fault {
    match line.split_once(": ") {
        Some((closer, message)) if closer.starts_with(place) => Fault::new(closer, message),
        Some(_) | None => Fault::new(place, line),
    }
}

#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.0.push(Fault::new(place, message));
    }

    fn count(&mut self, place: impl Into<String>, count: usize) {
        if count == 0 {
            self.add(place, "must be more than 0");
        }
    }

    fn size(&mut self, place: impl Into<String>, size: Size) {
        self.count(place, size.bytes());
    }

    fn span(&mut self, place: impl Into<String>, Span(duration): Span) {
        if duration.is_zero() {
            self.add(place, "must be more than 0s");
        }
    }
}

fn listeners(config: &Config, faults: &mut Faults) {
    if config.listeners.is_empty() {
        faults.add("listeners", "at least one is needed, such as - address: 127.0.0.1:8080");
    }
    let mut names = HashMap::new();
    for (i, listener) in config.listeners.iter().enumerate() {
        let place = format!("listeners[{i}]");
        if let Some(name) = listener.name.as_deref() {
            if name.is_empty() {
                faults.add(format!("{place}.name"), "must not be empty");
            }
            if let Some(first) = names.insert(name, i) {
                faults.add(format!("{place}.name"), format!("`{name}` is already the name of listeners[{first}]"));
            }
        }
        listener_alone(&place, listener, faults);
        if let Some(settings) = &listener.passthrough {
            faults.span(format!("{place}.passthrough.timeout"), settings.timeout);
            let upstream = config.upstreams.first();
            let found = passthrough::check(settings, upstream).into_iter();
            faults.0.extend(found.map(|(key, message)| Fault::new(format!("{place}.passthrough.{key}"), message)));
        }
    }
}

fn listener_alone(place: &str, listener: &Listener, faults: &mut Faults) {
    let address = &listener.address;
    if listener.tls.is_none() && listener.plaintext == Plaintext::Loopback && !is_local(address) {
        faults.add(
            format!("{place}.tls"),
            format!(
                "without it tokens cross the network to {address} readable; give a certificate and key, listen on a \
                 loopback address or a Unix socket, or say `plaintext: allow`"
            ),
        );
    }
    for network in listener.trusted_proxies.iter().filter(|network| network.prefix_len() == 0) {
        faults.add(
            format!("{place}.trusted_proxies"),
            format!("{network} is everyone, and anyone could then choose the address that limits and audit see; name the proxies' networks"),
        );
    }
    if let Some(prefix) = listener.path_prefix.as_deref().filter(|prefix| !is_prefix(prefix)) {
        faults.add(
            format!("{place}.path_prefix"),
            format!(
                "`{prefix}` is no path before others; write it as `/team`: no `/` at its end, no `%`, `;`, `?` or `#`"
            ),
        );
    }
    faults.count(format!("{place}.connections"), listener.connections);
    if let Some(share) = listener.connections_per_peer {
        faults.count(format!("{place}.connections_per_peer"), share);
        if share > listener.connections {
            let all = listener.connections;
            faults.add(format!("{place}.connections_per_peer"), format!("{share} is more than `connections` ({all})"));
        }
    }
    faults.span(format!("{place}.handshake_timeout"), listener.handshake_timeout);
    faults.span(format!("{place}.body_timeout"), listener.body_timeout);
    http1(&format!("{place}.http1"), &listener.http1, faults);
    http2(&format!("{place}.http2"), &listener.http2, faults);
}

fn http1(place: &str, http1: &Http1, faults: &mut Faults) {
    if http1.head_bytes < LEAST_HEAD {
        faults.add(format!("{place}.head_bytes"), format!("{} is too small; at least {LEAST_HEAD}", http1.head_bytes));
    }
    faults.span(format!("{place}.head_timeout"), http1.head_timeout);
    if http1.idle_timeout < LEAST_IDLE {
        faults.add(
            format!("{place}.idle_timeout"),
            format!(
                "{} is too short; at least {LEAST_IDLE}: clients keep connections up to 90s, and lose the event that \
                 they send on one that was just closed",
                http1.idle_timeout
            ),
        );
    }
}

fn http2(place: &str, http2: &Http2, faults: &mut Faults) {
    if http2.streams == 0 {
        faults.add(format!("{place}.streams"), "must be more than 0");
    }
    faults.size(format!("{place}.header_list_bytes"), http2.header_list_bytes);
    if u32::try_from(http2.header_list_bytes.0).is_err() {
        faults.add(format!("{place}.header_list_bytes"), "HTTP/2 can announce less than 4GiB only");
    }
    faults.span(format!("{place}.ping_interval"), http2.ping_interval);
    faults.span(format!("{place}.ping_timeout"), http2.ping_timeout);
    faults.count(format!("{place}.pending_resets"), http2.pending_resets);
    faults.span(format!("{place}.idle_timeout"), http2.idle_timeout);
}

fn policy(config: &Config, faults: &mut Faults) {
    match config.policy.mode {
        PolicyMode::Enforce | PolicyMode::Shadow
            if config.policy.files.is_none() && config.policy.gravitino.is_none() =>
        {
            faults.add(
                "policy.files",
                "is missing; name a policy file or a directory of them, or `gravitino: { url: URL }`, or say `mode: off`",
            );
        }
        PolicyMode::Enforce | PolicyMode::Shadow | PolicyMode::Off => {}
    }
    let cache = &config.policy.cache;
    faults.span("policy.cache.fresh", cache.fresh);
    faults.count("policy.cache.entries", usize::try_from(cache.entries).unwrap_or(usize::MAX));
    faults.count("policy.cache.concurrency", cache.concurrency);
    if cache.stale_if_error < cache.fresh {
        let (stale, fresh) = (cache.stale_if_error, cache.fresh);
        faults.add("policy.cache.stale_if_error", format!("{stale} is shorter than policy.cache.fresh ({fresh})"));
    }
    if let Some(gravitino) = &config.policy.gravitino
        && gravitino.mode == GravitinoMode::Snapshot
        && gravitino.refresh >= cache.stale_if_error
    {
        let (refresh, stale) = (gravitino.refresh, cache.stale_if_error);
        faults.add(
            "policy.gravitino.refresh",
            format!(
                "{refresh} is not shorter than policy.cache.stale_if_error ({stale}): each snapshot would be too old to \
                 decide by before the next is read"
            ),
        );
    }
}

fn event(event: &Event, faults: &mut Faults) {
    faults.size("event.max_body", event.max_body);
    if let Some(compressed) = event.max_compressed {
        faults.size("event.max_compressed", compressed);
        if compressed > event.max_body {
            let body = event.max_body;
            faults.add("event.max_compressed", format!("{compressed} is more than event.max_body ({body})"));
        }
    }
    if event.max_ratio == 0 {
        faults.add("event.max_ratio", "must be more than 0");
    }
    if event.memory < event.max_body {
        let (memory, body) = (event.memory, event.max_body);
        faults.add("event.memory", format!("{memory} has no room for one body of event.max_body ({body})"));
    }
    if let Some(share) = event.memory_per_caller {
        let (memory, body) = (event.memory, event.max_body);
        if share < body {
            faults
                .add("event.memory_per_caller", format!("{share} has no room for one body of event.max_body ({body})"));
        }
        if share > memory {
            faults.add("event.memory_per_caller", format!("{share} is more than event.memory ({memory})"));
        }
    }
    if !(10..=120).contains(&event.max_depth) {
        faults.add("event.max_depth", format!("{} is out of range; from 10 to 120", event.max_depth));
    }
    faults.count("event.max_references", event.max_references);
    faults.count("event.max_batch", event.max_batch);
    if event.kinds.is_empty() {
        faults.add("event.kinds", "at least one is needed: run, job, dataset");
    }
}

fn control(admin: &Admin, faults: &mut Faults) {
    if let Address::Tcp(address) = &admin.address {
        if !address.ip().is_loopback() {
            faults.add("admin.address", format!("{address} is no loopback address; use 127.0.0.1, [::1] or unix:PATH"));
        }
        if admin.token_file.is_none() {
            faults.add("admin.token_file", "is missing; a TCP address needs it, also on loopback; or use unix:PATH");
        }
    }
}

/// Records among events would make both unreadable.
fn files(config: &Config, faults: &mut Faults) {
    let AuditOutput::File(audit) = &config.audit.output else { return };
    if config.upstreams.iter().any(|upstream| upstream.path.as_ref() == Some(audit)) {
        faults.add("audit.output", format!("{} is where events are appended; name another file", audit.display()));
    }
}

/// Two sockets cannot be bound to one address.
fn addresses(config: &Config, faults: &mut Faults) {
    let mut seen: Vec<(String, &Address)> = Vec::new();
    let listeners = config.listeners.iter().enumerate().map(|(i, l)| (format!("listeners[{i}].address"), &l.address));
    let admin = config.admin.iter().map(|admin| ("admin.address".to_owned(), &admin.address));
    let health = std::iter::once(("health.address".to_owned(), &config.health.address));
    for (place, address) in listeners.chain(health).chain(admin) {
        if let Address::Unix(path) = address
            && path.as_os_str().len() > LONGEST_SOCKET_PATH
        {
            faults.add(&place, format!("{address} is too long for a socket; at most {LONGEST_SOCKET_PATH} bytes"));
        }
        if let Some((first, taken)) = seen.iter().find(|(_, other)| overlap(address, other)) {
            faults.add(&place, format!("{address} is already taken by {first} ({taken})"));
        }
        seen.push((place, address));
    }
}

fn overlap(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (Address::Tcp(one), Address::Tcp(other)) => tcp_overlap(one, other),
        (Address::Unix(one), Address::Unix(other)) => one == other,
        (Address::Tcp(_), Address::Unix(_)) | (Address::Unix(_), Address::Tcp(_)) => false,
    }
}

/// Port 0 is a free port each time; an unspecified address takes the port on all of its family.
fn tcp_overlap(one: &SocketAddr, other: &SocketAddr) -> bool {
    let everywhere = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0
        && one.port() == other.port()
        && (one.ip() == other.ip() || everywhere && one.is_ipv4() == other.is_ipv4())
}

/// Whether requests can have it: a path of another spelling is refused before it is looked up.
fn is_prefix(prefix: &str) -> bool {
    let plain = |segment: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
        !matches!(segment, "" | "." | "..") && segment.bytes().all(is_plain)
    };
    prefix.strip_prefix('/').is_some_and(|rest| rest.split('/').all(plain))
}

fn is_local(address: &Address) -> bool {
    match address {
        Address::Tcp(address) => address.ip().is_loopback(),
        Address::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests;
