//! For `check --online`: is the backend there? Never posts, never locks or changes a file.

use std::fs::{self, OpenOptions};
use std::path::Path;

use crate::config;

use super::contract::Contract;
use super::http::Http;

/// Connects, does TLS and sends one GET with the gate's own credential; for a `file` upstream, looks whether its folder
/// can be written to. Both texts are for the operator.
pub async fn probe(config: &config::Upstream) -> Result<String, String> {
    let Some(contract) = Contract::of(config.kind) else {
        return folder(config.path.as_deref());
    };
    let http = Http::new(contract, config).map_err(|error| error.to_string())?;
    let raw = http.get().await.map_err(|failure| failure.to_string())?;
    let status = raw.status.as_u16();
    match status {
        300..=399 => Err(format!("answers {status}, a redirect: write the final address as `url`")),
        401 | 403 if http.has_credential() => Err(format!("refuses the credential of `auth`: {status} to a GET")),
        500..=599 => Err(format!("answers, but with {status} to a GET")),
        200 if contract.probe_path().is_some() && raw.is_page() => {
            Err(format!("answers with a web page: {} is not there", contract.title()))
        }
        404 => match contract.probe_path() {
            Some(path) => Err(format!("answers 404 to {path}: {} is not there", contract.title())),
            None => Ok("answers: 404 to a GET".to_owned()),
        },
        _ => Ok(format!("answers: {status} to a GET")),
    }
}

/// Makes and removes an empty file beside the one that events go to: permission bits do not tell it all.
fn folder(path: Option<&Path>) -> Result<String, String> {
    let path = path.ok_or("has no `path`")?;
    if path.exists() {
        let opened = OpenOptions::new().append(true).open(path);
        opened.map_err(|error| format!("cannot write to {}: {error}", path.display()))?;
        return Ok(format!("{} can be written to", path.display()));
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".probe-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&beside).and_then(|_| fs::remove_file(&beside));
    made.map_err(|error| format!("cannot make a file beside {}: {error}", path.display()))?;
    Ok(format!("{} can be made", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path) -> config::Upstream {
        serde_json::from_value(serde_json::json!({ "name": "u", "kind": "file", "path": path })).unwrap()
    }

    #[tokio::test]
    async fn a_file_upstream_is_probed_without_leaving_anything_behind() {
        let folder = tempfile::tempdir().unwrap();
        assert!(probe(&file(&folder.path().join("events.jsonl"))).await.unwrap().contains("can be made"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(folder.path().join("there"), "{}\n").unwrap();
        assert!(probe(&file(&folder.path().join("there"))).await.unwrap().contains("can be written to"));
        assert!(probe(&file(&folder.path().join("no/events.jsonl"))).await.unwrap_err().contains("cannot make"));
    }
}
