"""The whole service as a process: what it consumes, serves and logs."""

import urllib.error
import urllib.request
import uuid
from datetime import datetime

from .fixture import PAID, PARENT, PLACED, REGISTERED, TRACE, Shop, eventually, paid, placed

TOPICS = [topic + end for topic in (PLACED, PAID, REGISTERED) for end in ("", ".dlt")]


def ask(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class Service(Shop):
    # A3-13, A3-14: one confirmation and one receipt; every line about an event has its ids.
    def test_orders_and_payments_are_told_by_mail_the_rest_is_dead_lettered(self):
        self.open(TOPICS)
        program = self.launch()
        program.logged("consumer runs")
        order, dead = placed(), placed(orderId="no-uuid")
        payment = paid(order["data"]["orderId"], traceId=TRACE, traceparent=PARENT)
        for _ in range(2):
            self.send(PLACED, order)
            self.send(PAID, payment, headers={"traceparent": PARENT})
        self.send(PLACED, dead)
        eventually("offsets move on", lambda: self.committed(PLACED) == 3)
        eventually("offsets move on", lambda: self.committed(PAID) == 2)
        self.assertEqual(len(self.mailbox.mails), 2)
        kinds = self.rows("SELECT kind, status FROM notifications ORDER BY kind")
        self.assertEqual(kinds, [("confirmation", "SENT"), ("receipt", "SENT")])
        self.records(f"{PLACED}.dlt", 1)

        port = program.logged("listening")["port"]
        self.assertEqual(ask(port, "/livez"), (200, "ok\n"))
        self.assertEqual(ask(port, "/readyz"), (200, "ok\n"))
        self.assertEqual(ask(port, "/nothing")[0], 404)
        metrics = ask(port, "/metrics")[1]
        counts = {"handled": 2, "duplicates": 2, "dead_lettered": 1, "retried": 0}
        for name, value in counts.items():
            line = f'postrider_consumer_{name}_total{{consumer="notification-service"}} {value}.0\n'
            self.assertIn(line, metrics)
        self.assertEqual(program.stop(), 0)
        about = [line for line in program.lines() if "topic" in line]
        self.assertEqual(len(about), 5)
        for line in about:
            self.assertTrue(line["eventId"] and line["traceId"], line)
        traces = {line["traceId"] for line in about if line["eventId"] == payment["eventId"]}
        self.assertEqual(traces, {TRACE})

    # A3-11: a temporary error is tried again with growing waits, holds back what comes after it,
    # and is no dead letter. Other partitions go on.
    def test_a_temporary_error_is_waited_for(self):
        self.open(TOPICS)
        self.mailbox.answer = "451 please wait"
        program = self.launch()
        order = placed()
        self.send(PLACED, order)
        self.send(PLACED, placed(order["data"]["orderId"]))

        def four():
            lines = [it for it in program.lines() if it["message"] == "failed, is tried again"]
            return len(lines) >= 4 and lines

        failed = eventually("four failures", four)
        self.assertEqual({line["eventId"] for line in failed}, {order["eventId"]})
        third, fourth = (datetime.fromisoformat(failed[n]["timestamp"][:-1]) for n in (2, 3))
        # Half of 400 ms is the least that the third wait can be, 100 ms the most of the first.
        self.assertGreater((fourth - third).total_seconds(), 0.2)
        self.assertEqual(self.committed(PLACED), 0)
        port = program.logged("listening")["port"]
        self.assertEqual(ask(port, "/readyz"), (200, "ok\n"))
        self.mailbox.answer = "250 OK"
        eventually("both are done with", lambda: self.committed(PLACED) == 2)
        self.assertEqual(len(self.mailbox.mails), 1)
        self.records(f"{PLACED}.dlt", 0)
        self.assertEqual(program.stop(), 0)

    def test_a_partition_that_waits_does_not_hold_up_another(self):
        self.open(TOPICS)
        self.execute("ALTER TABLE outbox_events RENAME TO away")
        program = self.launch()
        self.send(PAID, paid(str(uuid.uuid4())))
        program.logged("failed, is tried again")
        # A registration needs no outbox.
        registered = placed() | {"eventType": REGISTERED}
        registered["data"] = {"userId": "u-1", "email": "ada@home.example", "name": "Ada"}
        self.send(REGISTERED, registered)
        program.logged("recipient known")
        self.execute("ALTER TABLE away RENAME TO outbox_events")
        program.logged("sent")
        self.assertEqual(program.stop(), 0)

    def test_a_service_that_lacks_a_setting_says_which(self):
        self.open()
        self.environment["KAFKA_BOOTSTRAP"] = ""
        program = self.launch()
        self.assertEqual(program.ended(), 1)
        self.assertEqual(program.lines()[-1]["error"], "please set KAFKA_BOOTSTRAP")
