//! The table that the demonstration prints.

use std::io::{self, Write};

use bytes::Bytes;
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde_json::Value;

use super::client::Reply;
use super::scenes::{NEUTRAL, Scene};
use crate::config::{EventTime, FacetReferences};
use crate::event::{self, Role, Rules};
use crate::policy::{self, ActiveRoles, Identity, World};

/// One row.
pub(super) struct Line {
    scene: Scene,
    body: Bytes,
    /// False where this answer should be equal to the other neutral ones and is not.
    is_neutral: bool,
    status: StatusCode,
    retry_after: Option<String>,
    rule: String,
}

impl Line {
    pub(super) fn new(scene: Scene, reply: Reply, rule: String) -> Self {
        let retry_after = reply.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Self { scene, body: reply.body, is_neutral: true, status: reply.status, retry_after, rule }
    }

    pub(super) fn is_as_expected(&self) -> bool {
        let retry_after = self.scene.resend.then(|| "1".to_owned());
        self.status == self.scene.expected && self.retry_after == retry_after && self.is_neutral
    }

    fn cells(&self) -> [String; 5] {
        let verdict = if self.is_as_expected() { "✓" } else { "✗" };
        let retry = self.retry_after.as_ref().map(|wait| format!(", Retry-After {wait}")).unwrap_or_default();
        let answer = format!("{verdict} {}{retry}", self.status.as_u16());
        [self.scene.caller.name.into(), self.scene.names.into(), answer, self.scene.title.into(), self.rule.clone()]
    }
}

/// Compares the answers of [`NEUTRAL`] scenes.
pub(super) fn compare_neutral_answers(lines: &mut [Line]) {
    let is_neutral = |line: &&mut Line| NEUTRAL.contains(&line.scene.slug);
    let mut bodies = lines.iter().filter(|line| NEUTRAL.contains(&line.scene.slug)).map(|line| &line.body);
    let Some(first) = bodies.next() else { return };
    let are_equal = bodies.all(|body| body == first);
    for line in lines.iter_mut().filter(is_neutral) {
        line.is_neutral = are_equal;
    }
}

/// The rule that decided: of a refusal from the audit record, of an accepted event from `policy::explain`.
pub(super) fn rule(record: &Value, scene: &Scene, world: &World) -> String {
    let text = |key: &str| record.get(key).and_then(Value::as_str).map(str::to_owned);
    if text("decision").as_deref() == Some("allow") {
        return allowing_rule(scene, world).or_else(|| text("rule")).unwrap_or_default();
    }
    let detail = record.get("refusal_detail").and_then(Value::as_str);
    let refusal = text("refusal").map(|word| match detail {
        Some(detail) => format!("{word}: {detail}"),
        None => word,
    });
    text("rule").or(refusal).unwrap_or_default()
}

fn allowing_rule(scene: &Scene, world: &World) -> Option<String> {
    let rules = Rules::new(&crate::config::Event::default(), EventTime::AssumeUtc, false);
    let event = event::parse(Bytes::from(scene.body.clone()), &rules).ok()?;
    let groups: Vec<_> = scene.caller.groups.iter().map(|&group| group.into()).collect();
    let who = Identity { subject: scene.caller.name, groups: &groups };
    let explained = policy::explain(world, &who, &ActiveRoles::All, &event, FacetReferences::Governed);
    let decides = |role| matches!(role, Role::Input | Role::Output);
    let by_dataset = explained.iter().find(|one| decides(one.role));
    by_dataset.or_else(|| explained.first()).map(|one| one.why.to_string())
}

pub(super) fn print(lines: &[Line]) -> io::Result<()> {
    let head = ["caller", "the event names", "answer", "what it shows", "the rule that decided"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(lines.iter().map(Line::cells)).collect();
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = io::stdout().lock();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    out.flush()
}
