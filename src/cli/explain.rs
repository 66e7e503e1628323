//! `lineage-gate explain`: what the policy decides about an event, reference by reference, without a server.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Exit, refuse, say};
use crate::config::Fault;

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
    /// The event, one JSON document; `-` is standard input.
    #[arg(value_name = "EVENT.json")]
    event: PathBuf,
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
    match judge(args, &body)? {
        Ok(lines) => {
            say(table(&lines))?;
            Ok(Exit::Done)
        }
        Err(faults) => Ok(refuse(&faults)),
    }
}

fn judge(_: &Args, _: &[u8]) -> anyhow::Result<Result<Vec<Line>, Vec<Fault>>> {
    anyhow::bail!("there is no policy in this build")
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
