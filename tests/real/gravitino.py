"""Random worlds in a live Gravitino, and `lineage-gate parity` on each: gravitino.py URL GATE FOLDER WORLDS [SEED]."""
import base64
import json
import pathlib
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request

USERS = ["u0", "u1", "u2", "u3"]
SCHEMAS = ["s1", "s2"]
# Catalog, its type and provider, the type of its objects, and the path that they are made under.
CATALOGS = [("files", "FILESET", "fileset", "FILESET", "filesets"), ("models", "MODEL", "model", "MODEL", "models")]
OBJECTS = ["a", "b"]
GRANTABLE = {
    "METALAKE": ["USE_CATALOG", "USE_SCHEMA", "READ_FILESET", "WRITE_FILESET", "USE_MODEL"],
    "CATALOG": ["USE_CATALOG", "USE_SCHEMA", "READ_FILESET", "WRITE_FILESET", "USE_MODEL"],
    "SCHEMA": ["USE_SCHEMA", "READ_FILESET", "WRITE_FILESET", "USE_MODEL"],
    "FILESET": ["READ_FILESET", "WRITE_FILESET"],
    "MODEL": ["USE_MODEL"],
}


def basic(user):
    return "Basic " + base64.b64encode(f"{user}:x".encode()).decode()


class Server:
    def __init__(self, url):
        self.url = url.rstrip("/") + "/api"

    def call(self, method, path, body=None, may_fail=()):
        headers = {
            "Accept": "application/vnd.gravitino.v1+json, application/json",
            "Content-Type": "application/json",
            "Authorization": basic("admin"),
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace")
            if error.code in may_fail:
                return None
            sys.exit(f"{method} {path}: {error.code} {text[:300]}")


def objects_of(catalog):
    name, _, _, kind, _ = catalog
    return [(kind, f"{name}.{schema}.{leaf}") for schema in SCHEMAS for leaf in OBJECTS]


def fill(server, metalake, dice):
    """Makes a world. Returns all objects that exist."""
    server.call("DELETE", f"/metalakes/{metalake}?force=true", may_fail=(403, 404))
    server.call("POST", "/metalakes", {"name": metalake, "comment": "", "properties": {}})
    base = f"/metalakes/{metalake}"
    for user in USERS:
        server.call("POST", f"{base}/users", {"name": user})
    there = []
    for catalog in CATALOGS:
        name, kind, provider, leaf_kind, place = catalog
        server.call("POST", f"{base}/catalogs",
                    {"name": name, "type": kind, "provider": provider, "comment": "", "properties": {}})
        there.append(("CATALOG", name))
        for schema in SCHEMAS:
            server.call("POST", f"{base}/catalogs/{name}/schemas", {"name": schema, "comment": "", "properties": {}})
            there.append(("SCHEMA", f"{name}.{schema}"))
        for _, full in objects_of(catalog):
            _, schema, leaf = full.split(".")
            body = {"name": leaf, "comment": "", "properties": {}}
            if leaf_kind == "FILESET":
                body |= {"type": "MANAGED", "storageLocation": f"file:///tmp/lineage-gate-parity/{metalake}/{full}"}
            server.call("POST", f"{base}/catalogs/{name}/schemas/{schema}/{place}", body)
            there.append((leaf_kind, full))
    for number in range(dice.randint(2, 5)):
        grants = []
        for kind, full in dice.sample([("METALAKE", metalake)] + there, dice.randint(1, 8)):
            privileges = dice.sample(GRANTABLE[kind], dice.randint(1, len(GRANTABLE[kind])))
            grants.append({"type": kind, "fullName": full, "privileges": [
                {"name": name, "condition": "DENY" if dice.random() < 0.2 else "ALLOW"} for name in privileges]})
        # A privilege that the server does not take on a catalog of that kind is not asked for.
        made = server.call("POST", f"{base}/roles", {"name": f"r{number}", "properties": {}, "securableObjects": grants},
                           may_fail=(400,))
        if made is None:
            continue
        for user in dice.sample(USERS, dice.randint(0, 3)):
            server.call("PUT", f"{base}/permissions/users/{user}/grant", {"roleNames": [f"r{number}"]})
    for kind, full in dice.sample(there, dice.randint(0, 4)):
        server.call("PUT", f"{base}/owners/{kind.lower()}/{full}", {"name": dice.choice(USERS), "type": "USER"})
    return there


def main():
    url, gate, folder, worlds = sys.argv[1:5]
    seed = int(sys.argv[5]) if len(sys.argv) > 5 and sys.argv[5] else int(time.time())
    print(f"seed {seed}")
    server, folder, failed = Server(url), pathlib.Path(folder), False
    for user in USERS + ["admin", "stranger"]:
        (folder / f"{user}.token").write_text(basic(user))
    for number in range(int(worlds)):
        dice = random.Random(f"{seed} {number}")
        metalake = f"lineage_gate_{number}"
        there = fill(server, metalake, dice)
        targets = [f"{kind.lower()} {full}" for kind, full in there]
        targets += ["fileset files.s1.missing", "fileset files.nowhere.a", "model models.s1.missing"]
        callers = [{"user": user, "token_file": f"{user}.token"} for user in USERS + ["admin", "stranger"]]
        questions = folder / "questions.json"
        questions.write_text(json.dumps({"callers": callers, "targets": targets}))
        command = [gate, "parity", "--url", url, "--metalake", metalake, "--token-file", str(folder / "admin.token")]
        print(metalake, flush=True)
        failed |= subprocess.run(command + [str(questions)]).returncode != 0
    sys.exit(1 if failed else 0)


main()
