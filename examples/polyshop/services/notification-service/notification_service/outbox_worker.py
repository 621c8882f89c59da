"""Publishes outbox_events: a process of its own, as many of them as one likes.

By default `postrider relay` does this work. NEVER RUN BOTH ON ONE TABLE: each keeps the order of a
key by locks that the other one does not know, so both would send the same rows, and a key's events
might overtake each other.

A pass is one transaction. It claims rows with FOR UPDATE SKIP LOCKED, sends them, writes down what
became of each, and commits; until then the locks are held. A row is processed after the broker has
acknowledged it, never before. If the worker dies in between, the rows are sent again with the same
eventId. After a failure the later rows of its key wait, and the key rests, for longer each time;
other keys go on. What the broker will never take is given up: it stays in the table, processed and
with its error_message, and its key waits for somebody to decide about it.
"""

import json
import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from sqlalchemy import func, text, update
from sqlalchemy.orm import Session

from .cluster import producer_of
from .envelope import written
from .errors import Permanent, backoff, message_of
from .log import log
from .models import OutboxEvent, connect
from .probes import database_problem, outbox_counters, serve
from .process import run_process
from .settings import SERVICE, from_environment
from .tracing import PRODUCER, failed, start_span, start_tracing

# What is wrong with the record itself. All else may be over in a moment.
REFUSED = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_ARG,
}
RESTING_MAX = 1000
PURGE_EVERY_SECS = 60
ACKNOWLEDGED_WITHIN_SECS = 15

# The first unsettled row of a key is the key's lock: whoever holds it may send all that follows,
# and nobody else may, because they see an earlier row that is not sent. A dead row holds back its
# key until somebody decides about it.
CLAIM = text("""
  WITH first AS (
    SELECT o.aggregate_id FROM outbox_events AS o
    WHERE NOT o.processed AND o.aggregate_id <> ALL (CAST(:resting AS text[]))
      AND NOT EXISTS (
        SELECT 1 FROM outbox_events AS earlier
        WHERE earlier.aggregate_id = o.aggregate_id AND NOT earlier.processed
          AND (earlier.created_at, earlier.id) < (o.created_at, o.id))
      AND NOT EXISTS (
        SELECT 1 FROM outbox_events AS dead
        WHERE dead.aggregate_id = o.aggregate_id AND dead.processed
          AND dead.error_message IS NOT NULL)
    ORDER BY o.created_at, o.id
    LIMIT :batch
    FOR UPDATE SKIP LOCKED)
  SELECT o.id, o.aggregate_id, o.event_type, o.version, CAST(o.payload AS text) AS payload,
    CAST(o.metadata AS text) AS metadata,
    to_char(o.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS created_at
  FROM outbox_events AS o
  WHERE NOT o.processed AND o.aggregate_id IN (SELECT aggregate_id FROM first)
  ORDER BY o.created_at, o.id
  LIMIT :batch""")

# Finds the keys that wait behind a dead row. A hash bears keys of any length.
DEAD_INDEX = text("""
  CREATE INDEX IF NOT EXISTS outbox_events_dead_idx ON outbox_events USING hash (aggregate_id)
  WHERE processed AND error_message IS NOT NULL""")

PURGE = text("""
  DELETE FROM outbox_events WHERE processed AND error_message IS NULL
  AND processed_at < clock_timestamp() - make_interval(days => :days)""")


class RestingKeys:
    """The keys that have failed: how often in a row, and until when they rest."""

    def __init__(self, first):
        self.first, self.keys = first, {}

    def failed(self, key):
        failures = self.keys.get(key, (0, 0))[0] + 1
        self.keys[key] = (failures, time.monotonic() + backoff(failures, self.first))

    def recovered(self, key):
        self.keys.pop(key, None)

    def now(self):
        now = time.monotonic()
        return [key for key, (_, until) in self.keys.items() if until > now]


@dataclass
class Sending:
    """A row on its way. `error` is None when the broker has it."""

    row: Any
    span: Any
    error: Any = TimeoutError("the broker does not acknowledge")

    def delivered(self, error, _message):
        self.error = KafkaException(error) if error else None

    def is_refused(self):
        if isinstance(self.error, KafkaException):
            return self.error.args[0].code() in REFUSED
        return isinstance(self.error, Permanent)


def metadata_of(row):
    metadata = json.loads(row.metadata or "{}")
    return metadata if isinstance(metadata, dict) else {}


class Worker:
    """A worker on one table. `run_pass` is all of its work; `run` repeats it."""

    def __init__(self, engine, producer, tracer, count, settings):
        self.engine, self.producer, self.tracer = engine, producer, tracer
        self.count, self.settings = count, settings
        self.resting = RestingKeys(settings.retry_sleep)
        self.purge_at = 0

    def prepare(self):
        """Before the first pass, once."""
        with self.engine.begin() as connection:
            connection.execute(DEAD_INDEX)

    def start_sending(self, row):
        parent = metadata_of(row).get("traceparent")
        parent = parent if isinstance(parent, str) else None
        topic = self.settings.topic(row.event_type)
        sending = Sending(row, start_span(self.tracer, "publish", PRODUCER, parent, topic=topic))
        headers = {"event_id": str(row.id), "event_type": row.event_type}
        if parent:
            headers["traceparent"] = parent
        try:
            self.producer.produce(
                topic, written(row, SERVICE), row.aggregate_id,
                headers=headers, on_delivery=sending.delivered,
            )
        except (KafkaException, Permanent, BufferError) as error:
            sending.error = error
        return sending

    def send(self, rows):
        """Sends the first row of every key, then the second of those that went well, and so on."""
        keys, sendings = {}, []
        for row in rows:
            keys.setdefault(row.aggregate_id, []).append(row)
        queues = list(keys.values())
        while queues:
            begun = [(queue, self.start_sending(queue.pop(0))) for queue in queues]
            self.producer.flush(ACKNOWLEDGED_WITHIN_SECS)
            sendings += [sending for _, sending in begun]
            queues = [queue for queue, sending in begun if queue and not sending.error]
        for sending in sendings:
            if sending.error:
                failed(sending.span, message_of(sending.error))
            sending.span.end()
        return sendings

    def run_pass(self):
        """Returns how many rows it had to do with."""
        asleep = self.resting.now()
        # In an outage every key rests. There is no use in finding out about more and more of them.
        if len(asleep) >= RESTING_MAX:
            return 0
        with Session(self.engine) as session, session.begin():
            claim = {"batch": self.settings.batch_size, "resting": asleep}
            sendings = self.send(session.execute(CLAIM, claim).all())
            settle(session, sendings)
        for sending in sendings:
            self.tell(sending)
        return len(sendings)

    def tell(self, sending):
        row, error = sending.row, sending.error
        ids = {
            "eventId": str(row.id),
            "traceId": metadata_of(row).get("traceId"),
            "topic": self.settings.topic(row.event_type),
        }
        if not error:
            self.resting.recovered(row.aggregate_id)
            self.count("published")
            log("INFO", "published", **ids)
        elif sending.is_refused():
            self.count("dead")
            log("ERROR", "given up", error=message_of(error), **ids)
        else:
            self.resting.failed(row.aggregate_id)
            self.count("failed")
            log("WARN", "failed, is tried again", error=message_of(error), **ids)

    def purge(self):
        """Deletes what was sent long ago. What is dead stays."""
        if not self.settings.keep_days or time.monotonic() < self.purge_at:
            return
        self.purge_at = time.monotonic() + PURGE_EVERY_SECS
        with self.engine.begin() as connection:
            purged = connection.execute(PURGE, {"days": self.settings.keep_days}).rowcount
        if purged:
            log("INFO", "purged", purged=purged)

    def run(self, stopping):
        failures = 0
        while not stopping.is_set():
            try:
                worked = self.run_pass()
                self.purge()
                failures = 0
                if not worked:
                    stopping.wait(self.settings.idle_sleep)
            except Exception as error:
                # The database: what was sent and not written down is sent again.
                failures += 1
                log("WARN", "pass failed, is tried again", error=message_of(error))
                stopping.wait(backoff(failures, self.settings.retry_sleep))


def settle(session, sendings):
    """Writes down what became of each row."""
    sent = [sending.row.id for sending in sendings if not sending.error]
    done = update(OutboxEvent).where(OutboxEvent.id.in_(sent))
    session.execute(
        done.values(processed=True, processed_at=func.clock_timestamp(), error_message=None)
    )
    for sending in sendings:
        if sending.error:
            why, dead = message_of(sending.error)[:1000], sending.is_refused()
            rejected = update(OutboxEvent).where(OutboxEvent.id == sending.row.id)
            session.execute(rejected.values(processed=dead, error_message=why))


def main(stopping):
    settings = from_environment()
    tracing = start_tracing(SERVICE, settings.collector)
    count = outbox_counters(SERVICE)
    engine = connect(settings.database_url)
    tracer = tracing.get_tracer(SERVICE)
    worker = Worker(engine, producer_of(settings), tracer, count, settings)
    worker.prepare()
    serve(settings.listen, count.registry, lambda: database_problem(engine))
    log("INFO", "worker runs")
    worker.run(stopping)
    engine.dispose()
    tracing.shutdown()


if __name__ == "__main__":
    run_process(main)
