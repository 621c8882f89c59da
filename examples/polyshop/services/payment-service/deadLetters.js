// {topic}.dlt: where a message goes that can never be handled. Its letter is acknowledged by the
// broker before the message's own offset moves on. The event is not in processed_events: sent
// again, it runs.
'use strict';
const { brokerError } = require('./errors');
const { SERVICE } = require('./settings');

async function bury(producer, { topic, partition, message }, opened, error) {
  const failedAt = new Date().toISOString();
  const headers = {
    ...message.headers,
    dlt_error_message: error.message.slice(0, 1000),
    dlt_failed_at: failedAt,
    dlt_consumer_service: SERVICE,
    dlt_original_topic: topic,
    dlt_original_position: `${partition}@${message.offset}`,
  };
  if (opened.eventId) headers.dlt_event_id = opened.eventId;
  const send = (value) =>
    producer.send({ topic: `${topic}.dlt`, messages: [{ key: message.key, value, headers }] });
  if (opened.text === undefined) {
    await send(message.value);
    return;
  }
  const facts = { errorMessage: error.message, failedAt, consumerService: SERVICE };
  // The original as it came: parsing it would round large numbers.
  const eventId = JSON.stringify(opened.eventId ?? null);
  const rest = JSON.stringify(facts).slice(1);
  const letter = `{"eventId":${eventId},"originalEvent":${opened.text},${rest}`;
  try {
    await send(letter);
  } catch (refused) {
    if (brokerError(refused) !== 'MESSAGE_TOO_LARGE') throw refused;
    // The frame was too much for the broker; the message alone was not. The headers say the rest.
    await send(message.value);
  }
}

module.exports = { bury };
