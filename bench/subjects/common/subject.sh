# shellcheck shell=bash disable=SC2034  # what the subjects use
# What the `run` of every subject shares: its verbs, its settings, SQL. A subject defines subject_build,
# subject_make, subject_drop and subject_start, then calls `verb "$@"`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd -P)
subjects=$(dirname "$here")

say() { echo "$(basename "$here"): $*" >&2; }
die() { say "$@"; exit 1; }
need() { command -v "$1" >/dev/null || die "$1 is missing: $2"; }

# The settings of subject.toml as KEY=VALUE lines: the report shows what was set, because it is set from there.
settings() {
  sed -n '/^\[settings\]/,$ s/^"\{0,1\}\([^"#= ]*\)"\{0,1\} *= *"\{0,1\}\([^"]*\)"\{0,1\}$/\1=\2/p' "$here/subject.toml"
}

sql() { PGOPTIONS='-c client_min_messages=warning' psql -XAtqw -v ON_ERROR_STOP=1 "$BENCH_POSTGRES" "$@"; }

# Runs a command that talks much, and shows what it said only when it failed.
quietly() { # LOG COMMAND...
  local log=$1; shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 </dev/null || { tail -n 15 "$log" >&2; die "failed: $*"; }
}

verb() {
  case "${1-} $#" in
    'build 1') subject_build ;;
    'reset 1') subject_drop; subject_make ;;
    'start 1') subject_start ;;
    *) die "usage: run build|reset|start" ;;
  esac
}
