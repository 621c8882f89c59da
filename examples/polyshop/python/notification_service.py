"""notification-service in Python: a confirmation for every order and a receipt for every payment.

Of Postrider it knows the table processed_events and nothing else.
"""

import json
import os
import signal
import sys
import time
from datetime import datetime, timezone

import psycopg
from confluent_kafka import Consumer, Producer

SERVICE = "notification-service"
PREFIX = os.environ.get("TOPIC_PREFIX", "")
KINDS = {
    "order.order.placed.v1": "confirmation",
    "payment.payment.succeeded.v1": "receipt",
}
TEMPORARY = (psycopg.OperationalError, psycopg.InterfaceError)
WAIT_MAX_SECS = 10.0

running = True


def log(level, message, **fields):
    line = {"timestamp": now(), "level": level, "service": SERVICE, "message": message}
    print(json.dumps(line | fields), file=sys.stderr, flush=True)


def now():
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


class Permanent(Exception):
    """What will never succeed: it goes to the dead-letter topic at once."""


def envelope_of(message):
    try:
        envelope = json.loads(message.value())
        return envelope if "eventId" in envelope else None
    except (TypeError, ValueError):
        return None


def notify(database, envelope):
    """Everything that the event leads to, in one transaction; False for one that was processed before."""
    try:
        data, event_id = envelope["data"], envelope["eventId"]
        kind = KINDS[envelope["eventType"]]
        order, user = data["orderId"], data["userId"]
    except (KeyError, TypeError) as error:
        raise Permanent(f"not an event of ours: {error!r}") from error
    with database.transaction():
        entered = database.execute(
            "INSERT INTO processed_events (event_id, event_type, source) VALUES (%s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            (event_id, envelope["eventType"], envelope.get("source")),
        )
        if entered.rowcount == 0:
            return False
        # A real service would hand the mail to its provider after the commit, under the same id.
        database.execute(
            "INSERT INTO notifications (notification_id, event_id, kind, order_id, user_id)"
            " VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (f"{kind}:{order}", event_id, kind, order, user),
        )
    return True


def bury(producer, message, envelope, error):
    """Acknowledged by the broker before the original is. Not in processed_events: sent again, it runs."""
    original = envelope if envelope is not None else (message.value() or b"").decode(errors="replace")
    letter = {
        "eventId": envelope and envelope["eventId"],
        "originalEvent": original,
        "errorMessage": str(error),
        "failedAt": now(),
        "consumerService": SERVICE,
    }
    refused = []
    producer.produce(
        f"{message.topic()}.dlt", json.dumps(letter), message.key(),
        on_delivery=lambda problem, _: refused.append(problem) if problem else None,
    )
    if producer.flush(30) or refused:
        raise psycopg.OperationalError(f"no dead letter: {refused}")


def settle(connect, producer, message):
    """Until the event is done with or the service stops. True when the offset may move on."""
    envelope, wait = envelope_of(message), 0.1
    metadata = (envelope or {}).get("metadata") or {}
    ids = {"eventId": (envelope or {}).get("eventId"), "traceId": metadata.get("traceId")}
    while running:
        try:
            try:
                if envelope is None:
                    raise Permanent("message is no envelope")
                first = notify(connect(), envelope)
                log("INFO", "sent" if first else "duplicate", **ids)
            except (Permanent, psycopg.DataError, psycopg.IntegrityError) as error:
                bury(producer, message, envelope, error)
                log("ERROR", "dead-lettered", error=str(error), **ids)
            return True
        except TEMPORARY as error:
            log("WARN", "failed, is tried again", error=str(error), **ids)
            time.sleep(wait)
            wait = min(wait * 2, WAIT_MAX_SECS)
    return False


def main():
    cluster = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"], "client.id": SERVICE}
    producer = Producer(cluster)
    group = {"group.id": PREFIX + SERVICE, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer(cluster | group)
    consumer.subscribe([PREFIX + event_type for event_type in KINDS])
    log("INFO", "consumer runs")
    database = None

    def connect():
        nonlocal database
        if database is None or database.closed:
            database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        return database

    while running:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            log("WARN", "no message", error=str(message.error()))
        elif settle(connect, producer, message):
            consumer.commit(message, asynchronous=False)
    consumer.close()


def stop(*_):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
main()
