// The event on the wire: {eventId, timestamp, eventType, version, source, data, metadata}.
'use strict';
const { PermanentError } = require('./errors');

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A message's body: its text and value where it is JSON. Nothing is assumed about it. */
function read(value) {
  try {
    const text = utf8.decode(value ?? undefined);
    return { text, json: JSON.parse(text) };
  } catch {
    return {};
  }
}

function check(holds, problem) {
  if (!holds) throw new PermanentError(`message is no envelope: ${problem}`);
}

/** The envelope that a value must be. */
function envelopeOf(json) {
  check(isObject(json), 'it is no JSON object');
  const { eventId, eventType, source, version, data, metadata } = json;
  check(isUuid(eventId), 'eventId is no UUID');
  check(typeof eventType === 'string', 'no eventType');
  check(Number.isInteger(version), 'version is no whole number');
  check(isObject(data), 'data is no object');
  check(metadata === undefined || isObject(metadata), 'metadata is no object');
  const from = typeof source === 'string' ? source : null;
  return { eventId, eventType, source: from, data, metadata: metadata ?? {} };
}

/**
 * What goes to the broker for a row of outbox_events. Payload and metadata are put in as they
 * stand in the table, since parsing would round large numbers; what the row does not know is
 * absent.
 */
function written(row, source) {
  const metadata = row.metadata ?? '{}';
  if (!isObject(JSON.parse(metadata))) throw new PermanentError('metadata is no JSON object');
  const { id, createdAt, eventType, version } = row;
  const head = JSON.stringify({ eventId: id, timestamp: createdAt, eventType, version, source });
  return `${head.slice(0, -1)},"data":${row.payload},"metadata":${metadata}}`;
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isUuid = (value) => typeof value === 'string' && UUID.test(value);

module.exports = { read, envelopeOf, written, isObject, isUuid };
