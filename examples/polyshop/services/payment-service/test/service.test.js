// The whole service as a process: what it consumes, serves and logs.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const { fixture, eventually, placed, cancelled, TRACE, PARENT } = require('./fixture');

const PLACED = 'order.order.placed.v1';
const CANCELLED = 'order.order.cancelled.v1';
const TOPICS = [PLACED, CANCELLED, `${PLACED}.dlt`, `${CANCELLED}.dlt`];

async function committed(shop, eventType) {
  const topic = shop.topicOf(eventType);
  const groupId = `${shop.given.prefix}payment-service`;
  const [{ partitions }] = await shop.admin.fetchOffsets({ groupId, topics: [topic] });
  return partitions.reduce((sum, { offset }) => sum + Math.max(Number(offset), 0), 0);
}

const ask = async (port, path) => {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return [response.status, await response.text()];
};

// A3-13, A3-14: the saga's part of this service, and every line about an event with its ids.
test('orders are paid and refunded, the rest is dead-lettered', async (t) => {
  const shop = await fixture(t, { topics: TOPICS });
  const program = shop.launch('main.js');
  await program.logged('consumer runs');
  const paid = placed({}, { traceId: TRACE, traceparent: PARENT });
  const dead = placed({ totalAmount: 1_000_001 });
  await shop.send(PLACED, paid, { traceparent: PARENT });
  await shop.send(PLACED, paid);
  await shop.send(PLACED, dead);
  const payments = (status) => shop.rows('SELECT 1 FROM payments WHERE status = $1', status);
  await eventually('the payment', async () => (await payments('SUCCESS')).length === 1);
  await shop.send(CANCELLED, cancelled(paid.data.orderId));
  await eventually('the refund', async () => (await payments('REFUNDED')).length === 1);
  const [letter] = await shop.records(`${PLACED}.dlt`, 1);
  assert.equal(JSON.parse(letter.value).eventId, dead.eventId);
  await eventually('the offsets move on', async () => (await committed(shop, PLACED)) === 3);

  const { port } = await program.logged('listening');
  assert.equal((await ask(port, '/livez'))[0], 200);
  assert.deepEqual(await ask(port, '/readyz'), [200, 'ok\n']);
  assert.equal((await ask(port, '/nothing'))[0], 404);
  const [, metrics] = await ask(port, '/metrics');
  const counts = { handled: 2, duplicates: 1, dead_lettered: 1, retried: 0 };
  for (const [name, value] of Object.entries(counts)) {
    const line = `postrider_consumer_${name}_total{consumer="payment-service"} ${value}\n`;
    assert.ok(metrics.includes(line), name);
  }
  const { code, lines } = await program.stop();
  assert.equal(code, 0);
  const about = lines.filter((line) => line.topic);
  assert.equal(about.length, 4);
  for (const line of about) assert.ok(line.eventId && line.traceId, JSON.stringify(line));
  const traces = about.filter((line) => line.eventId === paid.eventId).map((line) => line.traceId);
  assert.deepEqual(traces, [TRACE, TRACE]);
});

// A3-11: a temporary error is tried again with growing waits, holds back what comes after it, and
// is no dead letter.
test('a temporary error is waited for', async (t) => {
  const shop = await fixture(t, { topics: TOPICS });
  await shop.rows('ALTER TABLE outbox_events RENAME TO away');
  const program = shop.launch('main.js');
  const event = placed();
  const later = placed({ orderId: event.data.orderId });
  await shop.send(PLACED, event);
  await shop.send(PLACED, later);
  const failed = await eventually('four failures', () => {
    const lines = program.lines().filter((line) => line.message === 'failed, is tried again');
    return lines.length >= 4 && lines;
  });
  assert.ok(failed.every((line) => line.eventId === event.eventId), JSON.stringify(failed));
  const times = failed.map((line) => Date.parse(line.timestamp));
  // Half of 400 ms is the least that the third wait can be, 100 ms the most of the first.
  assert.ok(times[3] - times[2] >= 200, JSON.stringify(times));
  assert.equal(await committed(shop, PLACED), 0);
  const { port } = await program.logged('listening');
  await eventually('it is ready nevertheless', async () => (await ask(port, '/readyz'))[0] === 200);
  await shop.rows('ALTER TABLE away RENAME TO outbox_events');
  await eventually('both are done with', async () => (await committed(shop, PLACED)) === 2);
  assert.equal((await shop.rows('SELECT 1 FROM payments')).length, 1);
  const ends = await shop.admin.fetchTopicOffsets(shop.topicOf(`${PLACED}.dlt`));
  assert.ok(ends.every((end) => end.high === '0'));
  assert.equal((await program.stop()).code, 0);
});

test('a service that lacks a setting says which', async (t) => {
  const shop = await fixture(t);
  delete shop.environment.KAFKA_BOOTSTRAP;
  const program = shop.launch('main.js');
  assert.equal(await program.ended, 1);
  assert.equal(program.lines()[0].error, 'please set KAFKA_BOOTSTRAP');
});
