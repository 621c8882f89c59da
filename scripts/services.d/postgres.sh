# shellcheck shell=bash disable=SC2154,SC2164  # sourced by scripts/services, under its set -e
# Postgres. It refuses to run as root, so for root it runs as the user postgres that its package makes.

as_postgres=()
if [ "$(id -u)" = 0 ]; then as_postgres=(setpriv --reuid=postgres --regid=postgres --init-groups --); fi

# Where initdb and postgres are: Debian keeps them off the PATH.
postgres_programs() {
  local dir
  for dir in "$(pg_config --bindir 2>/dev/null)" $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV); do
    if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then echo "$dir"; return; fi
  done
  return 1
}

postgres_installed() { postgres_programs >/dev/null; }
postgres_install() { die "Postgres is missing although its package is installed"; }

# The directory to keep the data in: DIR, or when the user postgres cannot get there (a 0700 home above it), one
# under TMPDIR that DIR/elsewhere points to.
postgres_home() { # DIR
  local elsewhere=$1/elsewhere
  chmod o+x "$1"
  if "${as_postgres[@]}" test -x "$1"; then echo "$1"; return; fi
  if [ ! -d "$elsewhere" ]; then
    ln -sfn "$(mktemp -d "${TMPDIR:-/tmp}/postrider-postgres.XXXXXX")" "$elsewhere"
    chmod o+x "$elsewhere/"
  fi
  readlink "$elsewhere"
}

postgres_exec() { # DIR PORT
  local programs data
  programs=$(postgres_programs)
  data=$(postgres_home "$1")/data
  [ -d "$data" ] || postgres_init "$programs" "$data"
  # The lock on DIR is ours, so whatever process this file names is not a server of this data.
  rm -f "$data/postmaster.pid"
  install -m 644 "$repo/scripts/services.d/postgresql.conf" "$data/"
  cd "$data"
  exec "${as_postgres[@]}" "$programs/postgres" -D "$data" -p "$2"
}

postgres_init() { # PROGRAMS DATA
  local new=$2.new
  rm -rf "$new"
  mkdir "$new"
  if [ "$(id -u)" = 0 ]; then chown postgres: "$new"; fi
  (cd "$new" && "${as_postgres[@]}" "$1/initdb" -D "$new" -U postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync) >&2
  mv "$new" "$2"
}

postgres_answers() { # PORT
  [ "$(PGCONNECT_TIMEOUT=2 psql -XAtqw -h 127.0.0.1 -p "$1" -U postgres -d postgres -c 'select 1' 2>/dev/null)" = 1 ]
}

postgres_environment() { echo "export POSTRIDER_TEST_POSTGRES_URL=postgres://postgres@127.0.0.1:$1/postgres"; }
