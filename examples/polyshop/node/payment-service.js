// payment-service in Node.js: pays an order that was placed, and says so with payment.payment.succeeded.v1.
//
// Of Postrider it knows the tables processed_events and outbox_events and nothing else. A relay publishes what
// stands in the latter.
'use strict';
const { randomUUID } = require('node:crypto');
const { Kafka, Partitioners, logLevel } = require('kafkajs');
const { Pool } = require('pg');

const SERVICE = 'payment-service';
const PREFIX = process.env.TOPIC_PREFIX ?? '';
const TOPIC = `${PREFIX}order.order.placed.v1`;
const LIMIT = Number(process.env.PAYMENT_LIMIT || 1_000_000);

/** What will never succeed: it goes to the dead-letter topic at once. */
class PermanentError extends Error {}

const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 8 });
pool.on('error', (error) => log('WARN', 'connection lost', { error: error.message }));
const kafka = new Kafka({
  clientId: SERVICE,
  brokers: process.env.KAFKA_BOOTSTRAP.split(','),
  logLevel: logLevel.ERROR,
});
const consumer = kafka.consumer({ groupId: `${PREFIX}${SERVICE}` });
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });

function log(level, message, fields = {}) {
  const line = { timestamp: new Date().toISOString(), level, service: SERVICE, message, ...fields };
  process.stderr.write(`${JSON.stringify(line)}\n`);
}

/** Everything that the event leads to, in one transaction; nothing at all for an event that was processed before. */
async function settle(envelope) {
  const { eventId, eventType, source, data, metadata } = envelope;
  if (data.totalAmount > LIMIT) {
    throw new PermanentError(`Validation failed: ${data.totalAmount} is over the limit of ${LIMIT}`);
  }
  const database = await pool.connect();
  try {
    await database.query('BEGIN');
    const entered = await database.query(
      'INSERT INTO processed_events (event_id, event_type, source) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
      [eventId, eventType, source],
    );
    if (entered.rowCount === 1) await pay(database, data, { eventId, ...metadata });
    await database.query('COMMIT');
    return entered.rowCount === 1;
  } catch (error) {
    await database.query('ROLLBACK').catch(() => {});
    throw error;
  } finally {
    database.release();
  }
}

async function pay(database, order, cause) {
  const paymentId = randomUUID();
  await database.query(
    `INSERT INTO payments (id, order_id, user_id, amount, status) VALUES ($1, $2, $3, $4, 'INITIATED')
     ON CONFLICT (order_id) DO NOTHING`,
    [paymentId, order.orderId, order.userId, order.totalAmount],
  );
  // Here a payment provider would be called, with the order's id as its idempotency key.
  const changed = await database.query(
    `UPDATE payments SET status = 'SUCCESS' WHERE order_id = $1 AND status = 'INITIATED' RETURNING id`,
    [order.orderId],
  );
  if (changed.rowCount === 0) return;
  const payload = {
    paymentId: changed.rows[0].id, orderId: order.orderId, userId: order.userId, amount: order.totalAmount,
  };
  const metadata = {
    traceId: cause.traceId, traceparent: cause.traceparent, correlationId: cause.correlationId,
    causationId: cause.eventId, userId: order.userId,
  };
  await database.query(
    `INSERT INTO outbox_events (id, aggregate_id, event_type, payload, metadata)
     VALUES ($1, $2, 'payment.payment.succeeded.v1', $3, $4)`,
    [randomUUID(), order.orderId, JSON.stringify(payload), JSON.stringify(metadata)],
  );
}

/** Acknowledged by the broker before the original is. It is not in processed_events: sent again, it runs. */
async function bury(message, envelope, error) {
  const letter = {
    eventId: envelope?.eventId ?? null,
    originalEvent: envelope ?? message.value?.toString() ?? null,
    errorMessage: error.message,
    failedAt: new Date().toISOString(),
    consumerService: SERVICE,
  };
  await producer.send({ topic: `${TOPIC}.dlt`, messages: [{ key: message.key, value: JSON.stringify(letter) }] });
}

function parse(message) {
  try {
    const envelope = JSON.parse(message.value.toString());
    if (envelope.eventId && envelope.data) return envelope;
  } catch { /* not JSON, or no envelope */ }
  return undefined;
}

// The offset moves on when this returns. What it throws is temporary: kafkajs tries again with a growing wait.
async function eachMessage({ message }) {
  const envelope = parse(message);
  const ids = { eventId: envelope?.eventId, traceId: envelope?.metadata?.traceId };
  try {
    if (!envelope) throw new PermanentError('message is no envelope');
    const first = await settle(envelope);
    log('INFO', first ? 'payment succeeded' : 'duplicate', { ...ids, orderId: envelope.data.orderId });
  } catch (error) {
    if (!(error instanceof PermanentError)) {
      log('WARN', 'failed, is tried again', { ...ids, error: error.message });
      throw error;
    }
    await bury(message, envelope, error);
    log('ERROR', 'dead-lettered', { ...ids, error: error.message });
  }
}

// A service that no longer consumes must not look as if it did.
consumer.on(consumer.events.CRASH, ({ payload }) => {
  log('ERROR', 'consumer crashed', { error: payload.error.message });
  if (!payload.restart) process.exit(1);
});

async function main() {
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topics: [TOPIC], fromBeginning: true });
  await consumer.run({ eachMessage });
  log('INFO', 'consumer runs');
}

let stopping;
function stop() {
  stopping ??= leave().finally(() => process.exit(0));
}

async function leave() {
  await consumer.disconnect();
  await producer.disconnect();
  await pool.end();
}

process.on('SIGTERM', stop);
process.on('SIGINT', stop);
main().catch((error) => { log('ERROR', 'cannot run', { error: error.message }); process.exit(1); });
