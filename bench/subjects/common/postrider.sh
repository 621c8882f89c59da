# shellcheck shell=bash
# What our own subjects share: they differ by the layout alone. Everything that is not named here is a default.
set -euo pipefail

postrider=${BENCH_POSTRIDER:-$BENCH_ROOT/target/dist/postrider}

config() { # LAYOUT BATCH MORE
  cat <<TOML
[admin]
listen = "127.0.0.1:0"

[log]
level = "warn"

[broker.main]
kind = "kafka"
bootstrap = "$BENCH_KAFKA"

[[outbox]]
name = "bench"
database = "$BENCH_POSTGRES"
layout = "$1"
broker = "main"
topic = "$BENCH_TOPIC"
ordering = "key"
envelope = "none"
order_is_drawn = true
${2:+batch = $2}
${3:-}
TOML
}

postrider_subject() { # LAYOUT VERB [BATCH [MORE]]
  case $2 in
    build)
      [ -x "$postrider" ] || { echo "no $postrider: run make release" >&2; exit 1; }
      "$postrider" --version | sed 's/^postrider /postrider=/'
      ;;
    reset)
      "$postrider" init --layout "$1" --claim-index --database "$BENCH_POSTGRES" >/dev/null
      ;;
    start)
      config "$1" "${3:-}" "${4:-}" >"$BENCH_WORK/postrider.toml"
      # As in the image and the systemd unit that ship.
      export MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=33554432 MALLOC_MMAP_THRESHOLD_=33554432
      exec "$postrider" relay --config "$BENCH_WORK/postrider.toml"
      ;;
    *) echo "no verb $2" >&2; exit 2 ;;
  esac
}
