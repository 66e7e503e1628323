"""java.py GATE: the real OpenLineage client for Java against the gate, over TLS with a private authority in a PKCS12 store.

What the client does on each answer is in README.md.
"""

import pathlib
import signal
import sys
import tempfile
import time

import credentials
import senders
from harness import Forwarder, Gate, expect, token

PATH = "/api/v1/lineage"
PREFIX = "/team"


def main(gate):
    with tempfile.TemporaryDirectory() as name:
        authority = pathlib.Path(name) / "ca.crt"
        authority.write_bytes(credentials.CONTENTS["ca_file"]())
        with senders.Java(*senders.trust_store(pathlib.Path(name), authority)) as java:
            with Gate(gate) as running:
                check_delivered(running, java)
                check_refused(running, java)
                check_two_credentials(running, java)
                check_over_the_limit(running, java)
                check_kept_connection(running, java)
            check_paths(gate, java)
            check_restart(gate, java)


def check_delivered(gate, java):
    runs = []
    for gzip in False, True:
        java.client(gate.url + PATH, token("alice"), gzip=gzip)
        # Large enough for several chunks.
        sent = java.send(padding=100_000)
        runs.append(sent.run)
        expect(sent.delivered, f"the client believes it delivered: {sent.shown}")
        expect(gate.answers(1) == [201], "201 for an allowed event")
        expect(gate.stored() == runs, "the event is stored when the client is told so")
    sizes = gate.records()[-1]["bytes"]
    expect(sizes["received"] < sizes["decoded"] / 10, f"the last body came by gzip: {sizes}")
    print("delivered, plain and by gzip in chunks: 201, and the event is stored")


def check_refused(gate, java):
    java.client(gate.url + PATH, token("alice"))
    sent = java.send("payroll")
    expect(not sent.delivered and gate.answers(1) == [403], "403 once for a refused event")
    expect('{"code":403,"message":"' in sent.shown and sent.shown.endswith("}"), f"the client shows the body: {sent.shown}")
    print(f"refused, and the client shows: {sent.shown}")


def check_two_credentials(gate, java):
    """A user who sets the header beside the configured token: the client sends both."""
    java.client(gate.url + PATH, token("alice"), header="Authorization=Bearer " + token("busy"))
    sent = java.send()
    expect(not sent.delivered and gate.answers(1) == [401], "401 for two Authorization headers")
    expect("more than one" in sent.shown.lower(), f"the client shows that there are two: {sent.shown}")
    print(f"two Authorization headers: 401, and the client shows: {sent.shown}")


def check_over_the_limit(gate, java):
    before = len(gate.stored())
    java.client(gate.url + PATH, token("busy"))
    first, second = java.send(), java.send()
    expect(gate.answers(3) == [201, 429, 201], "201, then 429 and 201")
    expect(first.delivered and second.delivered, f"both are delivered: {second.shown}")
    expect(0.9 <= second.seconds < 4, f"one second of waiting, not {second.seconds:.1f} s")
    expect(gate.stored()[before:] == [first.run, second.run], "each event is stored once")
    print(f"over the limit: 429, and delivered by the retry after {second.seconds:.1f} s")


def check_kept_connection(gate, java):
    """The client keeps a connection for 5 s and then opens another: the gate never closes one that it might still use."""
    forwarder = Forwarder(gate.port)
    java.client(f"https://localhost:{forwarder.port}{PATH}", token("alice"))
    for pause, connections in (0, 1), (4, 1), (6, 2):
        time.sleep(pause)
        sent = java.send()
        expect(sent.delivered, f"delivered {pause} s after the event before: {sent.shown}")
        expect(forwarder.connections == connections, f"{connections} connections, not {forwarder.connections}")
    expect(gate.answers(3) == [201] * 3, "201 for each")
    forwarder.shutdown()
    print("events after pauses of 4 s and 6 s: delivered, by a kept and by a new connection")


def check_paths(binary, java):
    """The client takes a URL with a path as it is, a bare slash included."""
    with Gate(binary, {"path_prefix": PREFIX}) as gate:
        for path, status in ("", 201), ("/", 201), (PREFIX, 201), (PREFIX + "/", 201), (PREFIX + PATH, 201), ("/other", 404):
            java.client(gate.url + path, token("alice"))
            sent = java.send()
            expect(gate.answers(1) == [status], f"{status} for the URL path {path}")
            expect(sent.delivered == (status == 201), f"the client says so: {sent.shown}")
    print("URLs with a path: none, /, and the listener's prefix work; another is not found")


def check_restart(binary, java):
    """A gate ends while another takes over behind the same port. Its answers say `Connection: close` from the signal on, so
    the client never sends an event on a connection that is about to go."""
    with Gate(binary) as new, Gate(binary, drain={"grace": "3s"}) as old:
        forwarder = Forwarder(old.port)
        java.client(f"https://localhost:{forwarder.port}{PATH}", token("alice"))
        sent = [java.send() for _ in range(20)]
        expect(forwarder.connections == 1, f"one connection until the signal, not {forwarder.connections}")
        old.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            if not old.is_ready():
                forwarder.target = new.port
            sent.append(java.send())
            time.sleep(0.01)
        lost = [each.shown for each in sent if not each.delivered]
        expect(not lost, f"no event is lost: {len(lost)} of {len(sent)}, {lost[:1]}")
        expect(old.process.poll() == 0, "the old gate has ended")
        expect(old.stored() + new.stored() == [each.run for each in sent], "each event is stored once, by one or the other")
        before, after = len(old.stored()), len(new.stored())
        # Were connections kept, the old gate would go on to get them all until its grace is over: about 200.
        expect(20 <= before < 60 and after > 0, f"the client changes to the new gate at once: {before} and {after} events")
        expect(old.answers(before) == [201] * before and new.answers(after) == [201] * after, "201 for each")
        forwarder.shutdown()
    print(f"a restart behind one port: none of {len(sent)} events lost, {before} by the old gate and {after} by the new one")


if __name__ == "__main__":
    main(*sys.argv[1:])
