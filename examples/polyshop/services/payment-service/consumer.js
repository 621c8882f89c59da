// Consumes events, each once: it is entered in processed_events in the transaction of its effects.
//
// Order is kept per partition, and so per key. A temporary error stops its partition alone and is
// tried again with growing waits, for as long as it lasts. A permanent one goes to the dead-letter
// topic. An offset moves on when the transaction has committed or the dead letter is acknowledged,
// never before.
'use strict';
const { transaction } = require('./database');
const { bury } = require('./deadLetters');
const { envelopeOf, isObject, read } = require('./envelope');
const { PermanentError, backoffMs, isPermanent } = require('./errors');
const { log } = require('./log');
const { contextOf, fail, startConsume, traceparentOf } = require('./tracing');

const FIRST_WAIT_MS = 100;

/** What can be known of a message before it is known to be an event. */
function open({ message }) {
  const { text, json } = read(message.value);
  const known = isObject(json) ? json : {};
  const metadata = isObject(known.metadata) ? known.metadata : {};
  return {
    text,
    json,
    eventId: typeof known.eventId === 'string' ? known.eventId : undefined,
    traceId: typeof metadata.traceId === 'string' ? metadata.traceId : undefined,
    correlationId: metadata.correlationId,
    traceparent: traceparentOf(message, metadata),
  };
}

/** Applies an event to the database. Nothing happens to one that was processed before. */
async function apply({ pool, handlers }, opened, trace) {
  const { eventId, eventType, source, data } = envelopeOf(opened.json);
  if (!Object.hasOwn(handlers, eventType)) {
    throw new PermanentError('no handler for this eventType');
  }
  const cause = { ...trace, correlationId: opened.correlationId, causationId: eventId };
  return transaction(pool, async (tx) => {
    // First, not last: of two deliveries at once the second waits here for the first one's end.
    const entered = await tx.query(
      `INSERT INTO processed_events (event_id, event_type, source) VALUES ($1, $2, $3)
       ON CONFLICT (event_id) DO NOTHING`,
      [eventId, eventType, source],
    );
    if (entered.rowCount === 0) return undefined;
    return handlers[eventType](tx, data, cause);
  });
}

/** Is done with a delivery, or not: then it has to be tried again. */
async function settle(parts, delivery) {
  const opened = open(delivery);
  const { topic } = delivery;
  const attributes = { topic, 'event.id': opened.eventId };
  const span = startConsume(parts.tracer, opened.traceparent, attributes);
  const trace = contextOf(span);
  // An event that names its trace without a parent keeps that name.
  if (opened.traceId && opened.traceId !== trace.traceId) {
    trace.traceId = opened.traceId;
    trace.traceparent = undefined;
  }
  const ids = { eventId: opened.eventId, traceId: trace.traceId, topic };
  try {
    const done = await apply(parts, opened, trace);
    parts.count[done ? 'handled' : 'duplicates']();
    log('INFO', done ?? 'duplicate', ids);
    return true;
  } catch (error) {
    fail(span, error);
    return await rejected(parts, delivery, opened, error, ids);
  } finally {
    span.end();
  }
}

async function rejected({ producer, count }, delivery, opened, error, ids) {
  let cause = error;
  if (isPermanent(error)) {
    try {
      await bury(producer, delivery, opened, error);
      count.dead_lettered();
      log('ERROR', 'dead-lettered', { ...ids, error: error.message });
      return true;
    } catch (refused) {
      cause = new Error(`${error.message}; and there is no dead letter: ${refused.message}`);
    }
  }
  count.retried();
  log('WARN', 'failed, is tried again', { ...ids, error: cause.message });
  return false;
}

/** Consumes until it is stopped. `runs()` tells whether it is a member of its group. */
async function startConsumer(kafka, parts, { service, prefix }, crashed) {
  const groupId = `${prefix}${service}`;
  const consumer = kafka.consumer({ groupId, metadataMaxAge: 10_000, maxWaitTimeInMs: 500 });
  const failures = new Map();
  const timers = new Set();
  let joined = false;

  function retryLater(partition, pause) {
    failures.set(partition, (failures.get(partition) ?? 0) + 1);
    const resume = pause();
    const timer = setTimeout(() => {
      timers.delete(timer);
      resume();
    }, backoffMs(failures.get(partition), FIRST_WAIT_MS));
    timers.add(timer);
  }

  async function eachBatch({ batch: { topic, partition, messages }, ...group }) {
    const name = `${topic}/${partition}`;
    for (const message of messages) {
      if (!group.isRunning() || group.isStale()) return;
      if (!(await settle(parts, { topic, partition, message }))) {
        // What was not resolved is fetched again; other partitions go on.
        retryLater(name, group.pause);
        return;
      }
      failures.delete(name);
      group.resolveOffset(message.offset);
      await group.commitOffsetsIfNecessary();
      await group.heartbeat();
    }
  }

  consumer.on(consumer.events.GROUP_JOIN, () => { joined = true; });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    joined = false;
    log('ERROR', 'consumer crashed', { error: payload.error.message });
    // A service that no longer consumes must not look as if it did.
    if (!payload.restart) crashed();
  });
  await consumer.connect();
  const topics = Object.keys(parts.handlers).map((eventType) => prefix + eventType);
  await consumer.subscribe({ topics, fromBeginning: true });
  await consumer.run({
    eachBatch,
    eachBatchAutoResolve: false,
    partitionsConsumedConcurrently: 4,
    autoCommitInterval: 1000,
  });
  const stop = () => {
    timers.forEach(clearTimeout);
    return consumer.disconnect();
  };
  return { stop, runs: () => joined };
}

module.exports = { settle, startConsumer };
