"""A schema, a topic prefix and a mail server of a test's own, on real servers."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import uuid
from email import message_from_bytes
from pathlib import Path

from aiosmtpd.controller import Controller
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from sqlalchemy import text

from notification_service.cluster import producer_of
from notification_service.models import connect
from notification_service.settings import from_environment
from notification_service.tracing import start_tracing

HERE = Path(__file__).resolve().parent.parent
SQL = HERE / "../../sql/notification-service.sql"
# As `postrider init` makes them for the layout polyshop.
TABLES = """
  CREATE TABLE outbox_events (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_id text NOT NULL,
    event_type text NOT NULL, version integer NOT NULL DEFAULT 1, payload json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    processed boolean NOT NULL DEFAULT false, processed_at timestamptz, error_message text,
    metadata jsonb);
  CREATE TABLE processed_events (
    event_id uuid PRIMARY KEY, processed_at timestamptz NOT NULL DEFAULT now(), event_type text,
    source text);
"""
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
PLACED = "order.order.placed.v1"
PAID = "payment.payment.succeeded.v1"
REGISTERED = "auth.user.registered.v1"


def needed(name):
    if not os.environ.get(name):
        raise RuntimeError(f'please set {name}: eval "$(scripts/services up)"')
    return os.environ[name]


def eventually(what, probe, seconds=30):
    """Waits for `probe` to give something that is true, with a deadline."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = probe()
        if seen:
            return seen
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")


def envelope(event_type, data, **metadata):
    return {
        "eventId": str(uuid.uuid4()),
        "timestamp": "2026-11-18T09:30:00Z",
        "eventType": event_type,
        "version": 1,
        "source": "order-service",
        "data": data,
        "metadata": metadata,
    }


def placed(order_id=None, **more):
    order_id = order_id or str(uuid.uuid4())
    items = [{"productId": "book", "quantity": 2, "price": 750}]
    data = {"orderId": order_id, "userId": "u-1", "items": items, "totalAmount": 1500}
    return envelope(PLACED, data | more)


def paid(order_id, **metadata):
    data = {"paymentId": str(uuid.uuid4()), "orderId": order_id, "userId": "u-1", "amount": 1500}
    return envelope(PAID, data, **metadata)


class Mailbox:
    """A mail server that keeps what it is sent. `answer` is what it says to a mail."""

    def __init__(self):
        self.mails, self.answer = [], "250 OK"
        self.controller = Controller(self, hostname="127.0.0.1", port=free_port())
        self.controller.start()

    async def handle_DATA(self, _server, _session, mail):
        if self.answer.startswith("2"):
            self.mails.append((mail.rcpt_tos, message_from_bytes(mail.content)))
        return self.answer

    @property
    def port(self):
        return self.controller.port


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Shop(unittest.TestCase):
    """What is made for a test goes with it."""

    def open(self, topics=(), mailbox=True, **more):
        self.name = f"python_{uuid.uuid4().hex[:16]}"
        url = needed("POSTRIDER_TEST_POSTGRES_URL")
        joint = "&" if "?" in url else "?"
        self.mailbox = Mailbox() if mailbox else None
        self.environment = {
            "DATABASE_URL": f"{url}{joint}options=-csearch_path%3D{self.name}",
            "KAFKA_BOOTSTRAP": needed("POSTRIDER_TEST_KAFKA"),
            "TOPIC_PREFIX": f"{self.name}.",
            "SMTP_PORT": str(self.mailbox.port if mailbox else free_port()),
        } | more
        self.settings = from_environment(self.environment)
        self.engine = connect(self.settings.database_url)
        self.execute(f"CREATE SCHEMA {self.name}")
        self.execute(SQL.read_text() + TABLES)
        self.producer = producer_of(self.settings)
        self.admin = AdminClient({"bootstrap.servers": self.settings.kafka})
        self.tracer = start_tracing("test").get_tracer("test")
        self.addCleanup(self.close)
        self.create_topics(topics)

    def close(self):
        if self.mailbox:
            self.mailbox.controller.stop()
        names = self.admin.list_topics(timeout=10).topics
        made = [topic for topic in names if topic.startswith(self.settings.prefix)]
        for deleted in (self.admin.delete_topics(made) if made else {}).values():
            deleted.result()
        self.execute(f"DROP SCHEMA {self.name} CASCADE")
        self.engine.dispose()

    def execute(self, sql, **values):
        with self.engine.begin() as connection:
            connection.execute(text(sql), values)

    def rows(self, sql, **values):
        with self.engine.begin() as connection:
            return [tuple(row) for row in connection.execute(text(sql), values)]

    def create_topics(self, event_types, **config):
        """Topics with two partitions."""
        topics = [NewTopic(self.settings.topic(name), 2, 1, config=config) for name in event_types]
        for created in (self.admin.create_topics(topics) if topics else {}).values():
            created.result()

    def send(self, event_type, body, headers=None):
        value = body if isinstance(body, bytes) else json.dumps(body).encode()
        key = "k" if isinstance(body, bytes) else body["data"].get("orderId", "k")
        self.producer.produce(self.settings.topic(event_type), value, key, headers=headers)
        self.assertEqual(self.producer.flush(10), 0)

    def records(self, event_type, count):
        """Waits for so many records of a topic; there must be no more of them."""
        reader = Consumer({
            "bootstrap.servers": self.settings.kafka,
            "group.id": f"{self.name}.reader",
            "enable.partition.eof": True,
        })
        topic, found, ended = self.settings.topic(event_type), [], set()
        reader.assign([TopicPartition(topic, number, 0) for number in (0, 1)])

        def enough():
            message = reader.poll(0.1)
            if message and message.error():
                ended.add(message.partition())
            elif message:
                found.append(message)
                ended.discard(message.partition())
            return len(found) >= count and len(ended) == 2

        try:
            eventually(f"{count} records of {event_type}", enough)
        finally:
            reader.close()
        self.assertEqual(len(found), count)
        return found

    def committed(self, event_type):
        topic = self.settings.topic(event_type)
        group = {"group.id": f"{self.settings.prefix}notification-service"}
        reader = Consumer({"bootstrap.servers": self.settings.kafka} | group)
        found = reader.committed([TopicPartition(topic, number) for number in (0, 1)], timeout=10)
        reader.close()
        return sum(max(position.offset, 0) for position in found)

    def launch(self, module="notification_service"):
        """A program of the service, as a process of its own. Killed with the test."""
        program = Program(self.environment, module)
        self.addCleanup(program.kill)
        return program


class Program:
    def __init__(self, environment, module):
        self.text, self.module = [], module
        ours = {"PYTHONPATH": str(HERE), "LISTEN": "127.0.0.1:0", "PYTHONDONTWRITEBYTECODE": "1"}
        self.child = subprocess.Popen(
            [sys.executable, "-m", module], env=os.environ | environment | ours,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        self.reading = threading.Thread(target=self.read, daemon=True)
        self.reading.start()

    def read(self):
        for line in self.child.stderr:
            self.text.append(line)

    def lines(self):
        return [json.loads(line) for line in list(self.text)]

    def logged(self, message):
        def found():
            return next((line for line in self.lines() if line["message"] == message), None)

        return eventually(f'{self.module} logs "{message}"', found)

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self):
        code = self.child.wait(30)
        self.reading.join(10)
        return code

    def kill(self):
        self.child.kill()
        self.ended()
        self.child.stderr.close()
