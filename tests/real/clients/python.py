"""python.py GATE: the real OpenLineage client for Python against the gate, over TLS with a private authority.

What the client does on each answer is in README.md.
"""

import contextlib
import os
import sys

import senders
from harness import Gate, expect, token

# The async client finds a private authority only by SSL_CERT_FILE, the other one only by REQUESTS_CA_BUNDLE or `verify`.
AUTHORITY_BY = {"http": "REQUESTS_CA_BUNDLE", "async_http": "SSL_CERT_FILE"}


def main(gate):
    for kind in AUTHORITY_BY:
        with Gate(gate) as running:
            check_delivered(running, kind)
            check_refused(running, kind)
            check_over_the_limit(running, kind)
            check_paths(running, kind)


def check_delivered(gate, kind):
    runs = []
    for options in {}, {"compression": "gzip"}:
        with client(gate, kind, "alice", **options) as sender:
            sent = sender.send()
        runs.append(sent.run)
        expect(sent.delivered, f"the client believes it delivered: {sent.shown}")
        expect(gate.answers(1) == [201], "201 for an allowed event")
        expect(gate.stored() == runs, "the event is in the file when the client is told so")
    if kind == "http":
        with contextlib.closing(senders.Python(gate.url, token("alice"), verify=gate.authority)) as sender:
            expect(sender.send().delivered, "delivered with the authority in `verify`")
        expect(gate.answers(1) == [201], "201 for an allowed event")
    print(f"{kind}: delivered, plain and by gzip: 201, and the event is stored")


def check_refused(gate, kind):
    with client(gate, kind, "alice") as sender:
        sent = sender.send("payroll")
    expect(not sent.delivered, "a job of another namespace is refused")
    expect(gate.answers(1) == [403], "403 once for a refused event")
    # The synchronous client shows the reason phrase, the asynchronous one the status alone.
    words = {"http": "Forbidden: ", "async_http": "status code: 403"}[kind]
    expect(words in sent.shown, f"the client shows why: {sent.shown}")
    print(f"{kind}: refused, and the client shows: {without_run(sent)}")


def check_over_the_limit(gate, kind):
    before = len(gate.stored())
    with client(gate, kind, "busy") as sender:
        first, second = sender.send(), sender.send()
    expect(first.delivered, "the first event is within the limit")
    if kind == "http":
        expect(gate.answers(3) == [201, 429, 201], "201, then 429 and 201")
        expect(second.delivered and 0.9 <= second.seconds < 4, f"one second of waiting, not {second.seconds:.1f} s")
        expect(gate.stored()[before:] == [first.run, second.run], "each event is stored once")
        print(f"{kind}: over the limit: 429, and delivered by the retry after {second.seconds:.1f} s")
    else:
        # It repeats no 429: the event is lost, and that is logged.
        expect(gate.answers(2) == [201, 429], "201, then 429")
        expect(not second.delivered and "status code: 429" in second.shown, f"the loss is logged: {second.shown}")
        expect(gate.stored()[before:] == [first.run], "the event is not stored")
        print(f"{kind}: over the limit: 429, lost, and the client shows: {without_run(second)}")


def check_paths(gate, kind):
    """What the client makes of URLs with a path: it drops one without a slash at its end, and appends to others."""
    for path in "/", "/api", "/api/v1/lineage/":
        with client(gate, kind, "alice", path=path) as sender:
            sent = sender.send()
        status = 404 if path == "/api/v1/lineage/" else 201
        expect(gate.answers(1) == [status], f"{status} for the URL path {path}")
        expect(sent.delivered == (status == 201), f"the client says so: {sent.shown}")
    print(f"{kind}: URLs with a path: / and /api work, /api/v1/lineage/ is not found")


@contextlib.contextmanager
def client(gate, kind, caller, path="", **options):
    os.environ[AUTHORITY_BY[kind]] = gate.authority
    sender = senders.Python(gate.url + path, token(caller), kind, **options)
    try:
        yield sender
    finally:
        sender.close()
        del os.environ[AUTHORITY_BY[kind]]


def without_run(sent):
    return sent.shown.replace(sent.run, "RUN")


if __name__ == "__main__":
    main(*sys.argv[1:])
