"""mounted.py GATE MANIFEST: lays the ConfigMaps of a manifest out as its containers see them, and checks the gate's
configuration there.

Absolute paths of the configuration are moved under a temporary root. Files that no ConfigMap holds, such as those of
Secrets, are made up, with real keys and certificates where the gate looks into them.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests/real/clients"))
import credentials  # noqa: E402

CONFIGURATION = "lineage-gate.yaml"
WRITTEN_FILES = {"path", "output"}
# The cluster makes this one in every namespace.
GIVEN_BY_THE_CLUSTER = {"kube-root-ca.crt"}


def main(gate, manifest):
    with open(manifest, encoding="utf-8") as file:
        documents = [document for document in yaml.safe_load_all(file) if document]
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for pod in pods(documents):
            mount(root, pod, config_maps(documents))
        configurations = sorted(root.rglob(CONFIGURATION))
        if not configurations:
            sys.exit(f"{manifest}: no container mounts a ConfigMap with {CONFIGURATION}")
        for path in configurations:
            configuration = yaml.safe_load(path.read_text())
            move(root, path.parent, configuration)
            path.write_text(yaml.safe_dump(configuration, sort_keys=False))
            if subprocess.run([gate, "check", str(path)]).returncode != 0:
                sys.exit(f"{manifest}: the gate does not accept /{path.relative_to(root)}")


def config_maps(documents):
    return {d["metadata"]["name"]: d.get("data", {}) for d in documents if d["kind"] == "ConfigMap"}


def pods(node):
    """Every pod specification, wherever it stands."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from pods(child)


def mount(root, pod, maps):
    volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
    for container in pod.get("initContainers", []) + pod["containers"]:
        for at in container.get("volumeMounts", []):
            for source in sources(volumes.get(at["name"], {})):
                lay_out(under(root, at["mountPath"]), at.get("subPath"), source, maps)


def sources(volume):
    projected = volume.get("projected", {}).get("sources", [])
    return [source["configMap"] for source in [volume, *projected] if "configMap" in source]


def lay_out(directory, only, source, maps):
    if source["name"] in GIVEN_BY_THE_CLUSTER:
        return
    if source["name"] not in maps:
        sys.exit(f"ConfigMap {source['name']} is mounted, and is not in the manifest")
    data = maps[source["name"]]
    items = source.get("items") or [{"key": key, "path": key} for key in data]
    for item in items:
        if only is None or only == item["path"]:
            file = directory if only else directory / item["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(data[item["key"]])


def under(root, path):
    return root / str(path).lstrip("/")


def move(root, base, node, key=""):
    """Moves absolute paths under the root, and makes what they name."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, value in children:
        if isinstance(value, (dict, list)):
            move(root, base, value, name if isinstance(name, str) else key)
        elif isinstance(value, str) and isinstance(name, str):
            if value.startswith("/"):
                node[name] = value = str(under(root, value))
            if names_a_file(name, value):
                make(base / value, name)


def names_a_file(key, value):
    return key in credentials.CONTENTS or (key in WRITTEN_FILES and "/" in value)


def make(path, key):
    path.parent.mkdir(parents=True, exist_ok=True)
    if key in credentials.CONTENTS and not path.exists():
        path.write_bytes(credentials.CONTENTS[key]())


if __name__ == "__main__":
    main(*sys.argv[1:])
