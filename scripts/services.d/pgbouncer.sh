# shellcheck shell=bash disable=SC2154,SC2164  # sourced by scripts/services, under its set -e
# PgBouncer in transaction mode, as Debian ships it. It is only ever private: a test that wants one says in
# POSTRIDER_PGBOUNCER_TO which server it stands in front of (host and port of a connection string), in
# POSTRIDER_PGBOUNCER_SEARCH_PATH which schema its sessions use, and in POSTRIDER_PGBOUNCER_IGNORES which startup
# parameters it passes over.

pgbouncer_installed() { has pgbouncer; }
pgbouncer_install() { die "pgbouncer is missing although its package is installed"; }

pgbouncer_exec() { # DIR PORT
  local home
  # Like Postgres, it refuses to run as root.
  home=$(postgres_home "$1")
  echo '"postgres" ""' >"$home/users"
  # In turn, so that two transactions of a client rarely meet the same server.
  cat >"$home/pgbouncer.ini" <<INI
[databases]
* = ${POSTRIDER_PGBOUNCER_TO:?} dbname=postgres connect_query='SET search_path TO "${POSTRIDER_PGBOUNCER_SEARCH_PATH:-public}"'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $2
unix_socket_dir =
auth_type = trust
auth_file = $home/users
pool_mode = transaction
server_round_robin = 1
min_pool_size = 3
default_pool_size = 6
max_client_conn = 500
ignore_startup_parameters = ${POSTRIDER_PGBOUNCER_IGNORES:-}
INI
  cd "$home"
  exec "${as_postgres[@]}" pgbouncer "$home/pgbouncer.ini"
}
