"""The Kafka cluster's clients."""

from confluent_kafka import Consumer, Producer

from .settings import SERVICE


def silent(_):
    """An outage is logged by whoever it keeps from working, with the ids of the event."""


def producer_of(settings, **more):
    """Sends with the acknowledgement of all replicas; who sends deals with failures."""
    return Producer({
        "bootstrap.servers": settings.kafka,
        "client.id": SERVICE,
        "acks": "all",
        # A batch would be refused for its size where each of its records is not.
        "batch.num.messages": 1,
        "linger.ms": 0,
        "delivery.timeout.ms": 10_000,
        "request.timeout.ms": 5_000,
        # The broker decides what is too large.
        "message.max.bytes": 100_000_000,
        "error_cb": silent,
        "log_level": 0,
    } | more)


def consumer_of(settings):
    return Consumer({
        "bootstrap.servers": settings.kafka,
        "client.id": SERVICE,
        "group.id": settings.prefix + SERVICE,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 10_000,
        "error_cb": silent,
        "log_level": 0,
    })
