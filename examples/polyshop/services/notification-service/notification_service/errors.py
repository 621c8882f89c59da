"""Which errors are worth another try."""

import random

from confluent_kafka import KafkaException
from sqlalchemy.exc import DataError, IntegrityError


class Permanent(Exception):
    """What will never succeed: it goes to the dead-letter topic at once."""


# Beside our own, what Postgres refuses: data that a column cannot hold and broken constraints. All
# else is tried again: to wait for nothing is a delay, to give up too early is a loss.
PERMANENT = (Permanent, DataError, IntegrityError)


def message_of(error):
    """One line; of the database's errors without the statement, whose parameters are payload."""
    if isinstance(error, KafkaException):
        return error.args[0].str()
    text = str(getattr(error, "orig", None) or error)
    return text.splitlines()[0] if text else repr(error)


def backoff(failures, first, limit=10.0):
    """Seconds that double up to a limit, with jitter: of 1, 2, 3… failures in a row."""
    whole = min(first * 2 ** min(failures - 1, 30), limit)
    return random.uniform(whole / 2, whole)
