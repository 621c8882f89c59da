# shellcheck shell=bash disable=SC2154  # sourced by the `run` of each Watermill subject; `subjects` is subject.sh's
# Watermill: its SQL subscriber on Postgres, a router, its Kafka publisher (common/watermill).
# shellcheck source-path=SCRIPTDIR source=subject.sh
. "$(dirname "${BASH_SOURCE[0]}")/subject.sh"

source_folder=$subjects/common/watermill
program() { echo "$BENCH_DIR/watermill/relay"; }

subject_build() {
  need go "Watermill is fetched and built with Go"
  quietly "$BENCH_DIR/watermill/build.log" go -C "$source_folder" build -o "$(program)" .
  sed -n 's#.*ThreeDotsLabs/\(watermill[a-z-]*\)[/v0-9]* v\([0-9.]*\)$#\1=\2#p' "$source_folder/go.mod"
  echo "go=$(go env GOVERSION | sed 's/^go//')"
}

subject_drop() { sql -c "DROP TABLE IF EXISTS watermill_orders, watermill_offsets_orders"; }
subject_make() { quietly "$BENCH_DIR/watermill/reset.log" "$(program)" -initialize; }

subject_start() {
  # shellcheck disable=SC2046  # each setting is a word
  exec "$(program)" $(settings | sed 's/^/-/')
}
