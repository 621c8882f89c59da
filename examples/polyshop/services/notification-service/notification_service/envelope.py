"""The event on the wire: {eventId, timestamp, eventType, version, source, data, metadata}."""

import json
import re

from .errors import Permanent

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def refuse(constant):
    raise ValueError(f"{constant} is no JSON")


def read(value):
    """A message's text and JSON, or (None, None). Nothing is assumed about it."""
    try:
        text = (value or b"").decode("utf-8")
        return text, json.loads(text, parse_constant=refuse)
    # JSON that is nested without end is none that we could read.
    except (ValueError, RecursionError):
        return None, None


def is_uuid(value):
    return isinstance(value, str) and UUID.fullmatch(value) is not None


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def envelope_of(body):
    """The envelope that a message's JSON must be."""
    checks = (
        (isinstance(body, dict), "it is no JSON object"),
        (lambda: is_uuid(body.get("eventId")), "eventId is no UUID"),
        (lambda: isinstance(body.get("eventType"), str), "no eventType"),
        (lambda: is_whole(body.get("version")), "version is no whole number"),
        (lambda: isinstance(body.get("data"), dict), "data is no object"),
        (lambda: isinstance(body.get("metadata", {}), dict), "metadata is no object"),
    )
    for holds, problem in checks:
        if not (holds() if callable(holds) else holds):
            raise Permanent(f"message is no envelope: {problem}")
    return body


def written(row, source):
    """What goes to the broker for a row of outbox_events.

    Payload and metadata are put in as they stand in the table, since parsing would round numbers;
    what the row does not know is absent.
    """
    metadata = row.metadata or "{}"
    if not isinstance(json.loads(metadata), dict):
        raise Permanent("metadata of the row is no JSON object")
    head = {
        "eventId": str(row.id),
        "timestamp": row.created_at,
        "eventType": row.event_type,
        "version": row.version,
        "source": source,
    }
    return f'{json.dumps(head)[:-1]}, "data": {row.payload}, "metadata": {metadata}}}'
