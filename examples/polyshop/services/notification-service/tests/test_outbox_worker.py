"""The worker on real tables and topics: order, failures, outages, death."""

import json
import random
import threading
from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec
from sqlalchemy import text
from sqlalchemy.orm import Session

from notification_service.cluster import producer_of
from notification_service.models import OutboxEvent, connect
from notification_service.outbox_worker import Worker

from .fixture import PARENT, TRACE, Shop, eventually, free_port

EVENT = "notification.email.sent.v1"
FAST = {"RETRY_SLEEP_MS": "5", "IDLE_SLEEP_MS": "20"}


# Ends whoever works on a schema's outbox.
TERMINATE = """
  SELECT pg_terminate_backend(pid) FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
  WHERE c.relname = 'outbox_events' AND c.relnamespace = CAST(:name AS regnamespace)
    AND pid <> pg_backend_pid()"""


class Unsteady:
    """The real producer behind a network that loses requests and acknowledgements."""

    def __init__(self, producer):
        self.producer, self.failures = producer, 0

    def produce(self, *given, on_delivery, **named):
        chance = random.random()
        if chance < 0.1:
            self.failures += 1
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "cut"))
        if chance > 0.9:
            self.failures += 1
            lost = KafkaError(KafkaError._TIMED_OUT, "acknowledgement lost")
            self.producer.produce(*given, **named, on_delivery=lambda *_: on_delivery(lost, None))
        else:
            self.producer.produce(*given, **named, on_delivery=on_delivery)

    def flush(self, *given):
        return self.producer.flush(*given)


class OutboxWorker(Shop):
    def insert(self, key, payload, event_type=EVENT, metadata=None):
        event = OutboxEvent(
            aggregate_id=key, event_type=event_type, payload=payload, event_metadata=metadata
        )
        with Session(self.engine) as session, session.begin():
            session.add(event)
            session.flush()
            return str(event.id)

    def worker(self, engine=None, producer=None):
        engine, producer = engine or self.engine, producer or self.producer
        return Worker(engine, producer, self.tracer, lambda _: None, self.settings)

    def run_until(self, workers, what, probe):
        stopping = threading.Event()
        threads = [threading.Thread(target=worker.run, args=[stopping]) for worker in workers]
        for thread in threads:
            thread.start()
        try:
            return eventually(what, probe)
        finally:
            stopping.set()
            for thread in threads:
                thread.join(30)

    def left(self):
        return self.rows("SELECT count(*) FROM outbox_events WHERE NOT processed")[0][0]

    # A3-02, A3-03, A3-04: the envelope is the row, and the row is settled after the send.
    def test_a_row_becomes_one_record_with_its_envelope(self):
        self.open([EVENT])
        metadata = {"traceId": TRACE, "traceparent": PARENT, "correlationId": "c", "userId": "u"}
        event_id = self.insert("receipt:1", {"n": 5}, metadata=metadata)
        self.assertEqual(self.worker().run_pass(), 1)
        [record] = self.records(EVENT, 1)
        self.assertEqual(record.key(), b"receipt:1")
        self.assertEqual(dict(record.headers())["traceparent"].decode(), PARENT)
        [(created_at,)] = self.rows("SELECT created_at FROM outbox_events")
        value = json.loads(record.value())
        self.assertEqual(value.pop("timestamp")[:-1], created_at.isoformat()[:26])
        self.assertEqual(value, {
            "eventId": event_id, "eventType": EVENT, "version": 1,
            "source": "notification-service", "data": {"n": 5}, "metadata": metadata,
        })
        state = "SELECT processed, processed_at > created_at, error_message FROM outbox_events"
        self.assertEqual(self.rows(state), [(True, True, None)])
        self.assertEqual(self.worker().run_pass(), 0)

    # A3-15: a row by plain SQL, with no more than the columns that have no default.
    def test_a_row_without_metadata_has_an_envelope_without_any(self):
        self.open([EVENT])
        payload = '{"n":  12345678901234567890.10}'
        insert = "INSERT INTO outbox_events (aggregate_id, event_type, payload)"
        values = "VALUES ('k', :kind, CAST(:payload AS json))"
        self.execute(f"{insert} {values}", kind=EVENT, payload=payload)
        self.worker().run_pass()
        [record] = self.records(EVENT, 1)
        self.assertTrue(record.value().decode().endswith(f'"data": {payload}, "metadata": {{}}}}'))
        self.assertNotIn("traceparent", dict(record.headers()))

    # A3-07: several workers, sends that fail before and after the broker has them, order per key.
    def test_each_key_is_published_in_order_by_several_workers_with_failures(self):
        self.open([EVENT], BATCH_SIZE="20", **FAST)
        keys, each = 8, 12
        for number in range(each):
            for key in range(keys):
                self.insert(f"key-{key}", {"number": number})
        engines = [connect(self.settings.database_url) for _ in range(3)]
        producers = [Unsteady(producer_of(self.settings)) for _ in engines]
        workers = [self.worker(*parts) for parts in zip(engines, producers)]
        self.run_until(workers, "all is published", lambda: self.left() == 0)
        for engine in engines:
            engine.dispose()
        self.assertGreater(sum(producer.failures for producer in producers), 0)
        errors = "SELECT count(*) FROM outbox_events WHERE error_message IS NOT NULL"
        self.assertEqual(self.rows(errors), [(0,)])

        seen = {}
        ends = self.end_offsets(EVENT)
        for record in self.records(EVENT, ends):
            number = json.loads(record.value())["data"]["number"]
            numbers = seen.setdefault(record.key(), [])
            # A repetition is of the event before; the first of each comes in order.
            if [number] != numbers[-1:]:
                numbers.append(number)
        self.assertEqual(len(seen), keys)
        for numbers in seen.values():
            self.assertEqual(numbers, list(range(each)))

    def end_offsets(self, event_type):
        topic = self.settings.topic(event_type)
        ends = {TopicPartition(topic, number): OffsetSpec.latest() for number in (0, 1)}
        return sum(end.result().offset for end in self.admin.list_offsets(ends).values())

    def test_rows_that_one_worker_holds_are_not_sent_by_another(self):
        self.open([EVENT])
        for key, number in (("a", 0), ("a", 1), ("b", 0)):
            self.insert(key, {"number": number})
        with self.engine.connect() as holder, holder.begin():
            rows = "SELECT 1 FROM outbox_events WHERE aggregate_id = 'a' ORDER BY created_at"
            holder.execute(text(f"{rows} LIMIT 1 FOR UPDATE"))
            self.assertEqual(self.worker().run_pass(), 1)
        sent = "SELECT aggregate_id FROM outbox_events WHERE processed"
        self.assertEqual(self.rows(sent), [("b",)])

    # A3-05: while the broker is away a row stays, with the reason; it is sent when it is back.
    def test_rows_wait_for_the_broker_and_lose_their_errors_when_they_are_sent(self):
        self.open([EVENT], **FAST)
        for key, number in (("a", 0), ("a", 1), ("b", 2)):
            self.insert(key, {"number": number})
        soon = {"delivery.timeout.ms": 600, "request.timeout.ms": 500}
        away = replace(self.settings, kafka=f"127.0.0.1:{free_port()}")
        worker = self.worker(producer=producer_of(away, **soon))
        state = "SELECT processed, error_message FROM outbox_events ORDER BY created_at"
        worker.run_pass()
        timed_out = (False, "Local: Message timed out")
        self.assertEqual(self.rows(state), [timed_out, (False, None), timed_out])
        worker.producer = self.producer
        self.run_until([worker], "all is published", lambda: self.left() == 0)
        self.assertEqual(self.rows(state), [(True, None)] * 3)
        sent = [json.loads(record.value()) for record in self.records(EVENT, 3)]
        numbers = [event["data"]["number"] for event in sent]
        self.assertLess(numbers.index(0), numbers.index(1))

    def test_a_key_that_has_failed_rests_and_others_do_not(self):
        self.open([EVENT], RETRY_SLEEP_MS="10000")
        away = replace(self.settings, kafka=f"127.0.0.1:{free_port()}")
        soon = {"delivery.timeout.ms": 300, "request.timeout.ms": 200}
        worker = self.worker(producer=producer_of(away, **soon))
        self.insert("a", {})
        self.assertEqual(worker.run_pass(), 1)
        worker.producer = self.producer
        self.insert("b", {})
        self.assertEqual(worker.run_pass(), 1)
        self.assertEqual(worker.run_pass(), 0)
        sent = "SELECT aggregate_id FROM outbox_events WHERE processed"
        self.assertEqual(self.rows(sent), [("b",)])

    # A3-08: what the broker will never take is told apart from what it has, and starves nobody.
    def test_dead_rows_hold_back_their_own_keys_only(self):
        self.open(BATCH_SIZE="3", **FAST)
        self.create_topics([EVENT], **{"max.message.bytes": "2000"})
        for key in range(5):
            self.insert(f"dead-{key}", {"text": "x" * 4000})
        self.insert("no topic", {}, event_type="no topic!")
        self.insert("dead-0", {"number": 1})
        self.insert("alive", {"number": 2})
        worker = self.worker()
        worker.prepare()
        while worker.run_pass():
            pass
        dead = "SELECT count(*) FROM outbox_events WHERE processed AND error_message IS NOT NULL"
        self.assertEqual(self.rows(dead), [(6,)])
        [record] = self.records(EVENT, 1)
        self.assertEqual(record.key(), b"alive")
        self.assertEqual(self.left(), 1)

        # Somebody decides that the key goes on without it.
        freed = "aggregate_id = 'dead-0' AND processed"
        self.execute(f"UPDATE outbox_events SET error_message = NULL WHERE {freed}")
        self.assertEqual(worker.run_pass(), 1)
        self.assertEqual(self.left(), 0)

    # A3-06: what a worker sent and did not write down is sent again under the same id.
    def test_a_worker_that_dies_between_the_send_and_the_commit_sends_again(self):
        self.open([EVENT])
        event_id = self.insert("a", {})
        shop = self

        class Dies(Unsteady):
            def produce(self, *given, **named):
                self.producer.produce(*given, **named)

            def flush(self, *given):
                self.producer.flush(*given)
                shop.rows(TERMINATE, name=shop.name)

        engine = connect(self.settings.database_url)
        with self.assertRaises(Exception):
            self.worker(engine, Dies(self.producer)).run_pass()
        engine.dispose()
        self.assertEqual(self.left(), 1)
        self.assertEqual(self.worker().run_pass(), 1)
        ids = [json.loads(record.value())["eventId"] for record in self.records(EVENT, 2)]
        self.assertEqual(ids, [event_id, event_id])

    def test_what_was_sent_long_ago_is_purged_and_nothing_else(self):
        self.open(OUTBOX_KEEP_DAYS="7")
        old, recent, dead, _waiting = (self.insert(key, {}) for key in "abcd")
        change = "UPDATE outbox_events SET processed = true, processed_at = now()"
        self.execute(f"{change} WHERE id = :id", id=recent)
        change += " - interval '8 days'"
        self.execute(f"{change} WHERE id = :id", id=old)
        self.execute(f"{change}, error_message = 'x' WHERE id = :id", id=dead)
        self.worker().purge()
        left = [key for (key,) in self.rows("SELECT aggregate_id FROM outbox_events ORDER BY 1")]
        self.assertEqual(left, ["b", "c", "d"])

    def test_the_worker_is_a_process_that_stops_when_it_is_told_to(self):
        self.open([EVENT], **FAST)
        event_id = self.insert("a", {}, metadata={"traceId": TRACE, "traceparent": PARENT})
        program = self.launch("notification_service.outbox_worker")
        line = program.logged("published")
        self.assertEqual((line["eventId"], line["traceId"]), (event_id, TRACE))
        self.assertEqual(program.stop(), 0)
