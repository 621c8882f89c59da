// What events do to payments, each delivered by hand to the consumer's code, with real Postgres and
// real Kafka.
'use strict';
const assert = require('node:assert/strict');
const { test } = require('node:test');
const { settle } = require('../consumer');
const { paymentHandlers } = require('../paymentDomainService');
const { fixture, placed, cancelled, envelope, TRACE, PARENT } = require('./fixture');

const ORDER_PLACED = 'order.order.placed.v1';
const count = { handled() {}, duplicates() {}, dead_lettered() {}, retried() {} };

/** Delivers a message as the consumer would. */
function deliver(shop, value, eventType = ORDER_PLACED) {
  const text = typeof value === 'string' || Buffer.isBuffer(value) ? value : JSON.stringify(value);
  const message = { key: Buffer.from('k'), value: Buffer.from(text), offset: '7', headers: {} };
  const parts = { ...shop, count, handlers: paymentHandlers(shop.given) };
  return settle(parts, { topic: shop.topicOf(eventType), partition: 0, message });
}

// A3-09, A3-13: one payment, one event, one row of processed_events, also for deliveries at the
// same time.
test('an order is paid once, however often it is delivered', async (t) => {
  const shop = await fixture(t);
  const event = placed({}, { traceId: TRACE, traceparent: PARENT, correlationId: 'c-1' });
  const deliveries = [1, 2, 3, 4].map(() => deliver(shop, event));
  assert.deepEqual(await Promise.all(deliveries), [true, true, true, true]);
  assert.equal(await deliver(shop, event), true);

  const { orderId } = event.data;
  const [payment, ...others] = await shop.rows('SELECT * FROM payments');
  assert.deepEqual(others, []);
  const { order_id: paidOrder, status, amount } = payment;
  assert.deepEqual([paidOrder, status, amount], [orderId, 'SUCCESS', '1500']);
  const processed = await shop.rows('SELECT event_id, event_type, source FROM processed_events');
  const entry = { event_id: event.eventId, event_type: ORDER_PLACED, source: 'order-service' };
  assert.deepEqual(processed, [entry]);
  const [row, ...more] = await shop.rows('SELECT * FROM outbox_events');
  assert.deepEqual(more, []);
  assert.equal(row.event_type, 'payment.payment.succeeded.v1');
  assert.equal(row.aggregate_id, orderId);
  assert.deepEqual(row.payload, { paymentId: payment.id, orderId, userId: 'u-1', amount: 1500 });
  const { traceparent, ...metadata } = row.metadata;
  assert.deepEqual(metadata, {
    traceId: TRACE, correlationId: 'c-1', causationId: event.eventId, userId: 'u-1',
  });
  assert.match(traceparent, new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
  assert.notEqual(traceparent, PARENT);
});

test('another event of a paid order pays nothing', async (t) => {
  const shop = await fixture(t);
  const event = placed();
  await deliver(shop, event);
  await deliver(shop, placed({ orderId: event.data.orderId }));
  assert.equal((await shop.rows('SELECT 1 FROM payments')).length, 1);
  assert.equal((await shop.rows('SELECT 1 FROM outbox_events')).length, 1);
  assert.equal((await shop.rows('SELECT 1 FROM processed_events')).length, 2);
});

// A3-03: what an event does not say is not made up.
test('metadata that is absent stays absent', async (t) => {
  const shop = await fixture(t);
  const event = placed();
  await deliver(shop, event);
  const [{ metadata }] = await shop.rows('SELECT metadata FROM outbox_events');
  const names = Object.keys(metadata).sort();
  assert.deepEqual(names, ['causationId', 'traceId', 'traceparent', 'userId']);
});

test('a payment is refunded once when its order is cancelled', async (t) => {
  const shop = await fixture(t);
  const event = placed();
  await deliver(shop, event);
  const cancellation = cancelled(event.data.orderId);
  await deliver(shop, cancellation, cancellation.eventType);
  const statuses = () => shop.rows('SELECT status, amount FROM payments');
  assert.deepEqual(await statuses(), [{ status: 'REFUNDED', amount: '1500' }]);
  await deliver(shop, cancelled(event.data.orderId), cancellation.eventType);
  await deliver(shop, placed({ orderId: event.data.orderId }));
  assert.deepEqual(await statuses(), [{ status: 'REFUNDED', amount: '1500' }]);
  assert.equal((await shop.rows('SELECT 1 FROM outbox_events')).length, 1);
});

test('an order that was cancelled first is never paid', async (t) => {
  const shop = await fixture(t);
  const event = placed();
  const cancellation = cancelled(event.data.orderId);
  await deliver(shop, cancellation, cancellation.eventType);
  await deliver(shop, event);
  assert.deepEqual(await shop.rows('SELECT status FROM payments'), [{ status: 'CANCELLED' }]);
  assert.equal((await shop.rows('SELECT 1 FROM outbox_events')).length, 0);
});

// A3-10: the payment, its event and the entry in processed_events are one transaction.
test('nothing is left of a handler that fails', async (t) => {
  const shop = await fixture(t);
  const event = placed();
  await shop.rows('ALTER TABLE outbox_events RENAME TO away');
  assert.equal(await deliver(shop, event), false);
  assert.equal((await shop.rows('SELECT 1 FROM payments')).length, 0);
  assert.equal((await shop.rows('SELECT 1 FROM processed_events')).length, 0);
  await shop.rows('ALTER TABLE away RENAME TO outbox_events');
  assert.equal(await deliver(shop, event), true);
  assert.equal((await shop.rows('SELECT 1 FROM outbox_events')).length, 1);
});

// A3-12: what can never be handled is a dead letter and is not entered as processed.
test('permanent errors go to the dead-letter topic', async (t) => {
  const shop = await fixture(t, { topics: [`${ORDER_PLACED}.dlt`] });
  const wrong = [
    [placed({ totalAmount: 1_000_001 }), 'Validation failed: 1000001 is over the limit of 1000000'],
    [placed({ orderId: 'no-uuid' }), 'Validation failed: orderId is no UUID'],
    [placed({ totalAmount: 1.5 }), 'Validation failed: totalAmount is no whole number of cents'],
    [placed({ userId: undefined }), 'Validation failed: no userId'],
    [{ ...placed(), eventId: 'no-uuid' }, 'message is no envelope: eventId is no UUID'],
    [{ ...placed(), data: [] }, 'message is no envelope: data is no object'],
    [{ ...placed(), version: '1' }, 'message is no envelope: version is no whole number'],
    [envelope('toString', {}), 'no handler for this eventType'],
    [['no', 'object'], 'message is no envelope: it is no JSON object'],
    // Postgres has no room for this character: an error of its class 22.
    [placed({ userId: 'a\u0000b' }), 'invalid byte sequence for encoding "UTF8": 0x00'],
  ];
  for (const [value] of wrong) assert.equal(await deliver(shop, value), true);
  const records = await shop.records(`${ORDER_PLACED}.dlt`, wrong.length);
  const letters = records.map((record) => JSON.parse(record.value));
  for (const [index, [value, errorMessage]] of wrong.entries()) {
    const letter = letters.find((found) => found.errorMessage === errorMessage);
    assert.ok(letter, `${errorMessage}: ${JSON.stringify(letters)}`);
    const { failedAt, ...rest } = letter;
    assert.equal(new Date(failedAt).toISOString(), failedAt);
    assert.deepEqual(rest, {
      eventId: value.eventId ?? null,
      originalEvent: JSON.parse(JSON.stringify(value)),
      errorMessage,
      consumerService: 'payment-service',
    }, `letter ${index}`);
  }
  assert.equal((await shop.rows('SELECT 1 FROM processed_events')).length, 0);
  assert.equal((await shop.rows('SELECT 1 FROM payments')).length, 0);
});

test('a message that is no JSON is its own dead letter', async (t) => {
  const shop = await fixture(t, { topics: [`${ORDER_PLACED}.dlt`] });
  const bytes = Buffer.from([0x7b, 0xff, 0x00, 0x7d]);
  assert.equal(await deliver(shop, bytes), true);
  const [letter] = await shop.records(`${ORDER_PLACED}.dlt`, 1);
  assert.deepEqual(letter.value, bytes);
  assert.deepEqual(letter.key, Buffer.from('k'));
  const header = (name) => letter.headers[name].toString();
  assert.equal(header('dlt_error_message'), 'message is no envelope: it is no JSON object');
  assert.equal(header('dlt_consumer_service'), 'payment-service');
  assert.equal(header('dlt_original_topic'), shop.topicOf(ORDER_PLACED));
  assert.equal(header('dlt_original_position'), '0@7');
});

test('a dead letter holds the original to the last digit', async (t) => {
  const shop = await fixture(t, { topics: [`${ORDER_PLACED}.dlt`] });
  const text = JSON.stringify(placed()).replace('1500', '12345678901234567890.10');
  assert.equal(await deliver(shop, text), true);
  const [letter] = await shop.records(`${ORDER_PLACED}.dlt`, 1);
  assert.ok(letter.value.toString().includes(`"originalEvent":${text},`));
});

test('a message that is too large for the frame is its own dead letter', async (t) => {
  const shop = await fixture(t);
  const limit = { name: 'max.message.bytes', value: '3000' };
  await shop.createTopics([`${ORDER_PLACED}.dlt`], [limit]);
  // Just below the limit with the headers around it.
  const text = JSON.stringify({ eventId: 'no-uuid', text: 'x'.repeat(2500) });
  assert.equal(await deliver(shop, text), true);
  const [letter] = await shop.records(`${ORDER_PLACED}.dlt`, 1);
  assert.equal(letter.value.toString(), text);
  assert.equal(letter.headers.dlt_event_id.toString(), 'no-uuid');
});

test('an event waits while its dead letter is not acknowledged', async (t) => {
  const shop = await fixture(t);
  const event = placed({ orderId: 'no-uuid' });
  assert.equal(await deliver(shop, event), false);
  await shop.createTopics([`${ORDER_PLACED}.dlt`]);
  assert.equal(await deliver(shop, event), true);
  await shop.records(`${ORDER_PLACED}.dlt`, 1);
});
