# shellcheck shell=bash disable=SC2154,SC2164  # sourced by scripts/services, under its set -e
# The Pub/Sub server of scripts/pubsub-server. It keeps nothing: a restart begins without topics.

# Where the installer from go.dev puts Go.
PATH=$PATH:/usr/local/go/bin

pubsub_source=$repo/scripts/pubsub-server
pubsub_program=$state/pubsub/pubsub-server

pubsub_installed() { [ -x "$pubsub_program" ] && [ -z "$(find "$pubsub_source" -newer "$pubsub_program")" ]; }

pubsub_install() {
  local log=$state/pubsub/install.log
  mkdir -p "$state/pubsub"
  has go || die "please install Go 1.21 or newer (https://go.dev/dl): it builds the Pub/Sub server"
  say "building the Pub/Sub server with Go"
  CGO_ENABLED=0 go build -C "$pubsub_source" -buildvcs=false -o "$pubsub_program" . >"$log" 2>&1 </dev/null ||
    die_with_log "$log" "cannot build the Pub/Sub server (Go 1.21 or newer fetches the version it needs)"
  touch "$pubsub_program"
}

pubsub_exec() { # DIR PORT
  cd "$1"
  exec "$pubsub_program" -addr "127.0.0.1:$2" ${PUBSUB_REFUSES_PUBLISH:+-refuse-publish}
}

pubsub_answers() { # PORT
  [ "$(ask "$1" 'GET /v1/projects/services/topics HTTP/1.0\r\n\r\n' 12)" = 'HTTP/1.0 200' ]
}

pubsub_environment() { echo "export PUBSUB_EMULATOR_HOST=127.0.0.1:$1"; }
