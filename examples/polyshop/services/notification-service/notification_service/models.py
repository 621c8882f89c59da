"""The service's tables, for SQLAlchemy, and its transactions."""

import uuid
from datetime import datetime
from typing import Any, Optional

from sqlalchemy import JSON, FetchedValue, create_engine, make_url
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Table(DeclarativeBase):
    """What all tables are declared with."""


class OutboxEvent(Table):
    """An event that is to be published, or was.

    It is to be sent while `processed` is false. It was sent if `processed` is true and there is no
    `error_message`, and given up ("dead") if there is one.
    """

    __tablename__ = "outbox_events"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    aggregate_id: Mapped[str]
    event_type: Mapped[str]
    version: Mapped[int] = mapped_column(default=1)
    payload: Mapped[Any] = mapped_column(JSON)
    event_metadata: Mapped[Optional[dict]] = mapped_column("metadata", JSONB(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(server_default=FetchedValue())
    processed: Mapped[bool] = mapped_column(server_default=FetchedValue())
    processed_at: Mapped[Optional[datetime]]
    error_message: Mapped[Optional[str]]


class ProcessedEvent(Table):
    """An event whose effects are in this database."""

    __tablename__ = "processed_events"

    event_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    processed_at: Mapped[datetime] = mapped_column(server_default=FetchedValue())
    event_type: Mapped[Optional[str]]
    source: Mapped[Optional[str]]


class Notification(Table):
    """A mail, by the id that it carries."""

    __tablename__ = "notifications"

    notification_id: Mapped[str] = mapped_column(primary_key=True)
    event_id: Mapped[uuid.UUID] = mapped_column()
    kind: Mapped[str]
    order_id: Mapped[uuid.UUID]
    user_id: Mapped[str]
    sent_at: Mapped[datetime] = mapped_column(server_default=FetchedValue())
    status: Mapped[str]
    recipient: Mapped[Optional[str]]


class Recipient(Table):
    """Where a user gets mail."""

    __tablename__ = "recipients"

    user_id: Mapped[str] = mapped_column(primary_key=True)
    email: Mapped[str]


def connect(database_url):
    """Connections to the database; they are made when they are first used."""
    url = make_url(database_url).set(drivername="postgresql+psycopg")
    # A server that has fallen silent is a temporary error, not a service that stands still.
    silent = {"connect_timeout": 10, "keepalives_idle": 10, "tcp_user_timeout": 30_000}
    return create_engine(url, pool_size=4, pool_pre_ping=True, connect_args=silent)
