//! A file → a [`Config`].

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::fault::Fault;
use super::{Config, check, paths, yaml};

/// A configuration that was read from a file.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration, defaults filled in, every path absolute.
    pub config: Config,
    /// The absolute path of its file.
    pub path: PathBuf,
    /// The effective configuration as operators may see it: what a URL may carry besides its place is left out. Secrets
    /// are files, of which only the paths stand here.
    pub redacted: Value,
}

/// Reads a configuration file and checks what it means.
///
/// # Errors
/// The first fault of shape, or else all faults of meaning.
pub fn load(path: &Path) -> Result<Loaded, Vec<Fault>> {
    let loaded = read(path).map_err(|fault| vec![fault])?;
    let faults: Vec<Fault> = check(&loaded.config).into_iter().map(|fault| fault.within(path)).collect();
    if faults.is_empty() { Ok(loaded) } else { Err(faults) }
}

/// Reads a configuration file: its shape only.
///
/// # Errors
/// The file cannot be read, or the first place that has a wrong shape.
pub fn read(path: &Path) -> Result<Loaded, Fault> {
    let unreadable = |error: std::io::Error| Fault::new(path.display().to_string(), format!("cannot be read: {error}"));
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let text = std::fs::read_to_string(&absolute).map_err(unreadable)?;
    let mut config: Config = yaml::from_text(path, &text)?;
    if let Some(directory) = absolute.parent() {
        paths::resolve(&mut config, directory);
    }
    let redacted = redacted(&config)
        .map_err(|error| Fault::new(path.display().to_string(), format!("cannot be written as JSON: {error}")))?;
    Ok(Loaded { config, path: absolute, redacted })
}

fn redacted(config: &Config) -> Result<Value, serde_json::Error> {
    let mut config = config.clone();
    let issuers = config.auth.issuers.iter_mut().filter_map(|issuer| issuer.jwks.as_mut());
    let upstreams = config.upstreams.iter_mut().filter_map(|upstream| upstream.url.as_mut());
    let passthroughs = config.listeners.iter_mut().filter_map(|listener| listener.passthrough.as_mut()?.url.as_mut());
    for url in issuers.chain(upstreams).chain(passthroughs) {
        *url = without_secrets(url);
    }
    serde_json::to_value(config)
}

/// A URL without user information and query, which may hold passwords and keys.
fn without_secrets(url: &str) -> String {
    let url = url.split_once(['?', '#']).map_or(url, |(before, _)| before);
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests;
