//! The control listener: `/config` and `/policy/invalidate`. For those who run the gate, and for programs, never for a browser that another
//! site sent: Host must be a loopback name (a DNS name that was rebound to 127.0.0.1 is none), and Origin, if there is
//! one, the same host.

use std::path::PathBuf;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use tokio_util::sync::CancellationToken;

use self::token::Token;
use super::bind::{self, Bound, Error};
use super::serve::{self, Answer, method_not_allowed, not_found, page, text};
use crate::config::{self, Address};
use crate::reload;
use crate::source::Source;

mod invalidate;
mod redact;
mod token;

/// What the control listener guards, and tells.
#[derive(Debug)]
pub struct State {
    /// None: a Unix socket, whose mode is the guard.
    token: Option<Arc<Token>>,
    /// Whether Host must be loopback.
    is_tcp: bool,
    config: String,
    policy: Option<Arc<Source>>,
}

impl State {
    /// Reads the token. `effective` is the configuration in use, with paths in place of secrets; credentials in URLs
    /// are masked here.
    ///
    /// # Errors
    /// No token for a TCP address, or one that cannot be used.
    pub fn load(config: &config::Admin, effective: serde_json::Value) -> Result<Self, Error> {
        let token = config.token_file.as_deref().map(Token::load).transpose().map_err(Error::Token)?;
        let is_tcp = match &config.address {
            Address::Tcp(_) if token.is_none() => return Err(Error::NoToken(config.address.clone())),
            Address::Tcp(_) => true,
            Address::Unix(_) => false,
        };
        let config = format!("{:#}\n", redact::redact(effective));
        Ok(Self { token: token.map(Arc::new), is_tcp, config, policy: None })
    }

    /// With the policy whose cached answers can be dropped.
    #[must_use]
    pub fn with_policy(self, policy: Option<Arc<Source>>) -> Self {
        Self { policy, ..self }
    }

    /// For [`reload::watch`]: reads the token again when its file changes.
    pub fn reload_target(&self) -> Option<reload::Target> {
        let token = Arc::clone(self.token.as_ref()?);
        let paths: Vec<PathBuf> = vec![token.path().to_owned()];
        let reload = Box::new(move || token.reload());
        Some(reload::Target { name: "admin token".to_owned(), paths, reload })
    }
}

/// Listens; [`Bound::address`] tells the port.
///
/// # Errors
/// An address that is not loopback, or that cannot be listened on.
pub async fn bind(config: &config::Admin) -> Result<Bound, Error> {
    match &config.address {
        Address::Tcp(address) if !address.ip().is_loopback() => Err(Error::NotLoopback(config.address.clone())),
        Address::Tcp(_) | Address::Unix(_) => bind::bind(&config.address).await,
    }
}

/// Serves until `shutdown`.
pub async fn serve(bound: Bound, state: Arc<State>, metrics: serve::Metrics, shutdown: CancellationToken) {
    serve::serve(bound, "control", metrics, shutdown, move |request| answer(&state, request)).await;
}

fn answer<B>(state: &State, request: &Request<B>) -> Answer {
    if let Err(refused) = check_site(state.is_tcp, request) {
        return text(StatusCode::FORBIDDEN, refused);
    }
    if !is_admitted(state.token.as_deref(), request.headers()) {
        let mut response = text(StatusCode::UNAUTHORIZED, "send the token of admin.token_file as a bearer token\n");
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/config") => page(StatusCode::OK, "application/json", state.config.clone()),
        (_, "/config") => method_not_allowed("GET"),
        (&Method::POST, "/policy/invalidate") => invalidate::answer(state.policy.as_deref(), request.uri().query()),
        (_, "/policy/invalidate") => method_not_allowed("POST"),
        _ => not_found(),
    }
}

/// Refuses what a page of another site can make a browser send.
fn check_site<B>(is_tcp: bool, request: &Request<B>) -> Result<(), &'static str> {
    let Some(host) = only(request.headers(), &HOST) else { return Err("send one Host header\n") };
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    if is_tcp && ![Some(host), authority].into_iter().flatten().all(is_loopback) {
        return Err("the Host must be localhost, 127.0.0.1 or [::1]\n");
    }
    if !request.headers().contains_key(ORIGIN) {
        return Ok(());
    }
    let origin = only(request.headers(), &ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
    if origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    Err("another site's page may not ask\n")
}

/// The value of a header that is there exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

/// `localhost` or a loopback address, with any port: a port may have been forwarded.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host();
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_admitted(token: Option<&Token>, headers: &HeaderMap) -> bool {
    let Some(token) = token else { return true };
    let Some((scheme, sent)) = only(headers, &AUTHORIZATION).and_then(|value| value.split_once(' ')) else {
        return false;
    };
    scheme.eq_ignore_ascii_case("bearer") && token.is(sent.trim_start_matches(' '))
}

#[cfg(test)]
mod tests;
