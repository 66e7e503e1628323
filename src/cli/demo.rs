//! `lineage-gate demo`: the whole gate on loopback, with keys made on the spot, and a dozen events that show what it does.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::TempDir;

use self::client::Client;
use self::table::Line;
use self::tokens::Tokens;
use super::Exit;
use super::run::Signals;
use crate::app::App;
use crate::config::{self, Address};

mod client;
mod events;
mod scenes;
mod table;
mod tokens;

const POLICY: &str = include_str!("../../policies/demo.yaml");

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// End after the table; exit code 0 only if every answer was the expected one.
    #[arg(long)]
    once: bool,
}

/// The folder of one demonstration, with everything that was made for it.
struct Stage {
    directory: TempDir,
    tokens: Tokens,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    runtime.block_on(show(args.once))
}

async fn show(once: bool) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen().context("listening to signals")?;
    let stage = Stage::build()?;
    let loaded = config::load(&stage.path("lineage-gate.yaml")).map_err(super::in_one)?;
    let app = App::start(&loaded.config, loaded.redacted).await.map_err(super::in_one)?;
    let url = listening_at(&app)?;
    let lines = stage.play(&url).await?;
    table::print(&lines)?;
    let failed = lines.iter().filter(|line| !line.is_as_expected()).count();
    if !once {
        stage.invite(&url, &app)?;
        signals.next().await;
    }
    app.end().await;
    if failed > 0 {
        bail!("{failed} answers were not the expected ones");
    }
    Ok(Exit::Done)
}

fn listening_at(app: &App) -> anyhow::Result<String> {
    match app.addresses().listeners.first() {
        Some(Address::Tcp(address)) => Ok(format!("https://localhost:{}", address.port())),
        Some(Address::Unix(_)) | None => bail!("the demonstration has no TCP listener"),
    }
}

impl Stage {
    fn build() -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("lineage-gate-demo-").tempdir().context("making a folder")?;
        let tokens = Tokens::make(directory.path())?;
        make_certificate(directory.path())?;
        let stage = Self { directory, tokens };
        fs::create_dir(stage.path("policies"))?;
        fs::write(stage.path("policies/demo.yaml"), POLICY)?;
        fs::write(stage.path("lineage-gate.yaml"), configuration())?;
        Ok(stage)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Sends every event, in order, and tells what came of each.
    async fn play(&self, url: &str) -> anyhow::Result<Vec<Line>> {
        let client = Client::trusting(&self.path("ca.pem"))?;
        let policy = crate::source::Files::load(&self.path("policies")).map_err(super::in_one)?;
        let mut lines = Vec::new();
        for scene in scenes::all() {
            let token = self.tokens.of(&scene.caller)?;
            let reply = client.post(&format!("{url}{}", scene.path), &token, scene.body.clone()).await?;
            let record = self.audit_record(&reply).await?;
            let rule = table::rule(&record, &scene, &policy.world());
            lines.push(Line::new(scene, reply, rule));
        }
        table::compare_neutral_answers(&mut lines);
        Ok(lines)
    }

    /// The audit record of a request. It is written after the answer, so it may have to be waited for.
    async fn audit_record(&self, reply: &client::Reply) -> anyhow::Result<serde_json::Value> {
        let id = reply.headers.get("x-request-id").and_then(|id| id.to_str().ok()).context("no X-Request-Id")?;
        for _ in 0..200 {
            let audit = fs::read_to_string(self.path("audit.jsonl")).unwrap_or_default();
            let mut records = audit.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            if let Some(record) = records.find(|record| record.get("request_id").is_some_and(|found| found == id)) {
                return Ok(record);
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        bail!("the audit has no record of request {id}")
    }

    fn invite(&self, url: &str, app: &App) -> anyhow::Result<()> {
        let ca = self.path("ca.pem");
        let accepted = self.path("accepted.jsonl");
        let mut out = io::stdout().lock();
        writeln!(out, "\nThe gate stays up until Ctrl-C. Paste any of these into another terminal:\n")?;
        for scene in scenes::to_paste() {
            let file = self.path(&format!("{}.json", scene.slug));
            fs::write(&file, &scene.body)?;
            let token = self.tokens.of(&scene.caller)?;
            writeln!(out, "# {}, {}: {}", scene.caller.name, scene.expected.as_u16(), scene.title)?;
            writeln!(out, "{}\n", curl(&ca, &token, &file, &format!("{url}{}", scene.path)))?;
        }
        writeln!(out, "accepted events  {}", accepted.display())?;
        writeln!(out, "audit            {}", self.path("audit.jsonl").display())?;
        writeln!(out, "configuration    {}", self.path("lineage-gate.yaml").display())?;
        writeln!(out, "policy           {}", self.path("policies/demo.yaml").display())?;
        writeln!(out, "health           http://{}/readyz  http://{0}/metrics", app.addresses().health)?;
        out.flush()?;
        Ok(())
    }
}

fn curl(ca: &Path, token: &str, event: &Path, url: &str) -> String {
    format!(
        "curl -i --cacert {} -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' \
         --data-binary @{} {url}",
        ca.display(),
        event.display()
    )
}

/// A CA that is thrown away, and a certificate of it for this machine's loopback names.
fn make_certificate(directory: &Path) -> anyhow::Result<()> {
    let ca_key = rcgen::KeyPair::generate()?;
    let mut ca = rcgen::CertificateParams::new(Vec::new())?;
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    ca.distinguished_name.push(rcgen::DnType::CommonName, "lineage-gate demo CA");
    let issuer = rcgen::CertifiedIssuer::self_signed(ca, ca_key)?;
    let key = rcgen::KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let mut leaf = rcgen::CertificateParams::new(names)?;
    leaf.distinguished_name.push(rcgen::DnType::CommonName, "localhost");
    let certificate = leaf.signed_by(&key, &issuer)?;
    fs::write(directory.join("ca.pem"), issuer.pem())?;
    fs::write(directory.join("tls.crt"), certificate.pem())?;
    // The folder is of mode 0700.
    fs::write(directory.join("tls.key"), key.serialize_pem())?;
    Ok(())
}

/// A real configuration: what stands here is what an installation would have, with the ports left to the system.
fn configuration() -> String {
    format!(
        "\
listeners:
  - address: 127.0.0.1:0
    tls: {{ certificate: tls.crt, key: tls.key }}
auth:
  issuers:
    - issuer: {issuer}
      audiences: [{audience}]
      jwks_file: jwks.json
policy:
  files: policies/
limits:
  - name: caller
    per: caller
    rate: 100/s
    burst: 200
    overrides: {{ users: {{ erin: {{ rate: 1/m, burst: 2 }} }} }}
upstreams:
  - {{ name: archive, kind: file, path: accepted.jsonl }}
audit: {{ output: audit.jsonl }}
health: {{ address: 127.0.0.1:0 }}
drain: {{ grace: 0s, deadline: 5s }}
",
        issuer = tokens::ISSUER,
        audience = tokens::AUDIENCE,
    )
}
