"""python.py GATE: the real OpenLineage client for Python against the gate, over TLS with a private authority.

What the client does on each answer is measured in facts: marquez and clients 3.
"""

import json
import logging
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

import credentials
import requests
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState

os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"

ISSUER, AUDIENCE = "https://issuer.test/", "lineage"

POLICY = """\
namespaces:
  - name: shop
    callers: { users: [alice, busy] }
    jobs: [{ namespace: shop, names: ["*"] }]
    inputs: [{ namespace: warehouse, names: ["public.*"] }]
    outputs: [{ namespace: warehouse, names: ["public.*"] }]
    effect: allow
"""


class Statuses(logging.Handler):
    """The status of each answer, as the client's HTTP library logs it."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.seen = []
        log = logging.getLogger("urllib3.connectionpool")
        log.setLevel(logging.DEBUG)
        log.addHandler(self)

    def emit(self, record):
        if '"%s %s %s" %s %s' in record.msg:
            self.seen.append(record.args[-2])


def main(gate):
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        port, health = free_port(), free_port()
        write_files(directory, port, health)
        process = subprocess.Popen([gate, "run", "--config", str(directory / "gate.yaml")])
        try:
            wait_until_ready(process, health)
            check_answers(directory, f"https://localhost:{port}")
            process.send_signal(signal.SIGTERM)
            expect(process.wait(30) == 0, f"the gate ended with {process.returncode}")
        finally:
            process.kill()


def write_files(directory, port, health):
    for file, content in {
        "tls.crt": credentials.CONTENTS["certificate"](),
        "tls.key": credentials.CONTENTS["key"](),
        "ca.crt": credentials.CONTENTS["ca_file"](),
        "issuer.pem": credentials.public_pem(),
        "policy.yaml": POLICY.encode(),
    }.items():
        (directory / file).write_bytes(content)
    configuration = {
        "listeners": [{"address": f"127.0.0.1:{port}", "tls": {"certificate": "tls.crt", "key": "tls.key"}}],
        "auth": {"issuers": [{"issuer": ISSUER, "audiences": [AUDIENCE], "public_key_file": "issuer.pem", "algorithms": ["ES256"]}]},
        "policy": {"files": "policy.yaml"},
        "limits": [{"name": "caller", "per": "caller", "rate": "1000/s", "overrides": {"users": {"busy": {"rate": "1/s", "burst": 1}}}}],
        "upstreams": [{"name": "store", "kind": "file", "path": "events.jsonl"}],
        "health": {"address": f"127.0.0.1:{health}"},
        "drain": {"grace": "0s"},
    }
    # JSON is YAML too.
    (directory / "gate.yaml").write_text(json.dumps(configuration, indent=2))


def check_answers(directory, url):
    statuses = Statuses()
    authority = str(directory / "ca.crt")

    delivered = event("shop")
    client(url, authority, "alice").emit(delivered)
    expect(statuses.seen == [201], f"201 for an allowed event, not {statuses.seen}")
    expect(stored_runs(directory) == [delivered.run.runId], "the event is in the file when the client is told so")
    print("delivered: 201, and the event is stored")

    statuses.seen.clear()
    try:
        client(url, authority, "alice").emit(event("payroll"))
        sys.exit("a job of another namespace was not refused")
    except requests.HTTPError as error:
        shown, reason = str(error), error.response.reason
    expect(statuses.seen == [403], f"403 once for a refused event, not {statuses.seen}")
    expect(reason and reason != "Forbidden" and reason in shown, f"the client shows why: {shown}")
    print(f"refused: the client shows: {shown}")

    statuses.seen.clear()
    busy = client(url, authority, "busy")
    events = [event("shop"), event("shop")]
    began = time.monotonic()
    for each in events:
        busy.emit(each)
    waited = time.monotonic() - began
    expect(statuses.seen == [201, 429, 201], f"201, then 429 and 201, not {statuses.seen}")
    expect(0.9 <= waited < 4, f"one second of waiting, not {waited:.1f} s")
    expect(stored_runs(directory)[1:] == [each.run.runId for each in events], "each event is stored once")
    print(f"over the limit: 429, and delivered by the retry after {waited:.1f} s")


def client(url, authority, caller):
    key = credentials.token(ISSUER, AUDIENCE, caller)
    transport = {"type": "http", "url": url, "verify": authority, "auth": {"type": "api_key", "apiKey": key}}
    return OpenLineageClient(config={"transport": transport})


def event(namespace):
    return RunEvent(
        eventType=RunState.COMPLETE,
        eventTime=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        run=Run(str(uuid.uuid4())),
        job=Job(namespace, "totals"),
        producer="https://example.org/totals",
        inputs=[InputDataset("warehouse", "public.orders")],
        outputs=[OutputDataset("warehouse", "public.totals")],
    )


def stored_runs(directory):
    lines = (directory / "events.jsonl").read_text().splitlines()
    return [json.loads(line)["run"]["runId"] for line in lines]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(process, health):
    for _ in range(100):
        expect(process.poll() is None, f"the gate ended with {process.returncode} before it was ready")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit("the gate is not ready after 10 s")


def expect(truth, what):
    if not truth:
        sys.exit(f"expected: {what}")


if __name__ == "__main__":
    main(*sys.argv[1:])
