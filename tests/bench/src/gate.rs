//! A real gate: files, start, end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use lineage_gate::auth::dev::SigningKey;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::Process;

pub const ISSUER: &str = "https://idp.example/";
pub const AUDIENCE: &str = "lineage";

/// The files of a gate: certificate, keys, policy.
pub struct Directory {
    directory: TempDir,
    key: SigningKey,
}

/// A gate that is ready.
pub struct Gate {
    pub process: Process,
    pub port: u16,
    /// From the start of the process to the first good answer of `/readyz`.
    pub took: Duration,
}

impl Directory {
    pub fn make(policy: &str) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let key = SigningKey::generate()?;
        let at = |name: &str| directory.path().join(name);
        // Not where files are watched: each record would wake the watcher.
        std::fs::create_dir(at("audit"))?;
        std::fs::write(at("jwks.json"), key.jwks())?;
        std::fs::write(at("policy.json"), policy)?;
        let tls = rcgen::KeyPair::generate()?;
        let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&tls)?;
        std::fs::write(at("tls.crt"), certificate.pem())?;
        std::fs::write(at("tls.key"), tls.serialize_pem())?;
        Ok(Self { directory, key })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A token for an hour.
    pub fn token(&self, subject: &str) -> anyhow::Result<String> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
        let claims = serde_json::json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 3_600,
        });
        Ok(self.key.sign(&claims)?)
    }

    fn configure(&self, port: u16, health: u16, backend: u16) -> anyhow::Result<PathBuf> {
        let configuration = serde_json::json!({
            "listeners": [{ "address": format!("127.0.0.1:{port}"),
                            "tls": { "certificate": "tls.crt", "key": "tls.key" } }],
            "auth": { "issuers": [{ "issuer": ISSUER, "audiences": [AUDIENCE], "jwks_file": "jwks.json" }] },
            "policy": { "files": "policy.json" },
            "limits": [{ "name": "caller", "per": "caller", "rate": "1000000/s" }],
            "upstreams": [{ "name": "backend", "kind": "openlineage", "url": format!("http://127.0.0.1:{backend}") }],
            "audit": { "output": "audit/audit.jsonl" },
            "health": { "address": format!("127.0.0.1:{health}") },
            "drain": { "grace": "0s", "deadline": "5s" },
        });
        let path = self.path().join("lineage-gate.yaml");
        // JSON is YAML too.
        std::fs::write(&path, configuration.to_string())?;
        Ok(path)
    }
}

impl Gate {
    pub async fn start(binary: &Path, directory: &Directory, backend: u16) -> anyhow::Result<Self> {
        let (port, health) = (free_port().await?, free_port().await?);
        let path = directory.configure(port, health, backend)?;
        let mut command = Command::new(binary);
        command.arg("run").arg("--config").arg(path).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let process = Process(command.spawn()?);
        while !is_ready(health).await {
            if began.elapsed() > Duration::from_secs(60) {
                bail!("the gate is not ready after a minute");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(Self { process, port, took: began.elapsed() })
    }

    pub async fn end(mut self) -> anyhow::Result<()> {
        let id = self.process.0.id().to_string();
        Command::new("kill").arg(&id).status().context("kill")?;
        let status = tokio::task::spawn_blocking(move || self.process.0.wait()).await??;
        if !status.success() {
            bail!("the gate ended with {status}");
        }
        Ok(())
    }
}

async fn is_ready(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return false };
    let request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut answer = String::new();
    stream.write_all(request).await.is_ok()
        && stream.read_to_string(&mut answer).await.is_ok()
        && answer.starts_with("HTTP/1.1 200")
}

async fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port())
}
