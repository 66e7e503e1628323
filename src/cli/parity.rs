//! `lineage-gate parity`: whether the gate decides as a live Gravitino server does, question by question.
//!
//! Each caller's own credential asks the server about each target; the gate decides the same from policy files, or from a
//! snapshot that it reads with a credential of its own. Only reads are sent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use http::HeaderValue;
use serde::Deserialize;

use super::{Exit, say};
use crate::config::{self, GravitinoMode, HeaderFile, UpstreamAuth};
use crate::policy::{self, ActiveRoles, Identity, ObjectType};
use crate::source::Files;
use crate::source::gravitino::{Answer, Asker, Gravitino, Metrics, Question, State};

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("side").required(true).args(["token_file", "policies"]))]
pub(super) struct Args {
    /// The server's base, without `/api`.
    #[arg(long, value_name = "URL")]
    url: String,
    /// CA certificates for the server, PEM.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The service credential that a snapshot is read with: a bearer token, or the whole value of `Authorization`.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Policy files that decide instead of a snapshot.
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    /// The metalake.
    #[arg(long, value_name = "NAME")]
    metalake: String,
    /// Callers and targets: { "callers": [{ "user", "groups", "token_file" }], "targets": ["table lake.sales.orders"] }.
    #[arg(value_name = "QUESTIONS.json")]
    questions: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Questions {
    callers: Vec<Caller>,
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Caller {
    user: String,
    #[serde(default)]
    groups: Vec<String>,
    token_file: PathBuf,
}

/// The gate's side.
enum Side {
    Files(Files),
    Snapshot(Box<Gravitino>),
}

#[derive(Debug, Default)]
struct Tally {
    same: usize,
    different: usize,
    undecided: usize,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    runtime.block_on(compare(args))
}

async fn compare(args: &Args) -> anyhow::Result<Exit> {
    let text = std::fs::read_to_string(&args.questions).with_context(|| args.questions.display().to_string())?;
    let questions: Questions = serde_json::from_str(&text).with_context(|| args.questions.display().to_string())?;
    let targets = targets(args, &questions.targets)?;
    let server = Gravitino::new(&settings(args, GravitinoMode::Probe, UpstreamAuth::None)?, Metrics::default())?;
    let side = side(args).await?;
    let mut tally = Tally::default();
    for caller in &questions.callers {
        let credential = credential(&args.questions, &caller.token_file)?;
        let roles = ActiveRoles::All;
        let asker =
            Asker { authorization: Some(&credential), active_roles: None, roles: &roles, subject: &caller.user };
        for target in &targets {
            let live = server.ask(&asker, target).await.map_err(|trouble| trouble.to_string());
            tally.note(caller, target, &live, side.decide(caller, target).await)?;
        }
    }
    let Tally { same, different, undecided } = tally;
    say(format_args!("{same} the same, {different} different, {undecided} undecided"))?;
    Ok(if different == 0 { Exit::Done } else { Exit::Failed })
}

impl Tally {
    fn note(
        &mut self,
        caller: &Caller,
        target: &Question,
        live: &Result<Answer, String>,
        gate: Option<Answer>,
    ) -> anyhow::Result<()> {
        match (live, gate) {
            (Ok(live), Some(gate)) if *live == gate => self.same += 1,
            (Ok(live), Some(gate)) => {
                self.different += 1;
                say(format_args!("DIFFERENT {} {}: server {live:?}, gate {gate:?}", caller.user, shown(target)))?;
            }
            (Ok(_), None) => {
                self.undecided += 1;
                say(format_args!("undecided {} {}: what was read does not decide it", caller.user, shown(target)))?;
            }
            (Err(reason), _) => {
                self.undecided += 1;
                say(format_args!("undecided {} {}: {reason}", caller.user, shown(target)))?;
            }
        }
        Ok(())
    }
}

impl Side {
    async fn decide(&self, caller: &Caller, target: &Question) -> Option<Answer> {
        let Question::Visible { metalake, kind, name } = target else { return None };
        let groups: Vec<Arc<str>> = caller.groups.iter().map(|group| group.as_str().into()).collect();
        let who = Identity { subject: &caller.user, groups: &groups };
        match self {
            Self::Files(files) => {
                let sees = policy::sees(&files.world(), &who, &ActiveRoles::All, metalake, (*kind, name)).ok()?;
                Some(if sees { Answer::Yes } else { Answer::No })
            }
            Self::Snapshot(gravitino) => {
                let view = gravitino.snapshot(metalake)?.view(&who, &ActiveRoles::All);
                gravitino.complete(&view, target).await.ok().flatten()
            }
        }
    }
}

async fn side(args: &Args) -> anyhow::Result<Side> {
    if let Some(policies) = &args.policies {
        return Ok(Side::Files(Files::load(policies).map_err(super::in_one)?));
    }
    let file = args.token_file.clone().context("name --token-file or --policies")?;
    let value = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let auth = if value.trim().contains(' ') {
        UpstreamAuth::Header(HeaderFile { name: "Authorization".to_owned(), file })
    } else {
        UpstreamAuth::BearerFile(file)
    };
    let gravitino = Gravitino::new(&settings(args, GravitinoMode::Snapshot, auth)?, Metrics::default())?;
    match gravitino.read_once().await {
        State::Ready(_) => Ok(Side::Snapshot(Box::new(gravitino))),
        State::NotYet(reason) | State::Unsafe(reason) => Err(anyhow::anyhow!("no snapshot: {reason}")),
    }
}

fn settings(args: &Args, mode: GravitinoMode, credential: UpstreamAuth) -> anyhow::Result<config::Gravitino> {
    let written = serde_json::json!({
        "url": args.url, "ca_file": args.ca_file, "metalakes": [args.metalake], "fallback": "refuse",
    });
    let read: config::Gravitino = serde_json::from_value(written).context("--url")?;
    Ok(config::Gravitino { mode, credential, ..read })
}

fn targets(args: &Args, texts: &[String]) -> anyhow::Result<Vec<Question>> {
    let metalake: Arc<str> = args.metalake.as_str().into();
    let read = |text: &String| {
        let (kind, name) = text.split_once(' ').with_context(|| format!("`{text}` is no type and name"))?;
        let kind = ObjectType::parse(kind).with_context(|| format!("`{text}` has no known type"))?;
        Ok(Question::Visible { metalake: Arc::clone(&metalake), kind, name: name.into() })
    };
    texts.iter().map(read).collect()
}

/// Files are named from where the questions lie.
fn credential(questions: &Path, file: &Path) -> anyhow::Result<HeaderValue> {
    let file = questions.parent().unwrap_or_else(|| Path::new("")).join(file);
    let value = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let value = value.trim();
    let value = if value.contains(' ') { value.to_owned() } else { format!("Bearer {value}") };
    let mut value = HeaderValue::try_from(value).map_err(|_| anyhow::anyhow!("{}: no header value", file.display()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn shown(target: &Question) -> String {
    match target {
        Question::Visible { kind, name, .. } => format!("{} {name}", kind.word()),
        Question::Member { metalake } | Question::RolesHeld { metalake } => format!("metalake {metalake}"),
    }
}
