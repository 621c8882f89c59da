// The worker on real tables and topics: order, failures, outages, death.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const { connect } = require('../database');
const outbox = require('../outboxRepository');
const { createWorker } = require('../outboxWorker');
const { fixture, eventually, TRACE, PARENT } = require('./fixture');

const EVENT = 'payment.payment.succeeded.v1';
const count = { published() {}, failed() {}, dead() {} };
const fast = { RETRY_SLEEP_MS: '5', IDLE_SLEEP_MS: '20' };

// Ends whoever works on a schema's outbox.
const TERMINATE = `
  SELECT pg_terminate_backend(pid) FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
  WHERE c.relname = 'outbox_events' AND c.relnamespace = $1::regnamespace
    AND pid <> pg_backend_pid()`;

function insert(shop, aggregateId, payload, { eventType = EVENT, metadata } = {}) {
  return outbox.add(shop.pool, { aggregateId, eventType, payload, metadata });
}

function worker(shop, more = {}) {
  const { pool, producer, tracer } = shop;
  return createWorker({ pool, producer, tracer, count, ...more }, shop.given);
}

const stateOf = (shop) =>
  shop.rows('SELECT processed, processed_at, error_message FROM outbox_events');
const where = (shop, condition) => shop.rows(`SELECT 1 FROM outbox_events WHERE ${condition}`);
const left = async (shop) => (await where(shop, 'NOT processed')).length;

// A3-02, A3-03, A3-04: the envelope is the row, the key its aggregate, and the row is settled after
// the send.
test('a row becomes one record with its envelope', async (t) => {
  const shop = await fixture(t, { topics: [EVENT] });
  const metadata = {
    traceId: TRACE, traceparent: PARENT, correlationId: 'c', idempotencyKey: 'i', userId: 'u',
  };
  const id = await insert(shop, 'order-1', { amount: 5 }, { metadata });
  assert.equal(await worker(shop).pass(), 1);
  const [record] = await shop.records(EVENT, 1);
  assert.equal(record.key.toString(), 'order-1');
  assert.equal(record.headers.traceparent.toString(), PARENT);
  const [{ created_at: createdAt }] = await shop.rows(
    `SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS created_at
     FROM outbox_events`,
  );
  assert.deepEqual(JSON.parse(record.value), {
    eventId: id, timestamp: createdAt, eventType: EVENT, version: 1, source: 'payment-service',
    data: { amount: 5 }, metadata,
  });
  const [row] = await stateOf(shop);
  assert.ok(row.processed && row.processed_at && row.error_message === null, JSON.stringify(row));
  assert.equal(await worker(shop).pass(), 0);
});

// A3-15: a row by plain SQL, with no more than the columns that have no default.
test('a row without metadata has an envelope without any', async (t) => {
  const shop = await fixture(t, { topics: [EVENT] });
  const payload = '{"n": 12345678901234567890.10}';
  const into = 'INSERT INTO outbox_events (aggregate_id, event_type, payload)';
  await shop.rows(`${into} VALUES ($1, $2, $3)`, 'k', EVENT, payload);
  await worker(shop).pass();
  const [record] = await shop.records(EVENT, 1);
  assert.ok(record.value.toString().endsWith(`,"data":${payload},"metadata":{}}`));
  assert.equal(record.headers.traceparent, undefined);
});

// A3-07: several workers, sends that fail before and after the broker has them, and each key's
// events in order.
test('each key is published in order by several workers with failures', async (t) => {
  const shop = await fixture(t, { topics: [EVENT], more: { ...fast, BATCH_SIZE: '20' } });
  const [keys, each] = [8, 12];
  for (let number = 0; number < each; number += 1) {
    for (let key = 0; key < keys; key += 1) await insert(shop, `key-${key}`, { number });
  }
  let failures = 0;
  const unsteady = {
    async send(batch) {
      const chance = Math.random();
      if (chance < 0.1) throw new Error(`cut ${failures += 1}`);
      await shop.producer.send(batch);
      if (chance > 0.9) throw new Error(`acknowledgement lost ${failures += 1}`);
    },
  };
  const pools = [1, 2, 3].map(() => connect(shop.given.databaseUrl, 1));
  const workers = pools.map((pool) => worker(shop, { pool, producer: unsteady }));
  const running = workers.map((one) => one.run());
  await eventually('all is published', async () => (await left(shop)) === 0);
  workers.forEach((one) => one.stop());
  await Promise.all(running);
  await Promise.all(pools.map((pool) => pool.end()));
  assert.ok(failures > 0);
  assert.deepEqual(await where(shop, 'error_message IS NOT NULL'), []);

  const seen = new Map();
  for (const record of await shop.records(EVENT, keys * each)) {
    const numbers = seen.get(record.key.toString()) ?? [];
    const { data: { number } } = JSON.parse(record.value);
    // A repetition is of the event before; the first of each comes in order.
    if (number !== numbers.at(-1)) numbers.push(number);
    seen.set(record.key.toString(), numbers);
  }
  assert.equal(seen.size, keys);
  for (const numbers of seen.values()) assert.deepEqual(numbers, [...Array(each).keys()]);
});

test('rows that one worker holds are not sent by another', async (t) => {
  const shop = await fixture(t, { topics: [EVENT] });
  await insert(shop, 'a', { number: 0 });
  await insert(shop, 'a', { number: 1 });
  await insert(shop, 'b', { number: 0 });
  const holder = await shop.pool.connect();
  await holder.query('BEGIN');
  const rows = "SELECT 1 FROM outbox_events WHERE aggregate_id = 'a' ORDER BY created_at";
  await holder.query(`${rows} LIMIT 1 FOR UPDATE`);
  assert.equal(await worker(shop).pass(), 1);
  const sent = await shop.rows('SELECT aggregate_id FROM outbox_events WHERE processed');
  assert.deepEqual(sent, [{ aggregate_id: 'b' }]);
  await holder.query('ROLLBACK');
  holder.release();
});

// A3-05: while the broker cannot take it a row stays, with the reason; it is sent when the broker
// can.
test('a row waits for its topic and loses its error when it is sent', async (t) => {
  const shop = await fixture(t, { topics: ['other'], more: fast });
  await insert(shop, 'a', { number: 0 });
  await insert(shop, 'a', { number: 1 });
  await insert(shop, 'b', {}, { eventType: 'other' });
  const one = worker(shop);
  await one.pass();
  const [first, second, other] = await shop.rows('SELECT * FROM outbox_events ORDER BY created_at');
  assert.deepEqual([first.processed, second.processed, other.processed], [false, false, true]);
  assert.match(first.error_message, /topic/);
  assert.equal(second.error_message, null);
  await shop.createTopics([EVENT]);
  const running = one.run();
  await eventually('both are published', async () => (await left(shop)) === 0);
  one.stop();
  await running;
  const sent = (await shop.records(EVENT, 2)).map((record) => JSON.parse(record.value).data.number);
  assert.deepEqual(sent, [0, 1]);
  assert.deepEqual(await where(shop, 'error_message IS NOT NULL'), []);
});

test('a key that has failed rests, and others do not', async (t) => {
  const shop = await fixture(t, { topics: [EVENT], more: { RETRY_SLEEP_MS: '10000' } });
  let cut = true;
  const send = async (batch) => {
    if (cut) throw new Error('cut');
    await shop.producer.send(batch);
  };
  const one = worker(shop, { producer: { send } });
  await insert(shop, 'a', {});
  assert.equal(await one.pass(), 1);
  cut = false;
  await insert(shop, 'b', {});
  assert.equal(await one.pass(), 1);
  assert.equal(await one.pass(), 0);
  assert.deepEqual(await shop.rows('SELECT aggregate_id FROM outbox_events WHERE processed'), [
    { aggregate_id: 'b' },
  ]);
});

// A3-05: the network is cut, and comes back.
test('a broker that is away costs nothing but time', async (t) => {
  const net = require('node:net');
  let cut = false;
  const open = new Set();
  const socketFactory = ({ host, port, onConnect }) => {
    const socket = net.connect(cut ? { host, port: 1 } : { host, port }, onConnect);
    open.add(socket);
    return socket;
  };
  const shop = await fixture(t, { topics: [EVENT], more: fast, kafkaMore: { socketFactory } });
  const one = worker(shop);
  cut = true;
  open.forEach((socket) => socket.destroy(new Error('cut')));
  await insert(shop, 'a', { number: 0 });
  await insert(shop, 'b', { number: 1 });
  const running = one.run();
  t.after(() => one.stop());
  await eventually('the outage is noted', async () =>
    (await stateOf(shop)).every((row) => !row.processed && row.error_message));
  cut = false;
  await eventually('all is published', async () => (await left(shop)) === 0);
  one.stop();
  await running;
  await shop.records(EVENT, 2);
});

// A3-08: what the broker will never take is told apart from what it has, and starves nobody.
test('dead rows hold back their own keys only', async (t) => {
  const shop = await fixture(t, { more: { ...fast, BATCH_SIZE: '3' } });
  await shop.createTopics([EVENT], [{ name: 'max.message.bytes', value: '2000' }]);
  const text = 'x'.repeat(4000);
  for (let key = 0; key < 5; key += 1) await insert(shop, `dead-${key}`, { text });
  await insert(shop, 'no topic', {}, { eventType: 'no topic!' });
  await insert(shop, 'dead-0', { number: 1 });
  await insert(shop, 'alive', { number: 2 });
  const one = worker(shop);
  while ((await one.pass()) > 0);
  const dead = await shop.rows(
    'SELECT aggregate_id FROM outbox_events WHERE processed AND error_message IS NOT NULL',
  );
  assert.equal(dead.length, 6);
  const [record, ...others] = await shop.records(EVENT, 1);
  assert.deepEqual([record.key.toString(), others.length], ['alive', 0]);
  assert.equal(await left(shop), 1);

  // Somebody decides that the key goes on without it.
  const given = "aggregate_id = 'dead-0' AND processed";
  await shop.rows(`UPDATE outbox_events SET error_message = NULL WHERE ${given}`);
  assert.equal(await one.pass(), 1);
  assert.equal(await left(shop), 0);
});

// A3-06: a worker that is killed has sent nothing that is lost, and what it sent is sent again
// under the same id.
test('a worker that dies between the send and the commit sends again', async (t) => {
  const shop = await fixture(t, { topics: [EVENT] });
  const id = await insert(shop, 'a', {});
  const pool = connect(shop.given.databaseUrl, 1);
  const dies = {
    async send(batch) {
      await shop.producer.send(batch);
      await shop.rows(TERMINATE, shop.name);
    },
  };
  await assert.rejects(worker(shop, { pool, producer: dies }).pass());
  await pool.end();
  assert.equal(await left(shop), 1);
  assert.equal(await worker(shop).pass(), 1);
  const ids = (await shop.records(EVENT, 2)).map((record) => JSON.parse(record.value).eventId);
  assert.deepEqual(ids, [id, id]);
});

test('what was sent long ago is purged, and nothing else', async (t) => {
  const shop = await fixture(t);
  const rows = ['a', 'b', 'c', 'd'].map((key) => insert(shop, key, {}));
  const [old, recent, dead, waiting] = await Promise.all(rows);
  await outbox.markProcessed(shop.pool, [old, recent]);
  await outbox.markFailed(shop.pool, dead, 'too large', true);
  const long = "UPDATE outbox_events SET processed_at = now() - interval '8 days'";
  await shop.rows(`${long} WHERE id <> $1`, recent);
  assert.equal(await outbox.purge(shop.pool, 7), 1);
  assert.equal(await outbox.find(shop.pool, old), undefined);
  for (const id of [recent, dead, waiting]) assert.equal((await outbox.find(shop.pool, id)).id, id);
});

test('the worker is a process that stops when it is told to', async (t) => {
  const shop = await fixture(t, { topics: [EVENT], more: fast });
  const id = await insert(shop, 'a', {}, { metadata: { traceId: TRACE, traceparent: PARENT } });
  const program = shop.launch('outboxWorker.js');
  const line = await program.logged('published');
  assert.deepEqual([line.eventId, line.traceId, line.service], [id, TRACE, 'payment-service']);
  const { port } = await program.logged('listening');
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  assert.match(metrics, /postrider_published_total\{outbox="payment-service"\} 1\n/);
  assert.equal((await program.stop()).code, 0);
});
