#!/usr/bin/env bash
# Sends every recorded request through a gate in front of a live Marquez, and compares the answers with the reviewed ones.
#
#   MARQUEZ_URL=http://127.0.0.1:5000   a Marquez that runs, with a fresh database
#   MARQUEZ_LIB=FOLDER                  its jars: PostgreSQL and Marquez are started here, on loopback, and ended again
#
# Without either, or where they cannot be started, it says by name that it is skipped, and ends well.
set -euo pipefail
cd "$(dirname "$0")/../.."

skip() { echo "tests/real/marquez.sh: SKIPPED, $*"; exit 0; }

start() {
  local bin
  bin=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -1)
  [ -x "$bin/initdb" ] || skip "PostgreSQL is not installed"
  command -v java >/dev/null || skip "java is not installed"
  data=$(mktemp -d); chmod 711 "$data"
  port=${MARQUEZ_PORT:-5060}; password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  as=(); if [ "$(id -u)" = 0 ]; then as=(runuser -u postgres --); mkdir "$data/pg"; chown postgres "$data/pg"; else mkdir "$data/pg"; fi
  pg_ctl=("${as[@]}" "$bin/pg_ctl" -D "$data/pg/data")
  trap stop EXIT
  (cd / && "${as[@]}" sh -c 'umask 077; cat >"$1"' - "$data/pg/password" <<<"$password"
   "${as[@]}" "$bin/initdb" -D "$data/pg/data" -U marquez --pwfile="$data/pg/password" -A scram-sha-256 -E UTF8 --locale=C.UTF-8
   "${pg_ctl[@]}" -w -l "$data/pg/log" -o "-c listen_addresses=127.0.0.1 -c port=$((port + 2)) -c unix_socket_directories=''" start
   PGPASSWORD=$password "$bin/createdb" -h 127.0.0.1 -p $((port + 2)) -U marquez marquez) >"$data/database.log" 2>&1 </dev/null \
    || { cat "$data/database.log"; exit 1; }
  (umask 077; cat >"$data/marquez.yml" <<YAML
server:
  applicationConnectors: [{ type: http, bindHost: 127.0.0.1, port: $port, httpCompliance: RFC7230_LEGACY }]
  adminConnectors: [{ type: http, bindHost: 127.0.0.1, port: $((port + 1)) }]
db: { driverClass: org.postgresql.Driver, url: "jdbc:postgresql://127.0.0.1:$((port + 2))/marquez", user: marquez, password: $password }
migrateOnStartup: true
graphql: { enabled: false }
search: { enabled: false }
YAML
  )
  java -cp "$MARQUEZ_LIB/classes:$MARQUEZ_LIB:$MARQUEZ_LIB/*" marquez.MarquezApp server "$data/marquez.yml" >"$data/marquez.log" 2>&1 &
  marquez=$!
  MARQUEZ_URL=http://127.0.0.1:$port
  # Not /namespaces: one bad name stored makes that one answer 500 for good.
  for _ in $(seq 240); do
    curl -fsS -m 3 -o /dev/null "$MARQUEZ_URL/api/v1/tags" 2>/dev/null && return
    kill -0 "$marquez" 2>/dev/null || break
    sleep 0.5
  done
  tail -20 "$data/marquez.log"
  exit 1
}

stop() {
  [ -z "${marquez:-}" ] || kill "$marquez" 2>/dev/null || true
  (cd / && "${pg_ctl[@]}" -m immediate stop) >/dev/null 2>&1 || true
  rm -rf "$data"
}

if [ -z "${MARQUEZ_URL:-}" ]; then
  [ -n "${MARQUEZ_LIB:-}" ] || skip "neither MARQUEZ_URL nor MARQUEZ_LIB is set"
  start
fi
export MARQUEZ_URL
cargo test --quiet --test e2e every_recorded_request
echo "tests/real/marquez.sh: a live Marquez behind the gate is answered as reviewed"
