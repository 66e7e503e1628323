#!/usr/bin/env bash
# Fills a live Gravitino with random worlds of access rules, and compares its verdicts with the gate's, one by one.
#
#   GRAVITINO_URL=http://127.0.0.1:8090   a server that runs, with authorization on and the simple authenticator; its
#                                         metalakes named lineage_gate_N are made anew
#   GRAVITINO_DIST=FOLDER                 an unpacked distribution: the server is started here, on loopback, and ended again
#   GRAVITINO_WORLDS=3                    how many worlds; GRAVITINO_SEED=N for the same ones again
#
# Without either it says by name that it is skipped, and ends well.
set -euo pipefail
cd "$(dirname "$0")/../.."

skip() { echo "tests/real/gravitino.sh: SKIPPED, $*"; exit 0; }

work=""
server=""
stop() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  [ -z "$work" ] || rm -rf "$work"
}

start() {
  command -v java >/dev/null || skip "java is not installed"
  local port=${GRAVITINO_PORT:-8190} opens=() package
  mkdir -p "$work"/{home,conf,data,logs}
  ln -s "$(realpath "$GRAVITINO_DIST/scripts")" "$work/home/scripts"
  ln -s "$(realpath "$GRAVITINO_DIST/catalogs")" "$work/home/catalogs"
  cat >"$work/conf/gravitino.conf" <<CONF
gravitino.server.webserver.host = 127.0.0.1
gravitino.server.webserver.httpPort = $port
gravitino.entity.store = relational
gravitino.entity.store.relational = JDBCBackend
gravitino.entity.store.relational.jdbcUrl = jdbc:h2
gravitino.entity.store.relational.jdbcDriver = org.h2.Driver
gravitino.entity.store.relational.jdbcUser = gravitino
gravitino.entity.store.relational.jdbcPassword = gravitino
gravitino.entity.store.relational.storagePath = $work/data/jdbc
gravitino.authorization.enable = true
gravitino.authorization.serviceAdmins = admin
gravitino.authenticators = simple
CONF
  for package in io lang lang.invoke lang.reflect math net nio text time util util.concurrent util.regex; do
    opens+=(--add-opens "java.base/java.$package=ALL-UNNAMED")
  done
  GRAVITINO_HOME=$work/home GRAVITINO_CONF_DIR=$work/conf GRAVITINO_LOG_DIR=$work/logs \
    java -Dh2.bindAddress=127.0.0.1 "${opens[@]}" -cp "$work/conf:$GRAVITINO_DIST/libs/*" \
    org.apache.gravitino.server.GravitinoServer >"$work/logs/out" 2>&1 </dev/null &
  server=$!
  GRAVITINO_URL=http://127.0.0.1:$port
  for _ in $(seq 240); do
    curl -s -o /dev/null -m 2 "$GRAVITINO_URL/api/version" && return
    kill -0 "$server" 2>/dev/null || break
    sleep 0.25
  done
  tail -20 "$work/logs/out"
  exit 1
}

[ -n "${GRAVITINO_URL:-}${GRAVITINO_DIST:-}" ] || skip "neither GRAVITINO_URL nor GRAVITINO_DIST is set"
gate=${1:-target/release/lineage-gate}
[ -x "$gate" ] || { echo "usage: tests/real/gravitino.sh GATE: $gate is no program" >&2; exit 2; }
work=$(mktemp -d)
trap stop EXIT
[ -n "${GRAVITINO_URL:-}" ] || start
python3 tests/real/gravitino.py "$GRAVITINO_URL" "$gate" "$work" "${GRAVITINO_WORLDS:-3}" "${GRAVITINO_SEED:-}"
