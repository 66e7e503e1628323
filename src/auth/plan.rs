//! The `auth` section of a configuration, read into rules: every fault of meaning is found here, without I/O.

use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;
use regex::Regex;

use super::algorithm::{Algorithm, Family};
use super::claims::{FOREIGN_TYPES, Rules};
use super::error::Fault;
use super::fetch::Target;
use super::store::{FileKind, Source};
use super::token::short_type;
use crate::config::{Auth, Issuer, Span};

/// One issuer, ready for its keys.
pub(super) struct Plan {
    /// `auth.issuers[N]`, for messages.
    pub(super) place: String,
    pub(super) rules: Rules,
    pub(super) source: Source,
}

/// Finds all faults of meaning, with the key that each is about. Reads no file.
pub fn check(config: &Auth) -> Vec<Fault> {
    plan(config).1
}

/// The issuers without fault, and the faults of the others and of all together.
pub(super) fn plan(config: &Auth) -> (Vec<Plan>, Vec<Fault>) {
    let mut faults = Faults::default();
    if config.issuers.is_empty() {
        faults.add("auth.issuers", "names no issuer: nobody could call");
    }
    if config.max_token.0 == 0 {
        faults.add("auth.max_token", "must be above 0");
    }
    check_together(&config.issuers, &mut faults);
    let mut plans = Vec::new();
    for (index, issuer) in config.issuers.iter().enumerate() {
        let place = format!("auth.issuers[{index}]");
        let before = faults.found.len();
        let parsed = plan_issuer(&place, issuer, &mut faults);
        if let Some((rules, source)) = parsed.filter(|_| faults.found.len() == before) {
            plans.push(Plan { place, rules, source });
        }
    }
    (plans, faults.found)
}

#[derive(Default)]
struct Faults {
    found: Vec<Fault>,
}

impl Faults {
    fn add(&mut self, key: &str, text: impl Into<String>) {
        self.found.push(Fault::Meaning { key: key.to_owned(), text: text.into() });
    }

    fn add_if(&mut self, wrong: bool, key: &str, text: &str) {
        if wrong {
            self.add(key, text);
        }
    }
}

/// Two issuers may not speak for each other's callers.
fn check_together(issuers: &[Issuer], faults: &mut Faults) {
    if issuers.len() < 2 {
        return;
    }
    for (index, issuer) in issuers.iter().enumerate() {
        let place = format!("auth.issuers[{index}]");
        faults.add_if(
            prefix(issuer).is_none(),
            &format!("{place}.prefix"),
            "is needed, because there are several issuers",
        );
        for (other_index, other) in issuers.iter().enumerate().filter(|(other_index, _)| *other_index != index) {
            let earlier = other_index < index;
            if earlier && other.issuer == issuer.issuer {
                faults.add(&format!("{place}.issuer"), format!("is the same as that of auth.issuers[{other_index}]"));
            }
            let (Some(own), Some(theirs)) = (prefix(issuer), prefix(other)) else { continue };
            if own.starts_with(theirs) && (own != theirs || earlier) {
                let text = format!("starts with that of auth.issuers[{other_index}]: their callers could be mistaken");
                faults.add(&format!("{place}.prefix"), text);
            }
        }
    }
}

fn prefix(issuer: &Issuer) -> Option<&str> {
    issuer.prefix.as_deref().filter(|prefix| !prefix.is_empty())
}

fn plan_issuer(place: &str, config: &Issuer, faults: &mut Faults) -> Option<(Rules, Source)> {
    let at = |name: &str| format!("{place}.{name}");
    faults.add_if(config.issuer.is_empty(), &at("issuer"), "is empty");
    faults.add_if(
        config.audiences.is_empty(),
        &at("audiences"),
        "names no audience: a token for anyone would be taken",
    );
    faults.add_if(config.audiences.iter().any(String::is_empty), &at("audiences"), "holds an empty text");
    faults.add_if(config.subject_claims.is_empty(), &at("subject_claims"), "names no claim: a caller needs a name");
    let prefix = config.prefix.clone().unwrap_or_default();
    faults.add_if(prefix.contains(char::is_control), &at("prefix"), "holds a control character");
    let token_types: Vec<_> = config.token_types.iter().map(|text| short_type(text)).collect();
    if let Some(foreign) = token_types.iter().find(|text| FOREIGN_TYPES.contains(&text.as_str())) {
        faults.add(&at("token_types"), format!("{foreign} is never the type of an access token"));
    }
    let subject_pattern = config
        .subject_pattern
        .as_deref()
        .and_then(|pattern| anchored(pattern).map_err(|error| faults.add(&at("subject_pattern"), error)).ok());
    let algorithms = algorithms(place, config, faults);
    let source = source(place, config, faults)?;
    let rules = Rules {
        issuer: Arc::from(config.issuer.as_str()),
        audiences: config.audiences.clone(),
        prefix,
        algorithms,
        token_types,
        subject_claims: config.subject_claims.clone(),
        subject_pattern,
        groups_claims: config.groups_claims.clone(),
        required_claims: config.required_claims.clone(),
        leeway: config.leeway.0,
        max_lifetime: config.max_lifetime.map(|span| span.0),
        accept_bound_tokens: config.accept_bound_tokens,
    };
    Some((rules, source))
}

/// The pattern is tried alone first, so that one with a parenthesis too many cannot break out of the anchors.
fn anchored(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern)
        .and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")))
        .map_err(|error| format!("is no regular expression that can be used: {error}"))
}

fn algorithms(place: &str, config: &Issuer, faults: &mut Faults) -> Vec<Algorithm> {
    let key = format!("{place}.algorithms");
    let secret = config.secret_file.is_some();
    let Some(names) = &config.algorithms else {
        return if secret { vec![Algorithm::Hs256] } else { vec![Algorithm::Rs256, Algorithm::Es256] };
    };
    let mut algorithms = Vec::new();
    for name in names {
        match Algorithm::by_name(name) {
            Some(algorithm) => algorithms.push(algorithm),
            None => {
                let known: Vec<_> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
                faults.add(&key, format!("`{name}` is not supported; take of {}", known.join(", ")));
            }
        }
    }
    faults.add_if(names.is_empty(), &key, "accepts no algorithm; leave it out for the default");
    let symmetric = algorithms.iter().any(|algorithm| algorithm.family() == Family::Secret);
    let asymmetric = algorithms.iter().any(|algorithm| algorithm.family() != Family::Secret);
    faults.add_if(symmetric && !secret, &key, "HS256 is only accepted with `secret_file`");
    faults.add_if(asymmetric && secret, &key, "with `secret_file`, HS256 alone is accepted");
    algorithms
}

fn source(place: &str, config: &Issuer, faults: &mut Faults) -> Option<Source> {
    let at = |name: &str| format!("{place}.{name}");
    let files = [
        (FileKind::Jwks, &config.jwks_file),
        (FileKind::PublicKey, &config.public_key_file),
        (FileKind::Secret, &config.secret_file),
    ];
    let mut sources: Vec<Option<Source>> = files
        .into_iter()
        .filter_map(|(kind, path)| path.clone().map(|path| Some(Source::File { kind, path })))
        .collect();
    if let Some(url) = &config.jwks {
        sources.push(url_source(place, url, config, faults));
    } else {
        faults.add_if(config.ca_file.is_some(), &at("ca_file"), "is only used with `jwks`");
        faults.add_if(config.token_file.is_some(), &at("token_file"), "is only used with `jwks`");
    }
    if sources.len() != 1 {
        let text = format!(
            "names {} sources of keys; give exactly one of `jwks`, `jwks_file`, `public_key_file` and `secret_file`",
            sources.len()
        );
        faults.add(place, text);
        return None;
    }
    sources.pop().flatten()
}

fn url_source(place: &str, url: &str, config: &Issuer, faults: &mut Faults) -> Option<Source> {
    let refresh = config.refresh;
    faults.add_if(refresh < Span::secs(1), &format!("{place}.refresh"), "must be at least 1s");
    if config.max_stale < refresh {
        faults.add(&format!("{place}.max_stale"), format!("must be at least `refresh`, which is {refresh}"));
    }
    match key_set_url(url) {
        Err(text) => {
            faults.add(&format!("{place}.jwks"), text);
            None
        }
        Ok(uri) => {
            let target = Target { uri, ca_file: config.ca_file.clone(), token_file: config.token_file.clone() };
            Some(Source::Url { target, refresh: refresh.0, max_stale: config.max_stale.0 })
        }
    }
}

/// Keys that arrive in the clear could be anyone's, so `http` is for this machine only.
fn key_set_url(url: &str) -> Result<Uri, String> {
    let uri: Uri = url.parse().map_err(|error| format!("`{url}` is no URL: {error}"))?;
    let authority = uri.authority().ok_or_else(|| format!("`{url}` is no URL: https://HOST/PATH"))?;
    if authority.as_str().contains('@') {
        return Err("must hold no user or password; use `token_file`".to_owned());
    }
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if is_loopback(authority.host()) => Ok(uri),
        Some(_) | None => Err(format!("`{url}` must be https; http is for loopback addresses only")),
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
