"""answers.py GATE: what each real client does on each answer of the gate, as two tables in Markdown.

Each row is one event, by a new client and a gate of its own, whose backend is a double that is told what to answer.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import http.server
import os
import pathlib
import sys
import tempfile
import threading

import credentials
import senders
from harness import Gate, expect, token

PATH = "/api/v1/lineage"
CLIENTS = ("Python http", "Python async_http", "Java")
RESET, SILENCE = "reset", "silence"
LARGE = 300_000


@dataclasses.dataclass
class Case:
    """One answer of the gate, and how it comes about."""

    status: int
    name: str
    # What the backend answers, in this order; the last again and again.
    backend: tuple = (201,)
    changes: dict = dataclasses.field(default_factory=dict)
    upstream: dict = dataclasses.field(default_factory=dict)
    namespace: str = "shop"
    prefix: str = ""
    header: tuple = ()
    padding: int = 0
    token: str = ""


CASES = [
    Case(201, "201"),
    Case(400, "400, the backend rejects the event", backend=(400,)),
    Case(401, "401, no valid token", token="not-a-token"),
    Case(403, "403, not visible", namespace="payroll"),
    Case(404, "404, another path", prefix="/other"),
    Case(413, "413, over `event.max_body`", changes={"event": {"max_body": "64KiB"}}, padding=LARGE),
    Case(415, "415, `Content-Encoding: zstd`", header=("Content-Encoding", "zstd")),
    Case(422, "422, the backend rejects the event", backend=(422,)),
    Case(429, "429 with `Retry-After: 1`, once", backend=(429, 201)),
    Case(429, "429 with `Retry-After: 1`, always", backend=(429,)),
    Case(501, "501, the backend refuses the gate's credential", backend=(401,)),
    Case(503, "503 with `Retry-After: 1`, once", backend=(500, 201)),
    Case(503, "503 with `Retry-After: 1`, always", backend=(500,)),
    Case(503, "503 with `Retry-After: 1`, the backend is silent", backend=(SILENCE,)),
    Case(504, "504, nobody knows (`deduplicate: 0s`)", backend=(RESET,), upstream={"deduplicate": "0s"}),
]


class Backend(http.server.ThreadingHTTPServer):
    """Answers as it is told."""

    daemon_threads = True

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), Answer)
        self.answers = collections.deque(answers)
        self.events = 0
        self.over = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def next(self):
        self.events += 1
        return self.answers.popleft() if len(self.answers) > 1 else self.answers[0]

    def end(self):
        self.over.set()
        self.shutdown()
        self.server_close()


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(200)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.next()
        if answer == SILENCE:
            self.server.over.wait(60)
        if answer in (SILENCE, RESET):
            self.close_connection = True
        else:
            self.answer(answer)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@dataclasses.dataclass
class Seen:
    requests: int
    sent: senders.Sent

    def figures(self):
        end = "delivered" if self.sent.delivered else "given up"
        return f"{self.requests}×, {self.sent.seconds:.1f} s, {end}"

    def text(self):
        return f"`{self.sent.shown}`" if self.sent.shown else ""


def main(binary):
    with tempfile.TemporaryDirectory() as name:
        authority = pathlib.Path(name) / "ca.crt"
        authority.write_bytes(credentials.CONTENTS["ca_file"]())
        os.environ["SSL_CERT_FILE"] = os.environ["REQUESTS_CA_BUNDLE"] = str(authority)
        with senders.Java(*senders.trust_store(pathlib.Path(name), authority)) as java:
            # Its first event takes longer.
            measure(binary, java, CASES[0], "Java")
            with concurrent.futures.ThreadPoolExecutor(len(CLIENTS)) as pool:
                rows = [list(pool.map(lambda client: measure(binary, java, case, client), CLIENTS)) for case in CASES]
    print_table(rows, Seen.figures)
    print()
    print_table(rows, Seen.text)


def measure(binary, java, case, client):
    backend = Backend(case.backend)
    upstream = {"name": "store", "kind": "openlineage", "url": f"http://127.0.0.1:{backend.server_address[1]}"}
    changes = case.changes | {"upstreams": [upstream | case.upstream]}
    try:
        with Gate(binary, **changes) as gate:
            sent = send(gate, java, case, client)
            # Records of requests that were answered before their event's end are written at that end.
            backend.over.set()
            gate.end()
            statuses = gate.answers(1)
    finally:
        backend.end()
    if SILENCE in case.backend:
        expect(backend.events == 1, f"{client}: one event at the silent backend, not {backend.events}")
    # Where the backend recovers, so does the gate.
    expected = [case.status, 201] if len(case.backend) > 1 else [case.status]
    expect(set(statuses) <= set(expected), f"{client}, {case.name}: {expected}, not {statuses}")
    shown = sent.shown.replace(sent.run, "RUN").replace(gate.url, "GATE").replace(str(gate.port), "PORT")
    return Seen(len(statuses), dataclasses.replace(sent, shown=shown))


def send(gate, java, case, client):
    credential = case.token or token("alice")
    if client == "Java":
        java.client(gate.url + case.prefix + PATH, credential, header="=".join(case.header))
        return java.send(case.namespace, case.padding)
    kind = client.removeprefix("Python ")
    headers = {"custom_headers": dict([case.header])} if case.header else {}
    with contextlib.closing(senders.Python(gate.url + case.prefix + "/", credential, kind, **headers)) as sender:
        return sender.send(case.namespace, case.padding)


def print_table(rows, cell):
    print("| answer | " + " | ".join(CLIENTS) + " |")
    print("|---" * (len(CLIENTS) + 1) + "|")
    for case, seen in zip(CASES, rows):
        print(f"| {case.name} | " + " | ".join(cell(each) for each in seen) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
