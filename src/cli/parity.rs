//! `lineage-gate parity`: whether the gate decides as a live Gravitino server does, question by question.
//!
//! Each caller's own credential asks the server about each target; the gate decides the same from policy files, or from a
//! snapshot that it reads with a credential of its own. Only reads are sent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use http::HeaderValue;
use serde::Deserialize;

use super::{Exit, complain, refuse, say};
use crate::config::{self, Fault, GravitinoMode, HeaderFile, UpstreamAuth};
use crate::policy::{self, ActiveRoles, Identity, ObjectType};
use crate::source::Files;
use crate::source::gravitino::{Answer, Asker, Gravitino, Metrics, Question, State};

const EXIT_CODES: &str = "\
Exit codes:
   0  all questions were decided, and the same by both
   1  the gate differs from the server, or something else failed
  65  policies, questions or a file that they name are wrong, or there is nothing to compare
  69  no difference, but not all questions could be decided, or none: the lines say why";

#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES, group = clap::ArgGroup::new("side").required(true).args(["token_file", "policies"]))]
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
    /// The metalake; policy files must define it.
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

/// All that files hold.
struct Given {
    callers: Vec<(Caller, HeaderValue)>,
    targets: Vec<Question>,
    policies: Option<Files>,
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
    let given = match Given::read(args) {
        Ok(given) => given,
        Err(faults) => return Ok(refuse(&faults)),
    };
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    runtime.block_on(compare(args, given))
}

async fn compare(args: &Args, given: Given) -> anyhow::Result<Exit> {
    let Given { callers, targets, policies } = given;
    let server = Gravitino::new(&settings(args, GravitinoMode::Probe, UpstreamAuth::None)?, Metrics::default())?;
    let side = match policies {
        Some(files) => Side::Files(files),
        None => match snapshot(args).await? {
            Ok(gravitino) => Side::Snapshot(Box::new(gravitino)),
            Err(reason) => {
                complain([format!("no snapshot: {reason}")]);
                return Ok(Exit::Undecided);
            }
        },
    };
    let mut tally = Tally::default();
    for (caller, credential) in &callers {
        let roles = ActiveRoles::All;
        let asker = Asker { authorization: Some(credential), active_roles: None, roles: &roles, subject: &caller.user };
        for target in &targets {
            let live = server.ask(&asker, target).await.map_err(|trouble| trouble.to_string());
            tally.note(caller, target, &live, side.decide(caller, target).await)?;
        }
    }
    let Tally { same, different, undecided } = tally;
    say(format_args!("{same} the same, {different} different, {undecided} undecided"))?;
    Ok(tally.exit())
}

impl Given {
    fn read(args: &Args) -> Result<Self, Vec<Fault>> {
        let place = args.questions.display().to_string();
        let wrong = |error: anyhow::Error| vec![Fault::new(&*place, format!("{error:#}"))];
        let questions = questions(&args.questions).map_err(wrong)?;
        for (key, is_empty) in [("callers", questions.callers.is_empty()), ("targets", questions.targets.is_empty())] {
            if is_empty {
                let message = format!("`{key}` is empty, so that nothing would be compared: name at least one");
                return Err(vec![Fault::new(place, message)]);
            }
        }
        let targets = targets(args, &questions.targets).map_err(wrong)?;
        let with_credential = |caller: Caller| {
            let credential = credential(&args.questions, &caller.token_file)?;
            Ok((caller, credential))
        };
        let callers: anyhow::Result<_> = questions.callers.into_iter().map(with_credential).collect();
        let policies = args.policies.as_deref().map(|path| policies(path, &args.metalake)).transpose()?;
        Ok(Self { callers: callers.map_err(wrong)?, targets, policies })
    }
}

fn questions(file: &Path) -> anyhow::Result<Questions> {
    let text = std::fs::read_to_string(file).context("cannot be read")?;
    Ok(serde_json::from_str(&text)?)
}

fn policies(path: &Path, metalake: &str) -> Result<Files, Vec<Fault>> {
    let files = Files::load(path);
    let files =
        files.map_err(|faults| faults.iter().map(|fault| Fault::told(&fault.to_string())).collect::<Vec<_>>())?;
    if !files.world().is_metalake(metalake) {
        let message = format!(
            "{} defines no metalake `{metalake}`, so that every answer would be compared with a no: name one that it defines",
            path.display()
        );
        return Err(vec![Fault::new("--metalake", message)]);
    }
    Ok(files)
}

impl Tally {
    fn exit(&self) -> Exit {
        match self {
            Self { different: 1.., .. } => Exit::Failed,
            Self { undecided: 1.., .. } | Self { same: 0, .. } => Exit::Undecided,
            Self { .. } => Exit::Done,
        }
    }

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

/// What the gate would read by itself, or why it cannot.
async fn snapshot(args: &Args) -> anyhow::Result<Result<Gravitino, Arc<str>>> {
    let file = args.token_file.clone().context("name --token-file or --policies")?;
    let value = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let auth = if value.trim().contains(' ') {
        UpstreamAuth::Header(HeaderFile { name: "Authorization".to_owned(), file })
    } else {
        UpstreamAuth::BearerFile(file)
    };
    let gravitino = Gravitino::new(&settings(args, GravitinoMode::Snapshot, auth)?, Metrics::default())?;
    Ok(match gravitino.read_once().await {
        State::Ready(_) => Ok(gravitino),
        State::NotYet(reason) | State::Unsafe(reason) => Err(reason),
    })
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
