# shellcheck shell=bash disable=SC2154,SC2164  # sourced by scripts/services, under its set -e
# Apache Kafka from its Maven jars: one KRaft node that is broker and controller, the controller on PORT+1.

kafka_libs=$state/kafka/libs
kafka_pom=$repo/scripts/kafka/pom.xml
kafka_cluster_id=cG9zdHJpZGVyLXRlc3RzMQ

kafka_installed() { cmp -s "$kafka_pom" "$kafka_libs/pom.xml"; }

kafka_install() {
  local new=$kafka_libs.new log=$state/kafka/install.log
  mkdir -p "$state/kafka"
  rm -rf "$new"
  say "fetching Kafka's jars with Maven"
  mvn -B -f "$kafka_pom" dependency:copy-dependencies -DoutputDirectory="$new" >"$log" 2>&1 </dev/null ||
    die_with_log "$log" "cannot fetch Kafka's jars"
  rm -rf "$kafka_libs"
  cp "$kafka_pom" "$new/"
  mv "$new" "$kafka_libs"
}

kafka_exec() { # DIR PORT
  local log=-Dorg.slf4j.simpleLogger
  local java=(java -cp "$kafka_libs/*" "$log.defaultLogLevel=warn" "$log.showDateTime=true" "$log.dateTimeFormat=HH:mm:ss.SSS")
  # A killed node may come back only when its old session is over: short for private nodes, which are there to be
  # killed, and long for the shared one, which a busy machine must not fence.
  local jvm=(-Xmx256m -XX:TieredStopAtLevel=1) session_ms=3000
  if [ "$1" -ef "$state/kafka" ]; then jvm=(-Xmx512m) session_ms=9000; fi
  # For the bench: a private node that is measured.
  if [ -n "${POSTRIDER_KAFKA_HEAP-}" ]; then jvm=("-Xmx$POSTRIDER_KAFKA_HEAP"); fi
  cd "$1"
  {
    cat "$repo/scripts/kafka/server.properties"
    echo "listeners=BROKER://127.0.0.1:$2,CONTROLLER://127.0.0.1:$(($2 + 1))"
    echo "controller.quorum.bootstrap.servers=127.0.0.1:$(($2 + 1))"
    echo "log.dirs=$1/data"
    echo "broker.session.timeout.ms=$session_ms"
    # For tests of which a part of the broker fails: a directory that can be lost, and topics that can be forbidden.
    if [ -n "${POSTRIDER_KAFKA_PARTS-}" ]; then
      echo "log.dirs=$1/data,$1/data2"
      echo "metadata.log.dir=$1/data"
      echo 'authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer'
      echo 'allow.everyone.if.no.acl.found=true'
      echo 'replica.high.watermark.checkpoint.interval.ms=200'
      echo 'auto.create.topics.enable=false'
    fi
  } >server.properties
  if [ ! -f data/meta.properties ]; then
    "${java[@]}" "${jvm[@]}" kafka.tools.StorageTool format --standalone -t "$kafka_cluster_id" -c server.properties >&2
  fi
  exec "${java[@]}" "${jvm[@]}" kafka.Kafka server.properties
}

# Asks for the cluster's metadata (version 1, no topics). The list of brokers, whose length the twelfth byte ends,
# stays empty until the broker takes requests.
kafka_answers() { # PORT
  local request='\0\0\0\016\0\03\0\01\0\0\0\01\0377\0377\0\0\0\0' brokers
  brokers=$(ask "$1" "$request" 12 | od -An -tu1 -j11 2>/dev/null) || return 1
  [ "$((brokers))" = 1 ]
}

kafka_environment() { echo "export POSTRIDER_TEST_KAFKA=127.0.0.1:$1"; }
