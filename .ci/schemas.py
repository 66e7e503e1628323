"""schemas.py GATE: the schemas that the gate prints are valid, take the example policies and the deployed configurations,
and refuse a key that is not theirs.
"""

import json
import pathlib
import re
import subprocess
import sys

import jsonschema
import yaml


class Yaml12(yaml.SafeLoader):
    """Only `true` and `false` are booleans, as in the gate: `on` is a key of policies, and `off` a mode."""


BOOL = "tag:yaml.org,2002:bool"
Yaml12.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Yaml12.add_implicit_resolver(BOOL, re.compile("^(?:true|false)$"), list("tf"))


def main(gate):
    root = pathlib.Path(__file__).parent.parent
    configuration, policy = schema(gate), schema(gate, "--policy")
    checked = 0
    for path in sorted((root / "policies").glob("*.yaml")):
        checked += check(policy, path, path.read_text())
    for path in sorted((root / "deploy").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document["kind"] == "ConfigMap":
                for name, text in document["data"].items():
                    wanted = configuration if name == "lineage-gate.yaml" else policy
                    checked += check(wanted, f"{path}: {name}", text)
    print(f"{checked} documents are what the schemas say")


def schema(gate, *arguments):
    printed = subprocess.run([gate, "schema", *arguments], check=True, capture_output=True).stdout
    parsed = json.loads(printed)
    validator = jsonschema.validators.validator_for(parsed)
    validator.check_schema(parsed)
    return validator(parsed)


def check(validator, place, text):
    document = yaml.load(text, Yaml12)
    faults = [f"{place}: {'/'.join(map(str, fault.path))}: {fault.message}" for fault in validator.iter_errors(document)]
    if faults:
        sys.exit("\n".join(faults))
    if validator.is_valid(document | {"nobody knows": 1}):
        sys.exit(f"{place}: the schema takes a key that nobody knows")
    return 1


if __name__ == "__main__":
    main(*sys.argv[1:])
