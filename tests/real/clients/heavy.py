"""heavy.py GATE HOME TOOL...: real producers of lineage events, each on a small job, through the gate.

HOME holds an environment for each of them; `heavy` makes it.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import time

import senders
from harness import Gate, expect, token

# The team's jobs are in its namespace; their datasets may have any name, for files and databases lie in a directory of the run.
POLICY = {
    "namespaces": [
        {
            "name": "shop",
            "callers": {"users": ["alice"]},
            "jobs": [{"namespace": "shop", "names": ["*"]}],
            "inputs": [{"namespace": "*", "names": ["*"]}],
            "outputs": [{"namespace": "*", "names": ["*"]}],
            "effect": "allow",
        }
    ]
}

SPARK_JOB = """\
import sys
from pyspark.sql import SparkSession

source, target = sys.argv[1:]
spark = SparkSession.builder.appName("totals").getOrCreate()
orders = spark.read.option("header", True).csv(source)
orders.groupBy("customer").count().write.parquet(target)
spark.stop()
"""

DAG = """\
import pendulum
from airflow import DAG
from airflow.operators.bash import BashOperator

with DAG("totals", start_date=pendulum.datetime(2026, 1, 1), schedule=None) as dag:
    BashOperator(task_id="load", bash_command="true") >> BashOperator(task_id="sum", bash_command="true")
"""

ORDERS = "id,customer,amount\n1,ann,10\n2,ben,20\n3,ann,30\n"


def main(gate, home, *tools):
    for tool in tools:
        with Gate(gate, policy={"files": "teams.json"}, files={"teams.json": json.dumps(POLICY)}) as running:
            work = running.directory / "work"
            work.mkdir()
            began = time.monotonic()
            TOOLS[tool](running, pathlib.Path(home), work)
            took = time.monotonic() - began
            running.end()
            statuses = collections.Counter(running.answers(1))
            stored = [json.loads(line) for line in (running.directory / "events.jsonl").read_text().splitlines()]
        expect(set(statuses) == {201} and len(stored) == statuses[201], f"each is stored, not {statuses} and {len(stored)}")
        kinds = collections.Counter(event.get("eventType", "none") for event in stored)
        sizes = [len(json.dumps(event)) for event in stored]
        print(f"{tool}: {took:.0f} s, {statuses.total()} events sent, {len(stored)} stored; {dict(kinds)}; {min(sizes)} to {max(sizes)} bytes")


def run_spark(gate, home, work):
    (work / "orders.csv").write_text(ORDERS)
    (work / "job.py").write_text(SPARK_JOB)
    options = {
        "spark.jars": next(map(str, (home / "agent").glob("*.jar"))),
        "spark.ui.enabled": "false",
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.driver.extraJavaOptions": " ".join(senders.trust_store(work, gate.authority)),
        "spark.openlineage.namespace": "shop",
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": gate.url,
        "spark.openlineage.transport.compression": "gzip",
        "spark.openlineage.transport.auth.type": "api_key",
        "spark.openlineage.transport.auth.apiKey": token("alice"),
    }
    command = [home / "spark/bin/spark-submit", "--master", "local[2]"]
    for name, value in options.items():
        command += ["--conf", f"{name}={value}"]
    # Its own Python finds Spark; the script's must not be found before it.
    environment = {"PYSPARK_PYTHON": str(home / "spark/bin/python"), "PATH": f"{home}/spark/bin:{os.environ['PATH']}"}
    run([*command, work / "job.py", work / "orders.csv", work / "totals"], work, environment)


def run_dbt(gate, home, work):
    for file, text in {
        "dbt_project.yml": "name: shop\nversion: '1.0'\nprofile: shop\n",
        "profiles.yml": f"shop: {{target: test, outputs: {{test: {{type: duckdb, path: {work}/shop.duckdb}}}}}}\n",
        "seeds/orders.csv": ORDERS,
        "models/totals.sql": "select customer, sum(amount) as total from {{ ref('orders') }} group by customer\n",
    }.items():
        (work / file).parent.mkdir(exist_ok=True)
        (work / file).write_text(text)
    environment = {
        "PATH": f"{home}/dbt/bin:{os.environ['PATH']}",
        "OPENLINEAGE_URL": gate.url,
        "OPENLINEAGE_API_KEY": token("alice"),
        "OPENLINEAGE_NAMESPACE": "shop",
        "REQUESTS_CA_BUNDLE": gate.authority,
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }
    for command in "seed", "run":
        run([home / "dbt/bin/dbt-ol", command, "--project-dir", work, "--profiles-dir", work], work, environment)


def run_airflow(gate, home, work):
    (work / "dags").mkdir()
    (work / "dags/totals.py").write_text(DAG)
    transport = {"type": "http", "url": gate.url, "verify": gate.authority}
    environment = {
        "PATH": f"{home}/airflow/bin:{os.environ['PATH']}",
        "AIRFLOW_HOME": str(work),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "shop",
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport | {"auth": {"type": "api_key", "apiKey": token("alice")}}),
    }
    run([home / "airflow/bin/airflow", "db", "migrate"], work, environment)
    run([home / "airflow/bin/airflow", "dags", "test", "totals", "2026-01-01"], work, environment)


def run(command, work, environment):
    done = subprocess.run(command, cwd=work, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect(done.returncode == 0, f"{command[0]} ends well: {done.stdout[-2000:]}")


TOOLS = {"spark": run_spark, "dbt": run_dbt, "airflow": run_airflow}


if __name__ == "__main__":
    main(*sys.argv[1:])
