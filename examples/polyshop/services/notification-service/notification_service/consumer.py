"""Consumes events, each once: it is entered in processed_events in the transaction of its effects.

Order is kept per partition, and so per key. A temporary error stops its partition alone and is
tried again with growing waits, for as long as it lasts. A permanent one goes to the dead-letter
topic. An offset moves on when the transaction has committed or the dead letter is acknowledged,
never before.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from .dead_letters import bury
from .envelope import envelope_of, read
from .errors import PERMANENT, Permanent, backoff, message_of
from .log import log
from .models import ProcessedEvent
from .tracing import CONSUMER, context_of, failed, start_span

FIRST_WAIT_SECS = 0.1
POLL_SECS = 0.1


@dataclass
class Opened:
    """What can be known of a message before it is known to be an event."""

    text: str
    body: Any
    event_id: str = None
    metadata: dict = field(default_factory=dict)
    traceparent: str = None

    @classmethod
    def of(cls, message):
        opened = cls(*read(message.value()))
        known = opened.body if isinstance(opened.body, dict) else {}
        if isinstance(known.get("eventId"), str):
            opened.event_id = known["eventId"]
        if isinstance(known.get("metadata"), dict):
            opened.metadata = known["metadata"]
        headers = {name: value for name, value in message.headers() or [] if value}
        stored = opened.metadata.get("traceparent")
        if "traceparent" in headers:
            opened.traceparent = headers["traceparent"].decode("latin-1")
        elif isinstance(stored, str):
            opened.traceparent = stored
        return opened


@dataclass(frozen=True)
class Parts:
    """What a delivery is settled with."""

    engine: Any
    producer: Any
    tracer: Any
    count: Any
    handlers: dict


def apply(parts, opened, trace):
    """Applies an event to the database; None for one that was processed before."""
    envelope = envelope_of(opened.body)
    event_id, event_type = envelope["eventId"], envelope["eventType"]
    if event_type not in parts.handlers:
        raise Permanent("no handler for this eventType")
    metadata = {name: value for name, value in trace.items() if value}
    metadata["causationId"] = event_id
    if "correlationId" in opened.metadata:
        metadata["correlationId"] = opened.metadata["correlationId"]
    source = envelope.get("source")
    entry = insert(ProcessedEvent).on_conflict_do_nothing().values(
        event_id=event_id,
        event_type=event_type,
        source=source if isinstance(source, str) else None,
    ).returning(ProcessedEvent.event_id)
    with Session(parts.engine) as session, session.begin():
        # First, not last: of two deliveries at once the second waits here for the first one's end.
        if session.scalar(entry) is None:
            return None
        return parts.handlers[event_type](session, event_id, envelope["data"], metadata)


def settle(parts, message):
    """Is done with a delivery, or not: then it has to be tried again."""
    opened, topic = Opened.of(message), message.topic()
    span = start_span(parts.tracer, "consume", CONSUMER, opened.traceparent, topic=topic)
    trace = context_of(span)
    named = opened.metadata.get("traceId")
    # An event that names its trace without a parent keeps that name.
    if isinstance(named, str) and named != trace["traceId"]:
        trace = {"traceId": named}
    ids = {"eventId": opened.event_id, "traceId": trace["traceId"], "topic": topic}
    try:
        done = apply(parts, opened, trace)
        parts.count("handled" if done else "duplicates")
        log("INFO", done or "duplicate", **ids)
        return True
    except Exception as error:
        failed(span, message_of(error))
        return rejected(parts, message, opened, error, ids)
    finally:
        span.end()


def rejected(parts, message, opened, error, ids):
    why = message_of(error)
    if isinstance(error, PERMANENT):
        try:
            bury(parts.producer, message, opened.event_id, opened.text, why)
            parts.count("dead_lettered")
            log("ERROR", "dead-lettered", error=why, **ids)
            return True
        except Exception as refused:
            why = f"{why}; and there is no dead letter: {message_of(refused)}"
    parts.count("retried")
    log("WARN", "failed, is tried again", error=why, **ids)
    return False


class Consumption:
    """Takes what comes until it is stopped."""

    def __init__(self, consumer, topics, parts):
        self.consumer, self.parts, self.joined = consumer, parts, False
        # How often in a row a partition has failed, and until when it rests.
        self.failures, self.resting = {}, {}
        consumer.subscribe(topics, on_assign=self.assigned, on_revoke=self.revoked)

    def assigned(self, _consumer, _partitions):
        self.joined = True

    def revoked(self, _consumer, partitions):
        for partition in partitions:
            self.failures.pop((partition.topic, partition.partition), None)
            self.resting.pop((partition.topic, partition.partition), None)

    def run(self, stopping):
        try:
            while not stopping.is_set():
                self.step()
        finally:
            self.consumer.close()

    def step(self):
        self.resume()
        message = self.consumer.poll(POLL_SECS)
        if message is None:
            return
        if message.error():
            log("WARN", "no message", error=message.error().str())
            return
        if not settle(self.parts, message):
            # If this failed, the next commit would pass over the message. So the process ends.
            self.rest(message)
            return
        self.failures.pop((message.topic(), message.partition()), None)
        try:
            self.consumer.commit(message, asynchronous=False)
        except KafkaException as error:
            # Perhaps somebody else has the partition now. For them, what was done is a duplicate.
            log("WARN", "offset not committed", error=message_of(error))

    def rest(self, message):
        """Comes back to this message later; other partitions go on."""
        name = (message.topic(), message.partition())
        position = TopicPartition(*name, message.offset())
        self.consumer.pause([position])
        self.consumer.seek(position)
        self.failures[name] = self.failures.get(name, 0) + 1
        wait = backoff(self.failures[name], FIRST_WAIT_SECS)
        self.resting[name] = (time.monotonic() + wait, position)

    def resume(self):
        now = time.monotonic()
        for name, (until, position) in list(self.resting.items()):
            if until <= now:
                del self.resting[name]
                self.consumer.resume([position])
