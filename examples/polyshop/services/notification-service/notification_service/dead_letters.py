"""{topic}.dlt: where a message goes that can never be handled.

Its letter is acknowledged by the broker before the message's own offset moves on. The event is not
in processed_events: sent again, it runs.
"""

import json

from confluent_kafka import KafkaError, KafkaException

from .log import now
from .settings import SERVICE

ACKNOWLEDGED_WITHIN_SECS = 15


def bury(producer, message, event_id, text, error):
    failed_at = now()
    notes = {
        "dlt_error_message": error[:1000],
        "dlt_failed_at": failed_at,
        "dlt_consumer_service": SERVICE,
        "dlt_original_topic": message.topic(),
        "dlt_original_position": f"{message.partition()}@{message.offset()}",
    }
    if event_id:
        notes["dlt_event_id"] = event_id
    kept = [(name, value) for name, value in message.headers() or [] if name not in notes]
    headers = kept + [(name, value.encode()) for name, value in notes.items()]
    topic = f"{message.topic()}.dlt"
    if text is None:
        send(producer, topic, message.key(), message.value(), headers)
        return
    facts = {"errorMessage": error, "failedAt": failed_at, "consumerService": SERVICE}
    # The original as it came: parsing it would round numbers.
    letter = f'{{"eventId":{json.dumps(event_id)},"originalEvent":{text},' + json.dumps(facts)[1:]
    try:
        send(producer, topic, message.key(), letter.encode(), headers)
    except KafkaException as refused:
        if refused.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
            raise
        # The frame was too much for the broker, the message alone was not. Headers say the rest.
        send(producer, topic, message.key(), message.value(), headers)


def send(producer, topic, key, value, headers):
    """Returns when the broker has it."""
    outcome = []
    told = lambda error, _: outcome.append(error)
    producer.produce(topic, value, key, headers=headers, on_delivery=told)
    producer.flush(ACKNOWLEDGED_WITHIN_SECS)
    if not outcome:
        raise TimeoutError(f"{topic} does not acknowledge")
    if outcome[0] is not None:
        raise KafkaException(outcome[0])
