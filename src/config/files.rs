//! Whether the files that a configuration names are there. What they hold is for the stage that reads them to say.

use std::fs::{self, File};
use std::path::Path;

use super::fault::Fault;
use super::{AuditOutput, Config, Upstream, UpstreamAuth};

/// What the process will want of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Reads the file.
    Read,
    /// Reads the file, or the files of the directory.
    ReadAll,
    /// Makes the file in its directory, or appends to it.
    Append,
}

/// A fault for each named file that cannot be used, in the order of the configuration. Only looks: no file is made.
pub fn check(config: &Config) -> Vec<Fault> {
    named(config)
        .into_iter()
        .filter_map(|(place, path, wanted)| Some(Fault::new(place, trouble(path, wanted)?)))
        .collect()
}

fn trouble(path: &Path, wanted: Use) -> Option<String> {
    let result = match wanted {
        Use::Read => File::open(path).and_then(|file| file.metadata()).map(|found| !found.is_dir()),
        Use::ReadAll if path.is_dir() => fs::read_dir(path).map(|_| true),
        Use::ReadAll => File::open(path).map(|_| true),
        Use::Append => match path.parent() {
            Some(directory) => fs::metadata(directory).map(|found| found.is_dir() && !path.is_dir()),
            None => Ok(false),
        },
    };
    let path = path.display();
    match (result, wanted) {
        (Ok(true), _) => None,
        (Ok(false), Use::Append) => Some(format!("{path} cannot be a file: name one in a directory that is there")),
        (Ok(false), Use::Read | Use::ReadAll) => Some(format!("{path} is a directory; name a file")),
        (Err(error), Use::Append) => Some(format!("the directory of {path} cannot be used: {error}")),
        (Err(error), Use::Read | Use::ReadAll) => Some(format!("{path} cannot be read: {error}")),
    }
}

fn named<'a>(config: &'a Config) -> Vec<(String, &'a Path, Use)> {
    let mut all = Vec::new();
    let mut add = |place: String, path: Option<&'a Path>, wanted| all.extend(path.map(|path| (place, path, wanted)));
    for (i, listener) in config.listeners.iter().enumerate() {
        if let Some(tls) = &listener.tls {
            add(format!("listeners[{i}].tls.certificate"), Some(&tls.certificate), Use::Read);
            add(format!("listeners[{i}].tls.key"), Some(&tls.key), Use::Read);
            add(format!("listeners[{i}].tls.client_ca"), tls.client_ca.as_deref(), Use::Read);
        }
    }
    for (i, issuer) in config.auth.issuers.iter().enumerate() {
        add(format!("auth.issuers[{i}].ca_file"), issuer.ca_file.as_deref(), Use::Read);
        add(format!("auth.issuers[{i}].token_file"), issuer.token_file.as_deref(), Use::Read);
        add(format!("auth.issuers[{i}].jwks_file"), issuer.jwks_file.as_deref(), Use::Read);
        add(format!("auth.issuers[{i}].public_key_file"), issuer.public_key_file.as_deref(), Use::Read);
        add(format!("auth.issuers[{i}].secret_file"), issuer.secret_file.as_deref(), Use::Read);
    }
    add("policy.files".to_owned(), config.policy.files.as_deref(), Use::ReadAll);
    for (i, upstream) in config.upstreams.iter().enumerate() {
        add(format!("upstreams[{i}].path"), upstream.path.as_deref(), Use::Append);
        add(format!("upstreams[{i}].auth"), credential(upstream), Use::Read);
        add(format!("upstreams[{i}].ca_file"), upstream.ca_file.as_deref(), Use::Read);
        if let Some(client) = &upstream.client_certificate {
            add(format!("upstreams[{i}].client_certificate.certificate"), Some(&client.certificate), Use::Read);
            add(format!("upstreams[{i}].client_certificate.key"), Some(&client.key), Use::Read);
        }
    }
    match &config.audit.output {
        AuditOutput::Stdout | AuditOutput::Off => {}
        AuditOutput::File(path) => add("audit.output".to_owned(), Some(path), Use::Append),
    }
    let token = config.admin.as_ref().and_then(|admin| admin.token_file.as_deref());
    add("admin.token_file".to_owned(), token, Use::Read);
    all
}

fn credential(upstream: &Upstream) -> Option<&Path> {
    match &upstream.auth {
        UpstreamAuth::None | UpstreamAuth::Forward => None,
        UpstreamAuth::BearerFile(file) => Some(file),
        UpstreamAuth::Header(header) => Some(&header.file),
    }
}

#[cfg(test)]
mod tests;
