"""The real clients behind one form: each sends one event, and tells how long that took and what a person saw of it."""

import dataclasses
import glob
import logging
import pathlib
import subprocess
import time
import uuid

import harness
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated.documentation_job import DocumentationJobFacet

HERE = pathlib.Path(__file__).parent
JARS = HERE.parents[2] / "target/ci/java/lib"
STORE_PASSWORD = "changeit"


@dataclasses.dataclass
class Sent:
    run: str
    seconds: float
    delivered: bool
    # What a person sees of it by the client's usual logs or exceptions.
    shown: str


class Shown(logging.Handler):
    """Keeps what the asynchronous client logs for everybody."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []
        log = logging.getLogger("openlineage.client.transport.async_http")
        log.addHandler(self)
        log.propagate = False

    def emit(self, record):
        self.texts.append(record.getMessage())


SHOWN = Shown()


class Python:
    """openlineage-python. The asynchronous client finds its authority by SSL_CERT_FILE only, which its caller sets."""

    def __init__(self, url, token, kind="http", **options):
        transport = {"type": kind, "url": url} | options
        if token:
            transport["auth"] = {"type": "api_key", "apiKey": token}
        self.kind = kind
        self.client = OpenLineageClient(config={"transport": transport})

    def send(self, namespace="shop", padding=0):
        event = run_event(namespace, padding)
        began = time.monotonic()
        if self.kind == "http":
            delivered, shown = self.emit(event)
        else:
            delivered, shown = self.emit_and_wait(event)
        return Sent(event.run.runId, time.monotonic() - began, delivered, shown)

    def emit(self, event):
        try:
            self.client.emit(event)
        except Exception as error:  # Whatever it raises is what a person sees.
            return False, f"{type(error).__name__}: {error}"
        return True, ""

    def emit_and_wait(self, event):
        SHOWN.texts.clear()
        transport = self.client.transport
        before = transport.get_stats()["success"]
        self.client.emit(event)
        harness.expect(transport.wait_for_completion(120), "the asynchronous client comes to an end")
        return transport.get_stats()["success"] == before + 1, "; ".join(SHOWN.texts)

    def close(self):
        self.client.close(60)


class Java:
    """openlineage-java, in a process that takes clients and events line by line."""

    def __init__(self, *options):
        # One source file, compiled as it starts.
        command = ["java", *options, "-cp", ":".join(glob.glob(str(JARS / "*.jar"))), str(HERE / "Send.java")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)

    def client(self, url, token, gzip=False, header=None):
        """From now on events go to `url`, by a new client."""
        self.ask("client", url, token or "-", "gzip" if gzip else "-", header or "-")

    def send(self, namespace="shop", padding=0):
        run = str(uuid.uuid4())
        seconds, shown = self.ask("emit", namespace, run, str(padding))
        return Sent(run, float(seconds), not shown, shown)

    def ask(self, *words):
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        harness.expect(answer, "the Java client goes on")
        return answer.rstrip("\n").split("\t")


def trust_store(directory, authority):
    """The options that make Java trust an authority: its own tool makes the store."""
    path = directory / "trust.p12"
    command = ["keytool", "-importcert", "-noprompt", "-alias", "authority", "-file", authority, "-keystore", path]
    subprocess.run([*command, "-storetype", "PKCS12", "-storepass", STORE_PASSWORD], check=True, capture_output=True)
    return f"-Djavax.net.ssl.trustStore={path}", f"-Djavax.net.ssl.trustStorePassword={STORE_PASSWORD}"


def python_client(url, authority, caller):
    return Python(url, harness.token(caller), verify=authority).client


def run_event(namespace, padding=0):
    facets = {"documentation": DocumentationJobFacet(description="x" * padding)} if padding else {}
    return RunEvent(
        eventType=RunState.COMPLETE,
        eventTime=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        run=Run(str(uuid.uuid4())),
        job=Job(namespace, "totals", facets=facets),
        producer="https://example.org/totals",
        inputs=[InputDataset("warehouse", "public.orders")],
        outputs=[OutputDataset("warehouse", "public.totals")],
    )
