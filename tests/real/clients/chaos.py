"""chaos.py GATE [EVENTS [SEED]]: the real OpenLineage client for Python, the gate, and a backend that fails at random.

What must hold: every event that its client believes delivered is at the backend, none is there twice, and the audit
tells what became of each event that its client gave up.
"""

import collections
import json
import pathlib
import random
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import credentials
import harness
import senders
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState

CALLERS = [f"team-{number}" for number in range(8)]
CLIENTS = 64

POLICY = {
    "namespaces": [
        {"name": "shop", "callers": {"users": CALLERS}, "jobs": [{"namespace": "shop", "names": ["*"]}], "effect": "allow"}
    ]
}

# Of 1000 requests so many meet this fate; the rest is stored and answered 201.
FATES = {
    "429": 30,
    "500": 40,
    "reset before the body": 20,
    "reset during the body": 20,
    "reset after the body": 20,
    "garbage": 4,
    "stall": 4,
    "stored late": 20,
}


class Backend(socketserver.ThreadingTCPServer):
    """Stores an event before its answer, or does not store it: an event whose answer is lost was not stored."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, seed):
        super().__init__(("127.0.0.1", 0), Connection)
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.stored = collections.Counter()
        self.fates = collections.Counter()
        self.over = threading.Event()

    def fate(self):
        with self.lock:
            at = self.random.randrange(1000)
            chosen = "stored"
            for fate, share in FATES.items():
                if at < share:
                    chosen = fate
                    break
                at -= share
            self.fates[chosen] += 1
            # Longer than the answer's budget, shorter than the exchange's timeout.
            return chosen, self.random.uniform(3.6, 12)

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Connection(socketserver.StreamRequestHandler):
    def handle(self):
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while self.one():
            pass

    def one(self):
        """One request; false: the connection ends."""
        line = self.rfile.readline()
        if not line:
            return False
        length = 0
        while (header := self.rfile.readline()) not in (b"\r\n", b""):
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if line.startswith(b"GET"):
            return self.answer("200 OK")
        fate, pause = self.server.fate()
        if fate == "reset before the body":
            return self.reset()
        if fate == "reset during the body":
            self.rfile.read(length // 2)
            return self.reset()
        body = self.rfile.read(length)
        if len(body) < length:
            return False
        if fate == "reset after the body":
            return self.reset()
        if fate == "stall":
            self.server.over.wait()
            return False
        if fate == "garbage":
            self.wfile.write(b"\x16\x03 this is no HTTP\r\n\r\n")
            return False
        if fate == "429":
            return self.answer("429 Too Many Requests")
        if fate == "500":
            return self.answer("500 Internal Server Error")
        if fate == "stored late":
            time.sleep(pause)
        with self.server.lock:
            self.server.stored[json.loads(body)["run"]["runId"]] += 1
        return self.answer("201 Created")

    def answer(self, status):
        self.wfile.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        return True

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        return False


def main(gate, events="1000", seed="1"):
    events, seed = int(events), int(seed)
    backend = Backend(seed)
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        port, health = harness.free_port(), harness.free_port()
        harness.write_files(directory, port, health)
        configure(directory, backend.server_address[1])
        with open(directory / "log", "wb") as log:
            process = subprocess.Popen([gate, "run", "--config", str(directory / "gate.yaml")], stderr=log)
        try:
            harness.wait_until_ready(process, health)
            began = time.monotonic()
            beliefs = send(directory, f"https://localhost:{port}", events)
            took = time.monotonic() - began
            process.send_signal(signal.SIGTERM)
            harness.expect(process.wait(60) == 0, f"the gate ended with {process.returncode}")
        finally:
            process.kill()
            backend.over.set()
        outcomes = read_audit(directory)
    judge(backend, beliefs, outcomes)
    report(backend, beliefs, outcomes, took)


def configure(directory, port):
    path = directory / "gate.yaml"
    configuration = json.loads(path.read_text())
    configuration["upstreams"] = [{"name": "store", "kind": "openlineage", "url": f"http://127.0.0.1:{port}"}]
    configuration["limits"] = []
    configuration["audit"] = {"output": "audit.jsonl"}
    # Exchanges that stall end by their timeout.
    configuration["drain"] = {"grace": "0s", "deadline": "40s"}
    path.write_text(json.dumps(configuration))
    (directory / "policy.yaml").write_text(json.dumps(POLICY))


def send(directory, url, events):
    """Sends all events, and gives for each run what its client believes: nothing where it was delivered, or why not."""
    beliefs, lock, left = {}, threading.Lock(), iter(range(events))
    authority = str(directory / "ca.crt")

    def work(caller):
        client = senders.python_client(url, authority, caller)
        while True:
            with lock:
                if next(left, None) is None:
                    return
            each = event()
            try:
                client.emit(each)
                belief = None
            except Exception as error:  # Whatever the client raises, it has given up.
                belief = type(error).__name__ + ": " + str(error).partition(" for url")[0][:120]
            with lock:
                beliefs[each.run.runId] = belief

    workers = [threading.Thread(target=work, args=[CALLERS[number % len(CALLERS)]]) for number in range(CLIENTS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return beliefs


def event():
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    run, job = Run(str(uuid.uuid4())), Job("shop", "totals")
    return RunEvent(eventType=RunState.RUNNING, eventTime=when, run=run, job=job, producer="https://example.org/totals")


def read_audit(directory):
    outcomes = collections.defaultdict(list)
    for line in (directory / "audit.jsonl").read_text().splitlines():
        record = json.loads(line)
        if "run_id" in record:
            outcomes[record["run_id"]].append((record.get("outcome", record.get("refusal")), record.get("duplicate")))
    return outcomes


def judge(backend, beliefs, outcomes):
    twice = [run for run, count in backend.stored.items() if count > 1]
    lost = [run for run, belief in beliefs.items() if belief is None and run not in backend.stored]
    harness.expect(not twice, f"no event is stored twice: {[(run, outcomes[run]) for run in twice]}")
    harness.expect(not lost, f"what a client believes delivered is stored: {[(run, outcomes[run]) for run in lost]}")
    for run in beliefs:
        told = any(outcome == "accepted" for outcome, _ in outcomes[run])
        harness.expect(told == (run in backend.stored), f"the audit tells what became of {run}: {outcomes[run]}")


def report(backend, beliefs, outcomes, took):
    delivered = sum(belief is None for belief in beliefs.values())
    print(f"{len(beliefs)} events in {took:.0f} s: {delivered} delivered, each stored once")
    fates = ", ".join(f"{fate} {count}" for fate, count in sorted(backend.fates.items()))
    print(f"fates of {sum(backend.fates.values())} requests at the backend: {fates}")
    sendings = [record for records in outcomes.values() for record in records]
    duplicates = collections.Counter(duplicate for _, duplicate in sendings if duplicate)
    print(f"{len(sendings)} sendings at the gate: {duplicates['joined']} joined, {duplicates['remembered']} remembered")
    given_up = collections.Counter()
    for run, belief in beliefs.items():
        if belief is not None:
            became = "stored" if run in backend.stored else "not stored"
            ends = " ".join(sorted({outcome for outcome, _ in outcomes[run]}))
            given_up[f"{became}; the audit: {ends}; the client: {belief}"] += 1
    print(f"{len(beliefs) - delivered} given up by the client:")
    for what, count in given_up.most_common():
        print(f"{count:6}  {what}")


if __name__ == "__main__":
    main(*sys.argv[1:])
