# shellcheck shell=bash disable=SC2154,SC2164  # sourced by scripts/services, under its set -e
# Redis, in memory only.

redis_installed() { has redis-server; }
redis_install() { die "redis-server is missing although its package is installed"; }

redis_exec() { # DIR PORT
  exec redis-server --bind 127.0.0.1 --port "$2" --dir "$1" --save '' --appendonly no
}

redis_answers() { # PORT
  [ "$(ask "$1" 'PING\r\n' 5)" = +PONG ]
}

redis_environment() { echo "export POSTRIDER_TEST_REDIS_URL=redis://127.0.0.1:$1"; }
