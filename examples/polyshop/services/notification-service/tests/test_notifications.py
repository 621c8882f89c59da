"""What events lead to, each delivered by hand to the consumer's code."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor

from notification_service.consumer import Parts, settle
from notification_service.notifications import Notifier

from .fixture import PAID, PARENT, PLACED, REGISTERED, TRACE, Shop, envelope, paid, placed


class Delivery:
    """A message as the consumer would get it."""

    def __init__(self, topic, value, headers=()):
        self.parts = (topic, value, list(headers))

    def topic(self):
        return self.parts[0]

    def value(self):
        return self.parts[1]

    def headers(self):
        return self.parts[2]

    def key(self):
        return b"k"

    def partition(self):
        return 0

    def offset(self):
        return 7


class Notifications(Shop):
    def deliver(self, body, event_type=PLACED):
        value = body if isinstance(body, bytes) else json.dumps(body).encode()
        handlers = Notifier(self.settings.smtp, self.settings.mail_domain).handlers()
        parts = Parts(self.engine, self.producer, self.tracer, lambda _: None, handlers)
        return settle(parts, Delivery(self.settings.topic(event_type), value))

    def counts(self):
        tables = ("processed_events", "notifications", "outbox_events")
        return [self.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables]

    # A3-09, A3-13: one mail, one event, one row of processed_events, also at the same time.
    def test_an_order_is_confirmed_once_however_often_it_is_delivered(self):
        self.open()
        event = placed()
        event["metadata"] = {"traceId": TRACE, "traceparent": PARENT, "correlationId": "c-1"}
        with ThreadPoolExecutor(4) as threads:
            done = list(threads.map(lambda _: self.deliver(event), range(4)))
        self.assertEqual(done, [True] * 4)
        self.assertTrue(self.deliver(event))
        self.assertEqual(self.counts(), [1, 1, 1])

        order = event["data"]["orderId"]
        [(recipients, mail)] = self.mailbox.mails
        self.assertEqual(recipients, ["u-1@polyshop.example"])
        message_id = f"<confirmation.{order}@polyshop.example>"
        self.assertEqual(mail["Message-ID"].strip(), message_id)
        self.assertIn(f"Thank you for your order {order} of 15.00.", mail.get_payload())
        [row] = self.rows("SELECT notification_id, status, recipient FROM notifications")
        self.assertEqual(row, (f"confirmation:{order}", "SENT", "u-1@polyshop.example"))
        columns = "aggregate_id, event_type, version, processed, payload, metadata"
        [(key, kind, version, processed, data, metadata)] = self.rows(
            f"SELECT {columns} FROM outbox_events"
        )
        self.assertEqual((version, processed), (1, False))
        self.assertEqual((key, kind), (f"confirmation:{order}", "notification.email.sent.v1"))
        self.assertEqual(data, {
            "notificationId": key, "kind": "confirmation", "orderId": order, "userId": "u-1",
            "to": "u-1@polyshop.example",
        })
        self.assertRegex(metadata.pop("traceparent"), f"^00-{TRACE}-[0-9a-f]{{16}}-01$")
        self.assertEqual(metadata, {
            "traceId": TRACE, "correlationId": "c-1", "causationId": event["eventId"],
            "userId": "u-1",
        })

    def test_a_payment_has_a_receipt_and_another_event_of_it_no_second_one(self):
        self.open()
        order = str(uuid.uuid4())
        self.assertTrue(self.deliver(paid(order), PAID))
        self.assertTrue(self.deliver(paid(order), PAID))
        self.assertEqual(self.counts(), [2, 1, 1])
        [(_, mail)] = self.mailbox.mails
        self.assertIn(f"We have received 15.00 for your order {order}.", mail.get_payload())

    def test_mail_goes_to_the_address_that_was_registered(self):
        self.open()
        for email in ("old@home.example", "ada@home.example"):
            registered = envelope(REGISTERED, {"userId": "u-1", "email": email, "name": "Ada"})
            self.assertTrue(self.deliver(registered, REGISTERED))
        self.assertTrue(self.deliver(placed()))
        [(recipients, _)] = self.mailbox.mails
        self.assertEqual(recipients, ["ada@home.example"])

    def test_an_email_that_is_no_single_address_is_refused(self):
        self.open([f"{REGISTERED}.dlt"])
        wrong = ["a@b.example, c@d.example", "a", "a@b\r\nBcc: c@d", "a b@c", "", None, 5, "@"]
        for email in wrong:
            data = {"userId": "u-1", "email": email, "name": "Ada"}
            self.assertTrue(self.deliver(envelope(REGISTERED, data), REGISTERED))
        for letter in self.records(f"{REGISTERED}.dlt", len(wrong)):
            message = json.loads(letter.value())["errorMessage"]
            self.assertEqual(message, "Validation failed: email is no address")
        self.assertEqual(self.rows("SELECT 1 FROM recipients"), [])

    # A3-10: the notification, its event and the entry in processed_events are one transaction.
    def test_nothing_is_left_while_the_mail_server_cannot_take_a_mail(self):
        self.open()
        event = placed()
        self.mailbox.answer = "451 please wait"
        self.assertFalse(self.deliver(event))
        self.assertEqual(self.counts(), [0, 0, 0])
        self.mailbox.answer = "250 OK"
        self.assertTrue(self.deliver(event))
        self.assertEqual(self.counts(), [1, 1, 1])
        self.assertEqual(len(self.mailbox.mails), 1)

    def test_a_mail_server_that_is_away_is_a_temporary_error(self):
        self.open(mailbox=False)
        self.assertFalse(self.deliver(placed()))
        self.assertEqual(self.counts(), [0, 0, 0])

    # A mail cannot be taken back: it comes twice after a crash, and can be known by its id.
    def test_a_mail_that_is_sent_again_has_the_same_message_id(self):
        self.open()
        event = placed()
        self.execute("ALTER TABLE outbox_events RENAME TO away")
        self.assertFalse(self.deliver(event))
        self.execute("ALTER TABLE away RENAME TO outbox_events")
        self.assertTrue(self.deliver(event))
        [first, second] = [mail["Message-ID"] for _, mail in self.mailbox.mails]
        self.assertEqual(first, second)
        self.assertEqual(self.counts(), [1, 1, 1])

    # A3-12: what can never be handled is a dead letter and is not entered as processed.
    def test_permanent_errors_go_to_the_dead_letter_topic(self):
        self.open([f"{PLACED}.dlt"])
        wrong = {
            "Validation failed: orderId is no UUID": placed(orderId="no-uuid"),
            "Validation failed: totalAmount is no whole number of cents": placed(totalAmount="x"),
            "Validation failed: no userId": placed(userId=None),
            "Validation failed: userId cannot be part of an address": placed(userId="a\r\nb"),
            "message is no envelope: eventId is no UUID": placed() | {"eventId": "no-uuid"},
            "message is no envelope: data is no object": placed() | {"data": []},
            "message is no envelope: version is no whole number": placed() | {"version": "1"},
            "message is no envelope: metadata is no object": placed() | {"metadata": 1},
            "message is no envelope: it is no JSON object": ["no", "object"],
            "no handler for this eventType": envelope("other", {}),
            # Postgres has no room for this character.
            "PostgreSQL text fields cannot contain NUL (0x00) bytes": placed(userId="a\0b"),
        }
        for body in wrong.values():
            self.assertTrue(self.deliver(body))
        records = self.records(f"{PLACED}.dlt", len(wrong))
        letters = [json.loads(record.value()) for record in records]
        self.assertEqual({letter["errorMessage"] for letter in letters}, set(wrong))
        for letter in letters:
            body = wrong[letter["errorMessage"]]
            self.assertRegex(letter.pop("failedAt"), r"^\d{4}-\d\d-\d\dT[\d:.]+Z$")
            self.assertEqual(letter, {
                "eventId": body["eventId"] if isinstance(body, dict) else None,
                "originalEvent": body,
                "errorMessage": letter["errorMessage"],
                "consumerService": "notification-service",
            })
        self.assertEqual(self.counts(), [0, 0, 0])
        self.assertEqual(self.mailbox.mails, [])

    def test_a_mail_that_is_refused_for_good_is_a_dead_letter(self):
        self.open([f"{PLACED}.dlt"])
        self.mailbox.answer = "550 no such user"
        self.assertTrue(self.deliver(placed()))
        [letter] = self.records(f"{PLACED}.dlt", 1)
        message = json.loads(letter.value())["errorMessage"]
        self.assertEqual(message, "the mail server refuses the mail: 550 no such user")
        self.assertEqual(self.counts(), [0, 0, 0])

    def test_a_message_that_is_no_json_is_its_own_dead_letter(self):
        self.open([f"{PLACED}.dlt"])
        for body in (b"{\xff\0}", b'{"eventId": NaN}', b"[" * 100_000):
            self.assertTrue(self.deliver(body))
        records = self.records(f"{PLACED}.dlt", 3)
        self.assertEqual({len(record.value()) for record in records}, {4, 16, 100_000})
        headers = dict(records[0].headers())
        self.assertEqual(headers["dlt_original_topic"].decode(), self.settings.topic(PLACED))
        self.assertEqual(headers["dlt_original_position"], b"0@7")
        self.assertEqual(headers["dlt_consumer_service"], b"notification-service")
        self.assertIn(b"no JSON object", headers["dlt_error_message"])

    def test_a_message_that_is_too_large_for_the_frame_is_its_own_dead_letter(self):
        self.open()
        self.create_topics([f"{PLACED}.dlt"], **{"max.message.bytes": "3000"})
        # Just below the limit with the headers around it.
        body = json.dumps({"eventId": "no-uuid", "text": "x" * 2500}).encode()
        self.assertTrue(self.deliver(body))
        [letter] = self.records(f"{PLACED}.dlt", 1)
        self.assertEqual(letter.value(), body)
        self.assertEqual(dict(letter.headers())["dlt_event_id"], b"no-uuid")

    def test_a_dead_letter_holds_the_original_to_the_last_digit(self):
        self.open([f"{PLACED}.dlt"])
        body = json.dumps(placed()).replace("1500", "12345678901234567890.10").encode()
        self.assertTrue(self.deliver(body))
        [letter] = self.records(f"{PLACED}.dlt", 1)
        self.assertIn(b'"originalEvent":' + body + b",", letter.value())
