//! `lineage-gate explain`: what the policy decides about an event, reference by reference, without a server.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::{Exit, refuse, say};
use crate::config::{self, EventTime, FacetReferences, Fault};
use crate::event::{self, Rules};
use crate::policy::{self, ActiveRoles, Explanation, Identity};
use crate::source::Files;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A policy file, or a directory whose files are one policy.
    #[arg(long, value_name = "DIR")]
    policies: PathBuf,
    /// The caller's name, with the issuer's prefix.
    #[arg(long, value_name = "USER")]
    user: String,
    /// The caller's groups, with the issuer's prefix.
    #[arg(long, value_name = "G,H", value_delimiter = ',')]
    groups: Vec<String>,
    /// The roles that the caller asks to act with, as in the header that says so. Default: all.
    #[arg(long, value_name = "R,S")]
    active_roles: Option<String>,
    /// Which references inside facets are judged, as `policy.facet_references`.
    #[arg(long, value_enum, default_value_t)]
    facet_references: Facets,
    /// The event, one JSON document; `-` is standard input.
    #[arg(value_name = "EVENT.json")]
    event: PathBuf,
}

/// [`FacetReferences`], for the command line.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Facets {
    Ignore,
    #[default]
    Governed,
    All,
}

impl From<Facets> for FacetReferences {
    fn from(facets: Facets) -> Self {
        match facets {
            Facets::Ignore => Self::Ignore,
            Facets::Governed => Self::Governed,
            Facets::All => Self::All,
        }
    }
}

impl From<Explanation> for Line {
    fn from(one: Explanation) -> Self {
        let kind = one.kind.map(|kind| format!("{} ", kind.word())).unwrap_or_default();
        let target = format!("{kind}{} in {}", one.name, one.namespace);
        Self { path: one.path, target, allowed: one.allowed, rule: one.why.to_string() }
    }
}

/// What was decided about one reference.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// Where it stands in the event.
    path: String,
    /// What it names.
    target: String,
    /// Whether the caller may name it.
    allowed: bool,
    /// The role, grant, denial, owner or rule that decided.
    rule: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let body = match read(&args.event) {
        Ok(body) => body,
        Err(error) => {
            return Ok(refuse(&[Fault::new(args.event.display().to_string(), format!("cannot be read: {error}"))]));
        }
    };
    match judge(args, body) {
        Ok(lines) => {
            say(table(&lines))?;
            Ok(Exit::Done)
        }
        Err(faults) => Ok(refuse(&faults)),
    }
}

fn judge(args: &Args, body: Vec<u8>) -> Result<Vec<Line>, Vec<Fault>> {
    let files = Files::load(&args.policies).map_err(|faults| as_faults("--policies", &faults))?;
    let rules = Rules::new(&config::Event::default(), EventTime::AssumeUtc, false);
    let event = event::parse(Bytes::from(body), &rules);
    let event = event.map_err(|error| as_faults(&args.event.display().to_string(), &[error]))?;
    let roles = ActiveRoles::parse(args.active_roles.as_deref());
    let roles = roles.map_err(|malformed| as_faults("--active-roles", &[malformed]))?;
    let groups: Vec<Arc<str>> = args.groups.iter().map(|group| group.as_str().into()).collect();
    let who = Identity { subject: &args.user, groups: &groups };
    let explained = policy::explain(&files.world(), &who, &roles, &event, args.facet_references.into());
    Ok(explained.into_iter().map(Line::from).collect())
}

fn as_faults(place: &str, faults: &[impl ToString]) -> Vec<Fault> {
    faults.iter().map(|fault| Fault::new(place, fault.to_string())).collect()
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path);
    }
    let mut body = Vec::new();
    std::io::stdin().lock().read_to_end(&mut body)?;
    Ok(body)
}

/// Aligned columns: verdict, place, target, rule.
fn table(lines: &[Line]) -> String {
    let width = |of: fn(&Line) -> &str| lines.iter().map(|line| of(line).chars().count()).max().unwrap_or(0);
    let (path, target) = (width(|line| &line.path), width(|line| &line.target));
    let rows = lines.iter().map(|line| {
        let verdict = if line.allowed { "allow" } else { "deny" };
        format!("{verdict:5}  {:path$}  {:target$}  {}", line.path, line.target, line.rule)
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let line = |path: &str, target: &str, allowed, rule: &str| Line {
            path: path.to_owned(),
            target: target.to_owned(),
            allowed,
            rule: rule.to_owned(),
        };
        let lines = [
            line("inputs[0]", "table lake.sales.größe", true, "role sales_reader"),
            line("outputs[10]", "table lake.x", false, "no grant"),
        ];
        let expected = "allow  inputs[0]    table lake.sales.größe  role sales_reader\n\
                        deny   outputs[10]  table lake.x            no grant";
        assert_eq!(table(&lines), expected);
    }
}
