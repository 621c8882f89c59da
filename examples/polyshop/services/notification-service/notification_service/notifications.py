"""Mails: what events lead to, in the transaction that the event is entered in.

A mail is sent within that transaction, after its row is written and before it commits. The row is
its lock and its memory: a mail is sent twice only if the service dies between the two, and then
with the same Message-ID.
"""

import uuid
from dataclasses import dataclass

from sqlalchemy import func
from sqlalchemy.dialects.postgresql import insert

from . import mail
from .envelope import is_uuid, is_whole
from .errors import Permanent
from .models import Notification, OutboxEvent, Recipient

EMAIL_SENT = "notification.email.sent.v1"


@dataclass(frozen=True)
class Notifier:
    """Handlers by event type. Each returns what it has done, for the log."""

    smtp: tuple
    domain: str

    def handlers(self):
        return {
            "order.order.placed.v1": self.confirm,
            "payment.payment.succeeded.v1": self.receipt,
            "auth.user.registered.v1": remember,
        }

    def confirm(self, session, event_id, data, metadata):
        total = amount(data, "totalAmount")
        text = f"Thank you for your order {data.get('orderId')} of {total}."
        return self.notify(session, event_id, "confirmation", data, text, metadata)

    def receipt(self, session, event_id, data, metadata):
        total = amount(data, "amount")
        text = f"We have received {total} for your order {data.get('orderId')}."
        return self.notify(session, event_id, "receipt", data, text, metadata)

    def notify(self, session, event_id, kind, data, text, metadata):
        order_id, user_id = order_of(data), user_of(data)
        notification_id = f"{kind}:{order_id}"
        row = insert(Notification).on_conflict_do_nothing().values(
            notification_id=notification_id,
            event_id=event_id,
            kind=kind,
            order_id=order_id,
            user_id=user_id,
            status="PENDING",
        ).returning(Notification.notification_id)
        if session.scalar(row) is None:
            return "sent before"
        known = session.get(Recipient, user_id)
        to = known.email if known else mail.address_of(user_id, self.domain)
        message_id = f"{kind}.{order_id}@{self.domain}"
        subject = f"Your order {order_id}: {kind}"
        sender = f"PolyShop <shop@{self.domain}>"
        mail.post(self.smtp, mail.compose(sender, to, message_id, subject, text))

        notification = session.get(Notification, notification_id)
        notification.status, notification.recipient = "SENT", to
        notification.sent_at = func.clock_timestamp()
        sent = {
            "notificationId": notification_id,
            "kind": kind,
            "orderId": data["orderId"],
            "userId": user_id,
            "to": to,
        }
        session.add(OutboxEvent(
            aggregate_id=notification_id,
            event_type=EMAIL_SENT,
            payload=sent,
            event_metadata=metadata | {"userId": user_id},
        ))
        return "sent"


def remember(session, _event_id, data, _metadata):
    user_id, email = user_of(data), mail.one_address(data.get("email"))
    known = insert(Recipient).values(user_id=user_id, email=email)
    session.execute(known.on_conflict_do_update(index_elements=["user_id"], set_={"email": email}))
    return "recipient known"


def check(holds, problem):
    if not holds:
        raise Permanent(f"Validation failed: {problem}")


def order_of(data):
    check(is_uuid(data.get("orderId")), "orderId is no UUID")
    return uuid.UUID(data["orderId"])


def user_of(data):
    user_id = data.get("userId")
    check(isinstance(user_id, str) and user_id, "no userId")
    return user_id


def amount(data, name):
    cents = data.get(name)
    check(is_whole(cents) and cents >= 0, f"{name} is no whole number of cents")
    return f"{cents // 100}.{cents % 100:02}"
