// Publishes outbox_events: a process of its own, `node outboxWorker.js`, as many of them as one
// likes.
//
// By default `postrider relay` does this work. NEVER RUN BOTH ON ONE TABLE: each keeps the order of
// a key by locks that the other one does not know, so both would send the same rows, and a key's
// events might overtake each other.
//
// A pass is one transaction. It claims rows with FOR UPDATE SKIP LOCKED, sends them, writes down
// what became of each, and commits; until then the locks are held. A row is processed after the
// broker has acknowledged it, never before. If the worker dies in between, the rows are sent again
// with the same eventId. After a failure the later rows of its key wait, and the key rests, for
// longer each time; other keys go on. What the broker will never take is given up: it stays in the
// table, processed and with its error_message, and its key waits for somebody to decide about it.
'use strict';
const { setTimeout: sleep } = require('node:timers/promises');
const { connect, transaction } = require('./database');
const { written } = require('./envelope');
const { PermanentError, backoffMs, brokerError } = require('./errors');
const { databaseProblem, outboxMetrics, serve } = require('./http');
const { cluster, producerOf } = require('./kafka');
const { log } = require('./log');
const outbox = require('./outboxRepository');
const { runProcess } = require('./process');
const { settings } = require('./settings');
const { fail, startPublish, startTracing } = require('./tracing');

// What is wrong with the record itself. All else may be over in a moment.
const REFUSED = new Set([
  'MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_TOPIC_EXCEPTION', 'INVALID_RECORD',
]);
const RESTING_MAX = 1000;
const PURGE_EVERY_MS = 60_000;

/** The keys that have failed: how often in a row, and until when they rest. */
class RestingKeys {
  #keys = new Map();

  constructor(firstMs) {
    this.firstMs = firstMs;
  }

  failed(key) {
    const failures = (this.#keys.get(key)?.failures ?? 0) + 1;
    this.#keys.set(key, { failures, until: Date.now() + backoffMs(failures, this.firstMs) });
  }

  recovered(key) {
    this.#keys.delete(key);
  }

  now() {
    const now = Date.now();
    return [...this.#keys].filter(([, { until }]) => until > now).map(([key]) => key);
  }
}

function byKey(rows) {
  const keys = new Map();
  for (const row of rows) keys.set(row.aggregateId, [...(keys.get(row.aggregateId) ?? []), row]);
  return [...keys.values()];
}

function metadataOf(row) {
  try {
    return JSON.parse(row.metadata ?? '{}') ?? {};
  } catch {
    return {};
  }
}

/** A worker on one table. `pass` is all of its work; `run` repeats it. */
function createWorker({ pool, producer, tracer, count }, given) {
  const resting = new RestingKeys(given.retrySleepMs);
  const stopping = new AbortController();

  async function send(row) {
    const { traceparent } = metadataOf(row);
    const topic = given.prefix + row.eventType;
    const span = startPublish(tracer, traceparent, { topic, 'event.id': row.id });
    try {
      const headers = { event_id: row.id, event_type: row.eventType };
      if (typeof traceparent === 'string') headers.traceparent = traceparent;
      const message = { key: row.aggregateId, value: written(row, given.service), headers };
      await producer.send({ topic, messages: [message], acks: -1, timeout: 10_000 });
    } catch (error) {
      fail(span, error);
      throw error;
    } finally {
      span.end();
    }
  }

  /** The rows of one key, one after the other, up to the first that cannot be sent. */
  async function sendKey(rows) {
    const sent = [];
    for (const row of rows) {
      try {
        await send(row);
        sent.push(row);
      } catch (error) {
        const dead = error instanceof PermanentError || REFUSED.has(brokerError(error));
        return { sent, failed: { row, error, dead } };
      }
    }
    return { sent };
  }

  function tell({ sent, failed }) {
    const ids = (row) => ({
      eventId: row.id, traceId: metadataOf(row).traceId, topic: given.prefix + row.eventType,
    });
    for (const row of sent) {
      resting.recovered(row.aggregateId);
      count.published();
      log('INFO', 'published', ids(row));
    }
    if (!failed) return;
    const { row, error, dead } = failed;
    if (!dead) resting.failed(row.aggregateId);
    count[dead ? 'dead' : 'failed']();
    const fate = dead ? 'given up' : 'failed, is tried again';
    log(dead ? 'ERROR' : 'WARN', fate, { ...ids(row), error: error.message });
  }

  const note = (tx, { row, error, dead }) =>
    outbox.markFailed(tx, row.id, error.message.slice(0, 1000), dead);

  /** Returns how many rows it had to do with. */
  async function pass() {
    const asleep = resting.now();
    // In an outage every key rests. There is no use in finding out about more and more of them.
    if (asleep.length >= RESTING_MAX) return 0;
    const outcomes = await transaction(pool, async (tx) => {
      const rows = await outbox.claim(tx, given.batchSize, asleep);
      const sendings = await Promise.all(byKey(rows).map(sendKey));
      await outbox.markProcessed(tx, sendings.flatMap(({ sent }) => sent.map((row) => row.id)));
      for (const { failed } of sendings) {
        if (failed) await note(tx, failed);
      }
      return sendings;
    });
    outcomes.forEach(tell);
    return outcomes.length;
  }

  async function purgeNowAndThen(state) {
    if (!given.keepDays || Date.now() < state.purgeAt) return;
    state.purgeAt = Date.now() + PURGE_EVERY_MS;
    const purged = await transaction(pool, (tx) => outbox.purge(tx, given.keepDays));
    if (purged > 0) log('INFO', 'purged', { purged });
  }

  const wait = (ms) => sleep(ms, undefined, { signal: stopping.signal }).catch(() => {});

  async function run() {
    const state = { purgeAt: 0, failures: 0 };
    while (!stopping.signal.aborted) {
      try {
        const worked = await pass();
        await purgeNowAndThen(state);
        state.failures = 0;
        if (worked === 0) await wait(given.idleSleepMs);
      } catch (error) {
        // The database: what was sent and not written down is sent again.
        state.failures += 1;
        log('WARN', 'pass failed, is tried again', { error: error.message });
        await wait(backoffMs(state.failures, given.retrySleepMs));
      }
    }
  }

  return { pass, run, stop: () => stopping.abort() };
}

async function start() {
  const given = settings();
  const tracing = startTracing(given.service, given.collector);
  const { registry, count } = outboxMetrics(given.service);
  const pool = connect(given.databaseUrl, 2);
  const producer = producerOf(cluster(given));
  const server = await serve(given.listen, registry, () => databaseProblem(pool));
  await outbox.prepare(pool);
  await producer.connect();
  const worker = createWorker({ pool, producer, tracer: tracing.tracer, count }, given);
  const running = worker.run();
  log('INFO', 'worker runs');
  return async () => {
    worker.stop();
    await running;
    await producer.disconnect();
    await pool.end();
    server.close();
    await tracing.stop();
  };
}

if (require.main === module) runProcess(start);

module.exports = { createWorker };
