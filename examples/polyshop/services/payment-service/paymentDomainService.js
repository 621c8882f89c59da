// Payments: what an order leads to, in the transaction that the event is entered in.
//
//   order.order.placed.v1       (none) → INITIATED → SUCCESS, with one payment.payment.succeeded.v1
//   order.order.cancelled.v1    SUCCESS → REFUNDED; before the payment, (none) → CANCELLED, and
//                               nothing is ever taken
//
// An order has one row, so a change waits for the one before it, and each state is entered once.
'use strict';
const { randomUUID } = require('node:crypto');
const { isUuid } = require('./envelope');
const { PermanentError } = require('./errors');
const outbox = require('./outboxRepository');

const PAYMENT_SUCCEEDED = 'payment.payment.succeeded.v1';

/** Handlers by event type. Each returns what it has done, for the log. */
function paymentHandlers({ paymentLimit }) {
  return {
    'order.order.placed.v1': (tx, data, metadata) =>
      pay(tx, placedOrder(data, paymentLimit), metadata),
    'order.order.cancelled.v1': (tx, data) => cancel(tx, data),
  };
}

function check(holds, problem) {
  if (!holds) throw new PermanentError(`Validation failed: ${problem}`);
}

function checkOrder({ orderId, userId }) {
  check(isUuid(orderId), 'orderId is no UUID');
  check(typeof userId === 'string' && userId !== '', 'no userId');
}

function placedOrder(data, limit) {
  checkOrder(data);
  const amount = data.totalAmount;
  check(Number.isSafeInteger(amount) && amount >= 0, 'totalAmount is no whole number of cents');
  check(amount <= limit, `${amount} is over the limit of ${limit}`);
  return data;
}

async function pay(tx, { orderId, userId, totalAmount }, metadata) {
  await tx.query(
    `INSERT INTO payments (id, order_id, user_id, amount, status)
     VALUES ($1, $2, $3, $4, 'INITIATED')
     ON CONFLICT (order_id) DO NOTHING`,
    [randomUUID(), orderId, userId, totalAmount],
  );
  // Here a payment provider would be called, with the order's id as its idempotency key.
  const changed = await tx.query(
    `UPDATE payments SET status = 'SUCCESS' WHERE order_id = $1 AND status = 'INITIATED'
     RETURNING id`,
    [orderId],
  );
  if (changed.rowCount === 0) return 'nothing to pay';
  await outbox.add(tx, {
    aggregateId: orderId,
    eventType: PAYMENT_SUCCEEDED,
    payload: { paymentId: changed.rows[0].id, orderId, userId, amount: totalAmount },
    metadata: { ...metadata, userId },
  });
  return 'payment succeeded';
}

const CANCELLED = { REFUNDED: 'payment refunded', CANCELLED: 'payment cancelled' };

async function cancel(tx, data) {
  checkOrder(data);
  const row = await tx.query(
    `INSERT INTO payments AS p (id, order_id, user_id, amount, status)
     VALUES ($1, $2, $3, 0, 'CANCELLED')
     ON CONFLICT (order_id) DO UPDATE SET status = CASE p.status
       WHEN 'SUCCESS' THEN 'REFUNDED' WHEN 'INITIATED' THEN 'CANCELLED' ELSE p.status END
     RETURNING status`,
    [randomUUID(), data.orderId, data.userId],
  );
  // Here the provider would be told to pay back, with the payment's id as its idempotency key.
  return CANCELLED[row.rows[0].status];
}

module.exports = { PAYMENT_SUCCEEDED, paymentHandlers };
