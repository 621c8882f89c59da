# shellcheck shell=bash disable=SC2154,SC2164  # sourced by the `run` of each Debezium subject; `here` is subject.sh's
# Debezium Server: Postgres's write-ahead log through its EventRouter to Kafka.
# shellcheck source-path=SCRIPTDIR source=subject.sh
. "$(dirname "${BASH_SOURCE[0]}")/subject.sh"

debezium_version=3.6.0.Final
java_version_min=21
# One slot for all Debezium subjects: a slot that is left holds the log back for everybody.
slot=bench_debezium
slot_free_secs_max=10

home() { echo "$BENCH_DIR/debezium/debezium-server-$debezium_version"; }

# The java of the first JDK that is new enough: BENCH_JAVA_HOME, JAVA_HOME, the PATH's, then those of the system.
java_program() {
  local java
  for java in "${BENCH_JAVA_HOME-}/bin/java" "${JAVA_HOME-}/bin/java" "$(command -v java)" /usr/lib/jvm/*/bin/java; do
    if [ -x "$java" ] && [ "$(java_major "$java")" -ge $java_version_min ]; then echo "$java"; return; fi
  done
  die "Debezium Server $debezium_version needs Java $java_version_min or newer, and none was found;" \
    "install one and name it in BENCH_JAVA_HOME"
}
java_version() { "$1" -version 2>&1 | sed -n '1s/.*version "\([^"]*\)".*/\1/p'; }
java_major() {
  local version; version=$(java_version "$1")
  version=${version%%.*}
  echo $((${version:-0}))
}

subject_build() {
  local java folder
  need mvn "Debezium Server is fetched with Maven"
  java=$(java_program)
  folder=$(dirname "$(home)")
  if [ ! -d "$(home)" ]; then
    say "fetching Debezium Server $debezium_version (780 MB)"
    rm -rf "$folder"
    quietly "$folder/fetch.log" mvn -B dependency:copy -DoutputDirectory="$folder" \
      -Dartifact="io.debezium:debezium-server-dist:$debezium_version:tar.gz"
    tar xzf "$folder/debezium-server-dist-$debezium_version.tar.gz" -C "$folder"
    rm "$folder/debezium-server-dist-$debezium_version.tar.gz"
    mv "$folder/debezium-server" "$(home)"
  fi
  echo "debezium-server=$debezium_version"
  echo "java=$(java_version "$java")"
}

subject_drop() {
  drop_slot
  sql -c "DROP PUBLICATION IF EXISTS $slot" -c "DROP TABLE IF EXISTS outbox_wal"
}

# A walsender outlives its killed client for a moment, and an active slot cannot be dropped.
drop_slot() {
  local deadline=$((SECONDS + slot_free_secs_max))
  sql -c "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '$slot' AND active" >/dev/null
  until [ -z "$(sql -c "SELECT 1 FROM pg_replication_slots WHERE slot_name = '$slot' AND active")" ]; do
    [ $SECONDS -lt $deadline ] || die "slot $slot is still in use after $slot_free_secs_max s: is another run going on?"
    sleep 0.1
  done
  sql -c "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '$slot'" >/dev/null
}

# The table of Debezium's outbox documentation. The slot comes before the first record, so that a backlog is in it.
subject_make() {
  sql -c "CREATE TABLE outbox_wal (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            aggregatetype varchar(255) NOT NULL DEFAULT 'order',
            aggregateid varchar(255) NOT NULL,
            type varchar(255) NOT NULL,
            payload jsonb)" \
    -c "CREATE PUBLICATION $slot FOR TABLE outbox_wal WITH (publish = 'insert')"
  sql -c "SELECT pg_create_logical_replication_slot('$slot', 'pgoutput')" >/dev/null
}

# The parts of BENCH_POSTGRES, as psql understands it.
connection() {
  local host port user database password
  read -r host port user database <<<"$(sql <<<'\echo :HOST :PORT :USER :DBNAME')"
  password=$(sed -n 's#^[a-z]*://[^:/@]*:\([^@]*\)@.*#\1#p' <<<"$BENCH_POSTGRES")
  printf 'debezium.source.database.%s\n' "hostname=$host" "port=$port" "user=$user" "dbname=$database" \
    "password=${password:-none}"
}

subject_start() {
  local java home options
  java=$(java_program)
  home=$(home)
  options=$(settings | sed -n 's/^JAVA_OPTS=//p')
  mkdir -p "$BENCH_WORK/config"
  cd "$BENCH_WORK"
  {
    cat "$subjects/common/debezium.properties"
    connection
    echo "debezium.source.slot.name=$slot"
    echo "debezium.source.publication.name=$slot"
    echo "debezium.source.offset.storage.file.filename=$BENCH_WORK/offsets.dat"
    echo "debezium.transforms.outbox.route.topic.replacement=$BENCH_TOPIC"
    echo "debezium.sink.kafka.producer.bootstrap.servers=$BENCH_KAFKA"
    settings | grep -E '^(debezium|quarkus)\.'
  } >config/application.properties
  # As its run.sh does, but from a folder of our own: it reads ./config.
  # shellcheck disable=SC2086  # the options are words
  exec "$java" $options -cp "$home/debezium-server-dist-$debezium_version-runner.jar:$home/config/lib:$home/lib/*" \
    io.debezium.server.Main
}
