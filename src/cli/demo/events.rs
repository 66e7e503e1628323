//! Events such as Spark, dbt and Airflow really send, cut to what the demonstration needs.

use serde_json::{Map, Value, json};

const SPARK: &str = "https://github.com/OpenLineage/OpenLineage/tree/1.53.0/integration/spark";
const DBT: &str = "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/integration/dbt";
const AIRFLOW: &str = "https://github.com/apache/airflow/tree/providers-openlineage/2.20.3";
const RUN_EVENT: &str = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent";

/// A dataset of an event, with the facets that its producer adds.
pub(super) struct Dataset {
    namespace: String,
    name: String,
    facets: Map<String, Value>,
}

impl Dataset {
    /// A dataset without facets: a table for Gravitino.
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), facets: Map::new() }
    }

    /// Adds the `datasetType` facet.
    pub(super) fn typed(self, dataset_type: &str) -> Self {
        let facet = json!({ "datasetType": dataset_type, "subType": "" });
        self.facet("datasetType", "1-0-0/DatasetTypeDatasetFacet", facet)
    }

    /// Adds a `columnLineage` facet that says where one column comes from.
    pub(super) fn column_from(self, column: &str, namespace: &str, name: &str, field: &str) -> Self {
        let input = json!({ "namespace": namespace, "name": name, "field": field, "transformations": [] });
        let facet = json!({ "fields": { column: { "inputFields": [input] } } });
        self.facet("columnLineage", "1-2-0/ColumnLineageDatasetFacet", facet)
    }

    /// Adds the `schema` facet.
    pub(super) fn columns(self, columns: &[(&str, &str)]) -> Self {
        let fields: Vec<Value> = columns.iter().map(|(name, kind)| json!({ "name": name, "type": kind })).collect();
        self.facet("schema", "1-2-0/SchemaDatasetFacet", json!({ "fields": fields }))
    }

    fn facet(mut self, key: &str, schema: &str, mut facet: Value) -> Self {
        let (version, name) = schema.split_once('/').unwrap_or(("1-0-0", schema));
        if let Some(members) = facet.as_object_mut() {
            members.insert("_producer".into(), SPARK.into());
            let url = format!("https://openlineage.io/spec/facets/{version}/{name}.json#/$defs/{name}");
            members.insert("_schemaURL".into(), url.into());
        }
        self.facets.insert(key.to_owned(), facet);
        self
    }

    fn json(self) -> Value {
        json!({ "namespace": self.namespace, "name": self.name, "facets": self.facets })
    }
}

/// The end of a Spark SQL command, as the agent in the driver reports it.
pub(super) fn spark(namespace: &str, job: &str, inputs: Vec<Dataset>, outputs: Vec<Dataset>) -> Value {
    let facets = json!({
        "processing_engine": {
            "_producer": SPARK,
            "_schemaURL": facet_schema("1-1-1", "ProcessingEngineRunFacet"),
            "name": "spark", "version": "3.5.8", "openlineageAdapterVersion": "1.53.0",
        },
        "spark_properties": {
            "_producer": SPARK,
            "_schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunFacet",
            "properties": { "spark.master": "k8s://https://kubernetes.default", "spark.app.name": job },
        },
    });
    run_event("COMPLETE", SPARK, facets, namespace, job, job_type(SPARK, "SPARK", "SQL_JOB"), inputs, outputs)
}

/// The end of a dbt model.
pub(super) fn dbt(namespace: &str, model: &str, inputs: Vec<Dataset>, outputs: Vec<Dataset>) -> Value {
    let facets = json!({
        "dbt_version": {
            "_producer": DBT,
            "_schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunFacet",
            "version": "1.10.23",
        },
        "parent": parent(DBT, namespace, "dbt-run-shop"),
    });
    run_event("COMPLETE", DBT, facets, namespace, model, job_type(DBT, "DBT", "MODEL"), inputs, outputs)
}

/// The start of an Airflow task.
pub(super) fn airflow(namespace: &str, task: &str, inputs: Vec<Dataset>, outputs: Vec<Dataset>) -> Value {
    let dag = task.split('.').next().unwrap_or(task);
    let facets = json!({
        "parent": parent(AIRFLOW, namespace, dag),
        "nominalTime": {
            "_producer": AIRFLOW,
            "_schemaURL": facet_schema("1-0-1", "NominalTimeRunFacet"),
            "nominalStartTime": "2026-11-29T00:00:00+00:00",
        },
    });
    run_event("START", AIRFLOW, facets, namespace, task, job_type(AIRFLOW, "AIRFLOW", "TASK"), inputs, outputs)
}

#[expect(clippy::too_many_arguments, reason = "the members of an event, in their order in the specification")]
fn run_event(
    event_type: &str,
    producer: &str,
    run_facets: Value,
    namespace: &str,
    job: &str,
    job_facets: Value,
    inputs: Vec<Dataset>,
    outputs: Vec<Dataset>,
) -> Value {
    json!({
        "eventTime": jiff::Timestamp::now().to_string(),
        "eventType": event_type,
        "producer": producer,
        "schemaURL": RUN_EVENT,
        "run": { "runId": uuid::Uuid::now_v7().to_string(), "facets": run_facets },
        "job": { "namespace": namespace, "name": job, "facets": job_facets },
        "inputs": inputs.into_iter().map(Dataset::json).collect::<Vec<_>>(),
        "outputs": outputs.into_iter().map(Dataset::json).collect::<Vec<_>>(),
    })
}

fn job_type(producer: &str, integration: &str, job_type: &str) -> Value {
    json!({ "jobType": {
        "_producer": producer,
        "_schemaURL": facet_schema("2-0-4", "JobTypeJobFacet"),
        "processingType": "BATCH", "integration": integration, "jobType": job_type,
    } })
}

fn parent(producer: &str, namespace: &str, job: &str) -> Value {
    json!({
        "_producer": producer,
        "_schemaURL": facet_schema("1-2-0", "ParentRunFacet"),
        "run": { "runId": uuid::Uuid::now_v7().to_string() },
        "job": { "namespace": namespace, "name": job },
    })
}

fn facet_schema(version: &str, name: &str) -> String {
    format!("https://openlineage.io/spec/facets/{version}/{name}.json#/$defs/{name}")
}
