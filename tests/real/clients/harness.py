"""What the scripts for real clients share: a gate with TLS and tokens, and what stands around it."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import credentials

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


class Gate:
    """A gate that runs as long as its `with` block; accepted events go to a file, unless `changes` say otherwise."""

    def __init__(self, binary, listener=None, files=None, **changes):
        self.binary = binary
        self.listener = listener or {}
        self.files = files or {}
        self.changes = {"audit": {"output": "audit.jsonl"}} | changes
        self.read = 0

    def __enter__(self):
        self.kept = tempfile.TemporaryDirectory()
        self.directory = pathlib.Path(self.kept.name)
        self.authority = str(self.directory / "ca.crt")
        self.port, self.health = free_port(), free_port()
        self.url = f"https://localhost:{self.port}"
        write_files(self.directory, self.port, self.health)
        for name, text in self.files.items():
            (self.directory / name).write_text(text)
        path = self.directory / "gate.yaml"
        configuration = json.loads(path.read_text()) | self.changes
        configuration["listeners"][0] |= self.listener
        path.write_text(json.dumps(configuration))
        self.log = open(self.directory / "log", "wb")
        self.process = subprocess.Popen([self.binary, "run", "--config", str(path)], stderr=self.log)
        try:
            wait_until_ready(self.process, self.health)
        except BaseException:
            self.clean()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.end()
                expect(not (more := self.answers(0)), f"no further requests: {more}")
        finally:
            self.clean()

    def end(self):
        """Asks it to end, and waits until it has."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        expect(code == 0, f"the gate ends well, not with {code}: {(self.directory / 'log').read_text()[-500:]}")

    def clean(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        self.kept.cleanup()

    def answers(self, count):
        """The statuses of the requests since the last call, `count` at least."""
        for _ in range(100):
            records = self.records()
            if len(records) >= self.read + count:
                break
            time.sleep(0.05)
        new, self.read = records[self.read :], len(records)
        return [record.get("status") for record in new]

    def records(self):
        path = self.directory / "audit.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def is_ready(self):
        return answers_readiness(self.health)

    def stored(self):
        return stored_runs(self.directory)


class Forwarder(socketserver.ThreadingTCPServer):
    """Takes connections, counts them, and passes each on to the port that is the target at that time, as a load balancer
    before two gates does."""

    daemon_threads = True

    def __init__(self, target):
        super().__init__(("127.0.0.1", 0), Passage)
        self.target = target
        self.connections = 0
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def verify_request(self, request, client_address):
        self.connections += 1
        return True


class Passage(socketserver.BaseRequestHandler):
    def handle(self):
        with socket.create_connection(("127.0.0.1", self.server.target)) as onward:
            back = threading.Thread(target=pump, args=[onward, self.request])
            back.start()
            pump(self.request, onward)
            back.join()


def pump(source, sink):
    with contextlib.suppress(OSError):
        while octets := source.recv(65536):
            sink.sendall(octets)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


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


def token(caller):
    return credentials.token(ISSUER, AUDIENCE, caller)


def stored_runs(directory):
    path = directory / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["run"]["runId"] for line in lines]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(process, health):
    for _ in range(100):
        expect(process.poll() is None, f"the gate ended with {process.returncode} before it was ready")
        if answers_readiness(health):
            return
        time.sleep(0.1)
    sys.exit("the gate is not ready after 10 s")


def answers_readiness(health):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=1):
            return True
    except OSError:
        return False


def expect(truth, what):
    if not truth:
        sys.exit(f"expected: {what}")
