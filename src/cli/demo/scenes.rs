//! What the demonstration shows: each scene is a caller, an event, and the answer that it must get.

use http::StatusCode;

use super::events::{Dataset, airflow, dbt, spark};
use super::tokens::{Caller, TokenKind};

const GRAVITINO: &str = "/api/lineage";
const OPENLINEAGE: &str = "/api/v1/lineage";
const WAREHOUSE: &str = "postgres://warehouse:5432";

pub(super) struct Scene {
    pub(super) slug: &'static str,
    pub(super) title: &'static str,
    pub(super) caller: Caller,
    pub(super) path: &'static str,
    /// What the event names, in a few words.
    pub(super) names: &'static str,
    pub(super) body: String,
    pub(super) expected: StatusCode,
    /// Whether the answer must carry `Retry-After`.
    pub(super) resend: bool,
}

/// The scenes, in order. The last one of `erin` is one too many for her limit.
pub(super) fn all() -> Vec<Scene> {
    let mut scenes = metalake_scenes();
    scenes.extend(refused_before_the_policy());
    scenes.extend(namespace_scenes());
    scenes
}

/// Those that are answered by hand as they were in the table. What `erin` may send in a minute is used up by then.
pub(super) fn to_paste() -> Vec<Scene> {
    all().into_iter().filter(|scene| scene.caller.name != "erin" || scene.resend).collect()
}

/// Those that must be told in the same bytes: hidden datasets, missing ones, foreign metalakes, missing ones.
pub(super) const NEUTRAL: [&str; 5] =
    ["missing-grant", "deny-beats-allow", "missing-dataset", "not-a-member", "missing-metalake"];

fn metalake_scenes() -> Vec<Scene> {
    let table = |name: &str| Dataset::new("demo", name);
    let orders = || table("lake.sales.orders").columns(&[("id", "long"), ("customer", "string"), ("amount", "double")]);
    vec![
        Scene::of("accepted", "reads and writes tables of a schema that it may read", "alice")
            .naming("lake.sales.orders → lake.sales.daily")
            .sending(&spark("demo", "daily_orders.insert", vec![orders()], vec![table("lake.sales.daily")])),
        Scene::of("group", "the same right, held by a group of the token", "bob")
            .with_groups(&["analysts"])
            .naming("lake.sales.orders")
            .sending(&spark("demo", "adhoc.collect", vec![orders()], vec![])),
        Scene::of("missing-grant", "no grant on the schema", "alice")
            .naming("lake.hr.people")
            .sending(&spark("demo", "hr_export.collect", vec![table("lake.hr.people")], vec![]))
            .refused(StatusCode::FORBIDDEN),
        Scene::of("missing-dataset", "a table that is not there: the very same answer", "alice")
            .naming("lake.nowhere.nothing")
            .sending(&spark("demo", "hr_export.collect", vec![table("lake.nowhere.nothing")], vec![]))
            .refused(StatusCode::FORBIDDEN),
        Scene::of("deny-beats-allow", "a DENY on the table beats the ALLOW on its schema", "carol")
            .naming("lake.sales.salaries")
            .sending(&dbt("demo", "payroll.salaries", vec![table("lake.sales.salaries")], vec![]))
            .refused(StatusCode::FORBIDDEN),
        Scene::of("owner", "the table's owner sees it in spite of that DENY", "dave")
            .naming("lake.sales.salaries")
            .sending(&dbt("demo", "payroll.salaries", vec![table("lake.sales.salaries")], vec![])),
        Scene::of("facet", "a facet tells of a table that the inputs leave out", "alice")
            .naming("lake.sales.daily ← lake.hr.people (columnLineage)")
            .sending(&spark(
                "demo",
                "daily_orders.insert",
                vec![orders()],
                vec![table("lake.sales.daily").column_from("name", "demo", "lake.hr.people", "name")],
            ))
            .refused(StatusCode::FORBIDDEN),
        Scene::of("no-datasets", "a job without datasets asks for membership only", "bob")
            .naming("job daily_orders.extract")
            .sending(&airflow("demo", "daily_orders.extract", vec![], vec![])),
        Scene::of("not-a-member", "no user row in the metalake", "mallory")
            .naming("lake.sales.orders")
            .sending(&spark("demo", "adhoc.collect", vec![orders()], vec![]))
            .refused(StatusCode::FORBIDDEN),
        Scene::of("unsupported-type", "a dataset type that Gravitino does not know", "alice")
            .naming("lake.sales.orders as STREAM")
            .sending(&spark("demo", "daily_orders.insert", vec![orders().typed("STREAM")], vec![]))
            .refused(StatusCode::BAD_REQUEST),
    ]
}

fn refused_before_the_policy() -> Vec<Scene> {
    let whole = airflow("demo", "daily_orders.extract", vec![], vec![]).to_string();
    let half: String = whole.chars().take(whole.len() / 2).collect();
    let training = |model: &str| {
        let clicks = Dataset::new("demo", "bus.web.clicks").typed("TOPIC");
        let model = Dataset::new("demo", model).typed("MODEL");
        spark("demo", "train.fit", vec![clicks], vec![model])
    };
    vec![
        Scene::of("malformed", "half an event", "alice")
            .naming("(cut JSON)")
            .sending_text(half)
            .refused(StatusCode::BAD_REQUEST),
        Scene::of("expired", "a token of yesterday", "alice")
            .with_token(TokenKind::Expired)
            .naming("job daily_orders.extract")
            .sending_text(whole.clone())
            .refused(StatusCode::UNAUTHORIZED),
        Scene::of("audience", "a token for another service", "alice")
            .with_token(TokenKind::OtherAudience)
            .naming("job daily_orders.extract")
            .sending_text(whole)
            .refused(StatusCode::UNAUTHORIZED),
        Scene::of("topic-to-model", "a topic and a model", "erin")
            .naming("bus.web.clicks → models.ml.ranker")
            .sending(&training("models.ml.ranker")),
        Scene::of("second", "her second event", "erin")
            .naming("bus.web.clicks → models.ml.scorer")
            .sending(&training("models.ml.scorer")),
        Scene::of("over-limit", "her third: over the limit of 2", "erin")
            .naming("bus.web.clicks → models.ml.ranker")
            .sending(&training("models.ml.ranker"))
            .refused(StatusCode::TOO_MANY_REQUESTS)
            .with_retry_after(),
    ]
}

fn namespace_scenes() -> Vec<Scene> {
    let table = |name: &str| Dataset::new(WAREHOUSE, name);
    let task =
        |input: &str| airflow("orders-prod", "daily_orders.load", vec![table(input)], vec![table("shop.orders.daily")]);
    vec![
        Scene::of("namespace-rule", "outside any metalake: a namespace rule allows", "airflow")
            .at(OPENLINEAGE)
            .naming("shop.public.orders → shop.orders.daily")
            .sending(&task("shop.public.orders")),
        Scene::of("namespace-deny", "a namespace rule denies", "airflow")
            .at(OPENLINEAGE)
            .naming("shop.public.card_numbers → shop.orders.daily")
            .sending(&task("shop.public.card_numbers"))
            .refused(StatusCode::FORBIDDEN),
        Scene::of("missing-metalake", "a namespace that nothing knows: the neutral answer again", "alice")
            .naming("lake.sales.orders of metalake nowhere")
            .sending(&spark("nowhere", "adhoc.collect", vec![Dataset::new("nowhere", "lake.sales.orders")], vec![]))
            .refused(StatusCode::FORBIDDEN),
    ]
}

impl Scene {
    fn of(slug: &'static str, title: &'static str, caller: &'static str) -> Self {
        Self {
            slug,
            title,
            caller: Caller { name: caller, groups: &[], token: TokenKind::Good },
            path: GRAVITINO,
            names: "",
            body: String::new(),
            expected: StatusCode::CREATED,
            resend: false,
        }
    }

    fn at(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    fn with_groups(mut self, groups: &'static [&'static str]) -> Self {
        self.caller.groups = groups;
        self
    }

    fn with_token(mut self, token: TokenKind) -> Self {
        self.caller.token = token;
        self
    }

    fn naming(self, names: &'static str) -> Self {
        Self { names, ..self }
    }

    fn sending(self, event: &serde_json::Value) -> Self {
        self.sending_text(event.to_string())
    }

    fn sending_text(self, body: String) -> Self {
        Self { body, ..self }
    }

    fn refused(self, expected: StatusCode) -> Self {
        Self { expected, ..self }
    }

    fn with_retry_after(self) -> Self {
        Self { resend: true, ..self }
    }
}
